extends "res://check.gd"
## Every request ends, and every await: cancelled, interrupted, with its node, its scene, its engine, in a signal's handler.

var _engine: BanterEngine
var _replies: Array[String] = []


func test() -> void:
	_engine = new_engine()
	await _engine.model_ready
	_engine.frame_budget_ms = 0.1
	await cancel()
	await interrupt()
	await silent_when_interrupted()
	await freed_in_the_middle()
	await freed_by_handlers()
	await scene_change()
	await fifty_in_a_frame()
	await engine_goes()


func talkative() -> BanterNPC:
	var npc := new_npc("Once upon a time")
	npc.max_tokens = 400
	return npc


func ask(npc: BanterNPC) -> void:
	_replies.append(await npc.ask(" there was a"))


func cancel() -> void:
	var npc := talkative()
	var ended: Array[Dictionary] = []
	npc.reply_finished.connect(func(_text: String, stats: Dictionary) -> void: ended.append(stats))
	var first := npc.say(" there was a")
	var second := npc.say(" and then")
	await npc.text_received
	check_equal(npc.cancel(first), OK, "cancel")
	check(await until(func() -> bool: return ended.size() == 1), "the first one ends")
	check_equal([ended[0].request_id, ended[0].finish_reason], [first, "cancelled"], "its end")
	check(npc.is_talking(), "the second one goes on")
	await npc.text_received
	check_equal(npc.cancel(second), OK, "cancel the second")
	check(await until(func() -> bool: return ended.size() == 2), "the second one ends")
	check_equal(npc.cancel(second), ERR_DOES_NOT_EXIST, "cancel what has ended")
	check_equal(npc.history.size(), 4, "what was said stays")
	npc.queue_free()


func interrupt() -> void:
	var npc := talkative()
	var ended: Array[int] = []
	npc.reply_finished.connect(func(_text: String, stats: Dictionary) -> void: ended.append(stats.request_id))
	_replies.clear()
	for i in 3:
		ask(npc)
	await npc.text_received
	npc.interrupt()
	npc.interrupt()
	check(await until(func() -> bool: return _replies.size() == 3), "all three are answered")
	check(_replies.any(func(r: String) -> bool: return r.length() > 0), "what was said before: %s" % [_replies])
	ended.sort()
	check_equal(ended, [1, 2, 3] as Array[int], "each ends once")
	check(not npc.is_talking(), "silent")
	_engine.frame_budget_ms = 0
	npc.max_tokens = 5
	check((await npc.ask(" Now")).length() > 0, "it speaks again")
	_engine.frame_budget_ms = 0.1
	npc.reset()
	check_equal(npc.history, [], "reset")
	npc.queue_free()


## Words that were on their way when somebody cut in belong to nobody: not in the frames after it, and not in the same one.
func silent_when_interrupted() -> void:
	var heard := [""]
	var npc := talkative()
	npc.text_received.connect(func(text: String) -> void: heard[0] += text)
	npc.sentence_received.connect(func(_text: String) -> void: heard[0] += "|")
	_engine.frame_budget_ms = 0  # many words in each frame
	for round in 4:
		_replies.clear()
		npc.max_tokens = 400
		ask(npc)
		await npc.text_received
		OS.delay_msec(30)  # more of them come meanwhile
		npc.interrupt()
		heard[0] = ""
		check(await until(func() -> bool: return _replies.size() == 1), "the interrupted reply ends")
		check_equal(heard[0], "", "nothing is heard of it")
		npc.max_tokens = 8
		ask(npc)
		check(await until(func() -> bool: return _replies.size() == 2), "the next one")
		check_equal(heard[0].replace("|", ""), _replies[1], "what is heard is the next reply")
	# A handler cuts in at the first words, with the rest of the reply and its end in the same frame.
	npc.max_tokens = 30
	npc.text_received.connect(func(_text: String) -> void:
		npc.interrupt()
		heard[0] = "", CONNECT_ONE_SHOT)
	_replies.clear()
	ask(npc)
	OS.delay_msec(200)
	check(await until(func() -> bool: return _replies.size() == 1), "it ends")
	check_equal(heard[0], "", "and says nothing more")
	_engine.frame_budget_ms = 0.1  # so that it goes on for many frames
	npc.max_tokens = 400
	var id := npc.say(" and")
	await npc.text_received
	check_equal(npc.cancel(id), OK, "cancel")
	heard[0] = ""
	npc.max_tokens = 8
	_replies.clear()
	ask(npc)
	check(await until(func() -> bool: return _replies.size() == 1), "the one behind the cancelled one")
	check_equal(heard[0].replace("|", ""), _replies[0], "is heard alone")
	npc.queue_free()


