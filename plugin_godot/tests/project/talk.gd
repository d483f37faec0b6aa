extends "res://check.gd"
## Three characters stream at once; typed and untyped scripts; the pieces make up the whole, and others change nothing.

const SAID := [" there was a", " a dog saw a", " Tim had a big"]


func test() -> void:
	var engine := new_engine()
	var progress: Array[float] = []
	engine.load_progress.connect(func(fraction: float) -> void: progress.append(fraction))
	check(engine.is_model_loading(), "the load begins with entering the tree")
	check_equal(await engine.load_finished, OK, "load_finished")
	check(engine.is_model_loaded() and not engine.is_model_loading(), "the model is there")
	check(not progress.is_empty() and progress[-1] == 1.0 and engine.load_fraction == 1.0, "progress to the end")
	check(engine.backend_name.begins_with("cpu/"), "backend: " + engine.backend_name)
	check(not engine.backend_reason.is_empty(), "why this backend")
	check_equal(engine.model_info.architecture, "llama", "model_info")
	engine.frame_budget_ms = 0.1  # so that a reply takes many frames
	await three_at_once()
	await untyped()
	await spoken_by_itself(engine)
	metrics(engine)
	engine.queue_free()


func three_at_once() -> void:
	var npcs: Array[BanterNPC] = []
	var texts: Array[String] = ["", "", ""]
	var sentences: Array[PackedStringArray] = [[], [], []]
	var finished: Array[String] = ["", "", ""]
	var stats: Array[Dictionary] = [{}, {}, {}]
	var frames: Array[Dictionary] = [{}, {}, {}]
	for i in 3:
		var npc := new_npc("Once upon a time")
		npc.max_tokens = 100
		npc.text_received.connect(func(text: String) -> void:
			texts[i] += text
			frames[i][Engine.get_process_frames()] = true)
		npc.sentence_received.connect(func(text: String) -> void: sentences[i].append(text))
		npc.reply_finished.connect(func(text: String, s: Dictionary) -> void:
			finished[i] = text
			stats[i] = s)
		npcs.append(npc)
	for i in 3:
		check_equal(npcs[i].say(SAID[i]), 1, "the first request's id")
		check(npcs[i].is_talking(), "talking")
	check(await until(func() -> bool: return stats.all(func(s: Dictionary) -> bool: return not s.is_empty())), "all finish")
	var shared := 0
	for frame: int in frames[0]:
		shared += 1 if frames[1].has(frame) and frames[2].has(frame) else 0
	check(shared >= 5, "they stream in the same frames: %d" % shared)
	for i in 3:
		check(not npcs[i].is_talking(), "silent")
		check(texts[i].length() > 100 and texts[i] == finished[i], "pieces %d: %s" % [i, texts[i]])
		check(sentences[i].size() >= 2, "sentences: %s" % [sentences[i]])
		check_equal("".join(sentences[i]).replace(" ", "").replace("\n", ""), finished[i].replace(" ", "").replace("\n", ""), "sentences make up the reply")
		check_equal(stats[i].generated_tokens, 100, "tokens")
		check_equal(stats[i].finish_reason, "length", "finish_reason")
		check(stats[i].time_to_first_token_ms > 0.0 and stats[i].prompt_tokens > 0, "figures of the reply")
		check_equal(npcs[i].history, [{"role": "user", "content": SAID[i]}, {"role": "assistant", "content": finished[i]}], "history")
	var alone := new_npc("Once upon a time")
	alone.max_tokens = 100
	var reply: String = await alone.ask(SAID[1])
	check_equal(reply, finished[1], "the same words alone")
	alone.seed = 5
	alone.temperature = 1.0
	alone.reset()
	check(await alone.ask(SAID[1]) != reply, "warm words are others")
	for npc in npcs:
		npc.queue_free()
	alone.queue_free()


func untyped():
	var npc = ClassDB.instantiate("BanterNPC")
	root.add_child(npc)
	npc.persona = "Once upon a time"
	npc.max_tokens = 10
	npc.stop_strings = ["."]
	var reply = await npc.ask(" there was a")
	check(reply is String and not reply.contains("."), "an untyped script: %s" % reply)
	var id = npc.say("")
	check_equal(id, 2, "a second request")
	var told = await npc.reply_finished
	check(told[0] is String and told[1].request_id == 2, "the signal's arguments in an array")
	npc.queue_free()


## An ancestor that is an engine comes before the one that the tree has elsewhere.
func spoken_by_itself(other: BanterEngine) -> void:
	var engine := BanterEngine.new()
	engine.chat_template = TEMPLATE
	root.add_child(engine)
	var npc := new_npc("Once", engine)
	var before: int = other.metrics.requests_submitted
	var loaded := engine.load_model(MODEL)
	check_equal(loaded, OK, "load_model")
	check((await npc.ask(" upon")).length() > 0, "spoken to while the model is loading")
	check_equal(other.metrics.requests_submitted, before, "the other engine had nothing to do")
	npc.engine = other
	check((await npc.ask(" upon")).length() > 0, "with another engine")
	check_equal(other.metrics.requests_submitted, before + 1, "the engine that was set")
	check_equal(npc.history.size(), 4, "the history comes along")
	engine.unload_model()
	check(not engine.is_model_loaded() and engine.model_info.is_empty(), "unloaded")
	engine.queue_free()


func metrics(engine: BanterEngine) -> void:
	check(engine.metrics.decode_tokens > 300, "metrics: %s" % engine.metrics)
	check(engine.metrics.models_loaded == 1 and engine.metrics.weight_bytes > 1000000, "metrics of the model")
	check_equal(engine.get_monitor("models_loaded"), 1.0, "get_monitor")
	var monitors := Array(Performance.get_custom_monitor_names()).filter(func(n: String) -> bool: return n.begins_with("Banter "))
	check(monitors.size() >= 6, "monitors: %s" % [monitors])
	for monitor: StringName in monitors:
		check(Performance.get_custom_monitor(monitor) is float, monitor)
	var place := Node.new()
	root.add_child(place)
	for parent: Node in [root, place]:
		var twin := BanterEngine.new()
		twin.auto_load = false
		twin.name = "Twin"
		parent.add_child(twin)
	check_equal(Performance.get_custom_monitor_names().size(), monitors.size() + 12, "engines of one name have monitors of their own")
	check(Performance.has_custom_monitor("Banter Twin 2/active requests"), "with a number")
	place.free()
	root.get_node("Twin").free()
	check_equal(Performance.get_custom_monitor_names().size(), monitors.size(), "which go with it")
	engine.performance_monitors = false
	check(not Performance.has_custom_monitor(monitors[0]), "monitors go")
