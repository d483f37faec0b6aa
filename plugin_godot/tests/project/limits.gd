extends "res://check.gd"
## What bounds an engine and its replies: time, memory, the processor's share, pauses, priorities; and an engine that loses its model.

const LONG := 200


func test() -> void:
	await refused_devices_and_budgets()
	var engine := new_engine()
	check_equal(await engine.load_finished, OK, "load")
	await deadlines(engine)
	await paused_engine(engine)
	await paused_tree(engine)
	await cpu_share(engine)
	await priorities(engine)
	await unload_in_the_middle(engine)
	engine.queue_free()
	await swapping()
	await guesses()
	await outgrown()


func refused_devices_and_budgets() -> void:
	var engine := BanterEngine.new()
	engine.chat_template = TEMPLATE
	root.add_child(engine)
	var npc := new_npc("Once upon a time", engine)
	engine.device = BanterEngine.DEVICE_CUDA  # the library for it is not in this project, whatever cards there are
	var told := listen(engine)
	var error: Error = engine.load_model(MODEL)
	if error == OK:
		error = await engine.load_finished
	check(await until(func() -> bool: return told.size() == 2), "no card: it is told")
	check_equal([error, told[0]], [ERR_UNAVAILABLE, ERR_UNAVAILABLE], "no card: %s" % [told])
	check(told[1].contains("CUDA") and told[1].contains("libbanter_cuda"), "why, in words: %s" % [told])
	check_equal([engine.backend_name, await npc.ask(" there was")], ["", ""], "nothing computes")
	engine.device = BanterEngine.DEVICE_AUTO
	engine.thread_count = 1
	check_equal(engine.load_model(MODEL), OK, "any device")
	check_equal(await engine.load_finished, OK, "is the processor")
	check(engine.backend_name.begins_with("cpu/") and engine.backend_reason.contains("libbanter_cuda"), "and says why: " + engine.backend_reason)
	engine.memory_budget_mb = 1
	told = listen(engine)
	check_equal(engine.load_model(MODEL), OK, "a budget that is smaller than the model")
	check_equal(await engine.load_finished, ERR_OUT_OF_MEMORY, "too large for it")
	check(told.size() == 2 and told[0] == ERR_OUT_OF_MEMORY and told[1].contains("budget"), "and says so: %s" % [told])
	engine.memory_budget_mb = 64
	check_equal(engine.load_model(MODEL), OK, "a budget with room")
	check_equal(await engine.load_finished, OK, "is enough")
	check(engine.metrics.weight_bytes + engine.metrics.kv_bytes_total <= 64 << 20, "and kept: %s" % engine.metrics)
	check((await npc.ask(" there was")).length() > 0, "it speaks within it")
	engine.queue_free()


func deadlines(engine: BanterEngine) -> void:
	var npc := new_npc("Once upon a time")
	engine.paused = true
	npc.deadline_ms = 30
	var told := listen(npc)
	check_equal(await npc.ask(" there was"), "", "nothing was said in time")
	check(told.size() == 2 and told[0] == ERR_TIMEOUT and told[1].length() > 20, "a deadline: %s" % [told])
	check_equal(npc.history, [], "and the conversation goes on without it")
	engine.paused = false
	npc.deadline_ms = 60000
	check((await npc.ask(" there was")).length() > 0, "in time")
	npc.queue_free()


func paused_engine(engine: BanterEngine) -> void:
	var npc := new_npc("Once upon a time")
	var wanted: String = await npc.ask(" there was a")
	npc.reset()
	engine.paused = true
	var ended: Array[String] = []
	npc.reply_finished.connect(func(text: String, _stats: Dictionary) -> void: ended.append(text))
	npc.say(" there was a")
	await create_timer(0.1).timeout  # a step that had begun is over
	var steps: int = engine.metrics.steps
	await create_timer(0.2).timeout
	check(npc.is_talking() and ended.is_empty() and engine.metrics.steps == steps, "a paused engine computes nothing")
	check_equal(engine.metrics.requests_active, 1, "but has the request")
	engine.paused = false
	check(await until(func() -> bool: return ended.size() == 1), "it goes on")
	check_equal(ended, [wanted] as Array[String], "with the same words")
	npc.queue_free()