func freed_in_the_middle() -> void:
	_replies.clear()
	var npc := talkative()
	ask(npc)
	ask(npc)
	await npc.text_received
	npc.queue_free()
	check(await until(func() -> bool: return _replies.size() == 2), "awaits end with their node: %s" % [_replies])
	check(_replies[0].length() > 0 and _replies[1] == "", "with what was said: %s" % [_replies])
	_replies.clear()
	var at_once := talkative()
	ask(at_once)
	at_once.free()
	check(await until(func() -> bool: return _replies.size() == 1), "an await ends when its node is freed at once")
	check(await until(func() -> bool: return _engine.metrics.requests_active == 0), "and the engine has nothing left to do")


## Handlers may do what they like, to the node that tells them too.
func freed_by_handlers() -> void:
	var nodes := [talkative(), talkative()]
	nodes[1].say(" there was a")
	nodes[0].text_received.connect(func(_text: String) -> void:
		nodes[1].free()
		nodes[0].queue_free(), CONNECT_ONE_SHOT)
	nodes[0].say(" there was a")
	check(await until(func() -> bool: return not is_instance_valid(nodes[0])), "freed by a handler")
	check(not is_instance_valid(nodes[1]), "a neighbour is freed by a handler")
	var talker := new_npc("Once")
	talker.max_tokens = 3
	var turns: Array[String] = []
	talker.reply_finished.connect(func(text: String, _stats: Dictionary) -> void:
		turns.append(text)
		if turns.size() < 3:
			talker.say("and"))
	talker.say(" upon")
	check(await until(func() -> bool: return turns.size() == 3), "a handler speaks again")
	talker.queue_free()


func scene_change() -> void:
	var scene := Node.new()
	var npc := BanterNPC.new()
	npc.name = "Mira"
	npc.persona = "Once upon a time"
	npc.max_tokens = 300
	scene.add_child(npc)
	npc.owner = scene
	var packed := PackedScene.new()
	check_equal(packed.pack(scene), OK, "pack a scene with a character")
	scene.free()
	check_equal(change_scene_to_packed(packed), OK, "a scene with a character")
	check(await until(func() -> bool: return current_scene != null), "it comes")
	var mira: BanterNPC = current_scene.get_node("Mira")
	check_equal([mira.persona, mira.max_tokens], ["Once upon a time", 300], "its properties were saved")
	_replies.clear()
	ask(mira)
	await mira.text_received
	var old := mira.get_instance_id()
	check_equal(change_scene_to_packed(packed), OK, "another scene in the middle of a reply")
	check(await until(func() -> bool: return _replies.size() == 1), "the await ends with the scene")
	check(await until(func() -> bool: return current_scene != null and current_scene.get_node("Mira").get_instance_id() != old), "the new scene")
	mira = current_scene.get_node("Mira")
	mira.max_tokens = 4
	check((await mira.ask(" there was")).length() > 0, "its character speaks")
	current_scene.queue_free()
	current_scene = null


func fifty_in_a_frame() -> void:
	for round in 3:
		var npcs: Array[BanterNPC] = []
		_replies.clear()
		for i in 50:
			npcs.append(talkative())
			ask(npcs[i])
		for npc in npcs:
			if round == 0:
				npc.free()
			else:
				npc.queue_free()
		if round == 2:
			for i in 3:
				await process_frame
		check(await until(func() -> bool: return _replies.size() == 50), "fifty awaits end: %d" % _replies.size())
	check(await until(func() -> bool: return _engine.metrics.requests_active == 0), "nothing runs on")
	var last := new_npc("Once")
	check((await last.ask(" upon")).length() > 0, "and the engine is well")
	last.queue_free()


func engine_goes() -> void:
	var npc := talkative()
	var failures: Array[int] = []
	npc.failed.connect(func(code: int, _message: String) -> void: failures.append(code))
	_replies.clear()
	ask(npc)
	await npc.text_received
	_engine.queue_free()
	check(await until(func() -> bool: return _replies.size() == 1), "the await ends with the engine")
	check_equal(failures, [ERR_UNAVAILABLE] as Array[int], "and failed says why")
	check(not is_instance_valid(_engine), "the engine is gone")
	check_equal(await npc.ask("Hello?"), "", "nobody answers")
	check_equal(failures[-1], ERR_UNCONFIGURED, "because there is no engine")
	_engine = new_engine()
	npc.max_tokens = 4
	check((await npc.ask(" upon")).length() > 0, "a new engine serves the same character")
	check_equal(npc.history.size(), 2, "with its history")
	var handler := talkative()
	handler.text_received.connect(func(_text: String) -> void: _engine.free(), CONNECT_ONE_SHOT)
	_replies.clear()
	ask(handler)
	check(await until(func() -> bool: return _replies.size() == 1), "a handler frees the engine")
	for node: Node in [npc, handler]:
		node.queue_free()