## The engine's node goes on in pauses of the tree, unless the game wants it otherwise.
func paused_tree(engine: BanterEngine) -> void:
	var npc := new_npc("Once upon a time")
	paused = true
	check((await npc.ask(" there was")).length() > 0, "a dialogue while the game is paused")
	engine.process_mode = Node.PROCESS_MODE_PAUSABLE
	var ended: Array[String] = []
	npc.reply_finished.connect(func(text: String, _stats: Dictionary) -> void: ended.append(text))
	npc.say(" there was")
	await create_timer(0.2).timeout
	check(ended.is_empty() and npc.is_talking(), "an engine that pauses with the tree tells nothing")
	paused = false
	check(await until(func() -> bool: return ended.size() == 1), "until the game goes on")
	engine.process_mode = Node.PROCESS_MODE_ALWAYS
	npc.queue_free()


func cpu_share(engine: BanterEngine) -> void:
	var npc := new_npc("Once upon a time")
	npc.max_tokens = LONG
	var wanted: String = await npc.ask(" there was a")
	npc.reset()
	engine.cpu_share = 0.1
	var busy: int = engine.metrics.busy_microseconds
	var began := Time.get_ticks_usec()
	check_equal(await npc.ask(" there was a"), wanted, "the same words with a share of the time")
	var share := float(engine.metrics.busy_microseconds - busy) / (Time.get_ticks_usec() - began)
	check(share > 0.0 and share < 0.2, "a tenth of the time: %f" % share)
	engine.cpu_share = 1.0
	npc.queue_free()


## Who matters most is heard first, although it asked last: prompts are read in that order.
func priorities(engine: BanterEngine) -> void:
	engine.paused = true
	var npcs: Array[BanterNPC] = []
	var order: Array[int] = []
	for i in 6:
		npcs.append(new_npc("%d. Once upon a time" % i + " there was a big dog and a little cat.".repeat(24)))
		npcs[i].priority = 7 if i == 5 else 1
		npcs[i].max_tokens = 4
		npcs[i].text_received.connect(func(_text: String) -> void: order.append(i), CONNECT_ONE_SHOT)
		npcs[i].say(" They")
	await create_timer(0.1).timeout
	engine.paused = false
	check(await until(func() -> bool: return npcs.all(func(n: BanterNPC) -> bool: return not n.is_talking())), "all are answered")
	check(order.size() == 6 and order[0] == 5, "the one of priority 7 speaks first: %s" % [order])
	check(order.find(0) < order.find(4), "then those who came first: %s" % [order])
	for npc in npcs:
		npc.queue_free()


func unload_in_the_middle(engine: BanterEngine) -> void:
	var npc := new_npc("Once upon a time")
	npc.max_tokens = 400
	var ends: Array = []
	npc.reply_finished.connect(func(text: String, stats: Dictionary) -> void: ends.append([text.length() > 0, stats.finish_reason]))
	npc.failed.connect(func(code: int, message: String) -> void: ends.append([code, message.length() > 20]))
	engine.frame_budget_ms = 0.1
	npc.say(" there was a")
	npc.say(" and then")
	await npc.text_received
	engine.unload_model()
	check(not engine.is_model_loaded(), "no model any more")
	check(await until(func() -> bool: return not npc.is_talking()), "everything ends")
	check_equal(ends.size(), 2, "once each: %s" % [ends])
	check_equal(ends[0], [true, "cancelled"], "the reply that had begun, with what was said")
	check(await until(func() -> bool: return engine.metrics.weight_bytes == 0 and engine.metrics.kv_bytes_total == 0), "its memory is free: %s" % engine.metrics)
	check_equal(await npc.ask(" Hello?"), "", "nobody can answer")
	check_equal(ends[-1], [ERR_UNCONFIGURED, true], "and it is told why")
	engine.frame_budget_ms = 0
	check_equal(engine.load_model(MODEL), OK, "the model again")
	npc.max_tokens = 8
	check((await npc.ask(" So")).length() > 0, "it speaks again")
	check_equal(npc.history.size(), 4, "with what it remembers")
	npc.queue_free()


## Eight conversations in a pool with room for half of them: what does not fit is moved out, or computed again, and says the same.
func swapping() -> void:
	var wanted: Array[String] = []
	for budgets: Array in [[64, 0], [1, 0], [1, 16]]:
		var engine := BanterEngine.new()
		engine.chat_template = TEMPLATE
		engine.model_path = MODEL
		engine.kv_budget_mb = budgets[0]
		engine.swap_budget_mb = budgets[1]
		engine.thread_count = 1
		root.add_child(engine)
		var npcs: Array[BanterNPC] = []
		var replies: Array[String] = ["", "", "", "", "", "", "", ""]
		var most := [0]
		for i in 8:
			npcs.append(new_npc("%d. Once upon a time" % i, engine))
			npcs[i].max_tokens = LONG
			npcs[i].reply_finished.connect(func(text: String, _stats: Dictionary) -> void: replies[i] += text)
			npcs[i].say(" there was a")
			npcs[i].say(" and then")
		var silent := func() -> bool:
			most[0] = maxi(most[0], engine.metrics.get("kv_pages_swapped", 0))
			return npcs.all(func(n: BanterNPC) -> bool: return not n.is_talking())
		check(await until(silent, 60), "all are answered")
		if wanted.is_empty():
			wanted = replies
			check_equal(engine.metrics.preemptions, 0, "a pool with room for all")
		else:
			check_equal(replies, wanted, "the same words in a small pool, %s" % [budgets])
			check(engine.metrics.preemptions > 0, "which was too small: %s" % engine.metrics)
			check_equal(most[0] > 0, budgets[1] > 0, "pages outside of it, %s: %d" % [budgets, most[0]])
		engine.queue_free()


## Guessing changes how many steps it takes, not what is said.
func guesses() -> void:
	var words: Array[String] = []
	var steps: Array[int] = []
	for speculation: int in [BanterEngine.SPECULATION_NONE, BanterEngine.SPECULATION_NGRAM]:
		var engine := BanterEngine.new()
		engine.chat_template = TEMPLATE
		engine.model_path = MODEL
		engine.thread_count = 1
		engine.speculation = speculation
		root.add_child(engine)
		var npc := new_npc("Once upon a time, there was a little girl named Lily. She loved to play outside in the park.", engine)
		npc.max_tokens = LONG
		words.append(await npc.ask(" Once upon a time,") + await npc.ask(" Once upon a time,"))
		steps.append(engine.metrics.steps)
		engine.queue_free()
	check_equal(words[1], words[0], "the same words with guesses")
	check(steps[1] < steps[0], "in fewer steps: %s" % [steps])


## Conversations that outgrow their context, as each policy has it. A summary takes up to 200 tokens of it.
func outgrown() -> void:
	var engine := new_engine()
	for policy: int in [BanterNPC.CONTEXT_TRIM, BanterNPC.CONTEXT_SUMMARIZE, BanterNPC.CONTEXT_SLIDE]:
		var npc := new_npc("Once upon a time", engine)
		var room := 320 if policy == BanterNPC.CONTEXT_SUMMARIZE else 96
		npc.context_policy = policy
		npc.context_tokens = room
		npc.max_tokens = room / 4
		npc.reply_reserve_tokens = room / 4
		var dropped := [0, 0]
		npc.context_trimmed.connect(func(turns: int, tokens: int) -> void:
			dropped[0] += turns
			dropped[1] += tokens)
		for i in 20:
			check((await npc.ask(" and then the cat said")).length() > 0, "reply %d, policy %d" % [i, policy])
		check(dropped[0] > 0 and dropped[1] > 0, "context_trimmed, policy %d: %s" % [policy, dropped])
		check_equal(npc.history.size(), 40, "the game's history stays whole, policy %d" % policy)
		npc.reset()
		npc.max_tokens = room * 2
		dropped[1] = 0
		var stats: Array[Dictionary] = []
		npc.reply_finished.connect(func(_text: String, s: Dictionary) -> void: stats.append(s))
		await npc.ask(" there was a")
		if policy == BanterNPC.CONTEXT_SLIDE:
			check_equal([stats[0].generated_tokens, stats[0].finish_reason], [room * 2, "length"], "a reply slides on")
			check(dropped[1] > 0, "and tells what goes: %s" % [dropped])
		else:
			check_equal(stats[0].finish_reason, "context", "a reply ends with the context, policy %d" % policy)
		npc.queue_free()
	engine.queue_free()
