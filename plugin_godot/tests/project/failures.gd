extends "res://check.gd"
## What goes wrong is told by signals and error codes, in words, and every await ends.


func test() -> void:
	await without_engine()
	await without_model()
	await wrong_paths()
	await cancelled_loads()
	await freed_while_loading()
	await wrong_template()
	await too_long()


## Waits for the next failure.
func failure_of(node: Node) -> Array:
	var told := listen(node)
	check(await until(func() -> bool: return not told.is_empty()), "failed is told")
	check(told.size() == 2 and told[1].length() > 20, "in words: %s" % [told])
	return told


func without_engine() -> void:
	var npc := new_npc()
	npc.say("Hello?")
	check_equal((await failure_of(npc))[0], ERR_UNCONFIGURED, "say without an engine")
	check_equal(await npc.ask("Hello?"), "", "ask without an engine")
	check_equal(await npc.save_state(), PackedByteArray(), "save without an engine")
	check_equal(await npc.load_state(PackedByteArray([1, 2, 3])), ERR_UNCONFIGURED, "load without an engine")
	check(not npc.is_talking(), "nothing waits for ever")
	npc.queue_free()


func without_model() -> void:
	var engine := BanterEngine.new()
	root.add_child(engine)
	var npc := new_npc("", engine)
	check_equal(await npc.ask("Hello?"), "", "ask without a model")
	check_equal(engine.metrics, {}, "nothing to measure")
	check_equal(engine.load_model(""), ERR_INVALID_PARAMETER, "an empty path")
	check_equal((await failure_of(engine))[0], ERR_INVALID_PARAMETER, "and the signal")
	engine.queue_free()


func wrong_paths() -> void:
	var engine := BanterEngine.new()
	engine.chat_template = TEMPLATE
	root.add_child(engine)
	var npc := new_npc("Once", engine)
	var cases := {"res://no/such.gguf": ERR_FILE_NOT_FOUND, "user://no.gguf": ERR_FILE_NOT_FOUND, "/no/such/модель.gguf": ERR_FILE_NOT_FOUND,
		"res://check.gd": ERR_FILE_UNRECOGNIZED, "res://models": ERR_FILE_CANT_READ}
	for path: String in cases:
		check_equal(engine.load_model(path), OK, "it is found out in the background: " + path)
		var reply := npc.ask("Hello?")
		var told := await failure_of(engine)
		check(told[0] == cases[path] or path == "res://models", "%s: %s" % [path, error_string(told[0])])
		check(not engine.is_model_loading() and not engine.is_model_loaded(), "no model")
		check(told[1].contains(path.get_file()) or told[0] != ERR_FILE_NOT_FOUND, "the message names it: " + told[1])
	check(await until(func() -> bool: return not npc.is_talking()), "who waited for these models is told")
	check_equal(engine.load_model("res://no.gguf"), OK, "again")
	check_equal(await engine.load_finished, ERR_FILE_NOT_FOUND, "load_finished tells it, too")
	check_equal(engine.load_model(MODEL), OK, "a good one after all these")
	check_equal(await engine.load_finished, OK, "loads")
	check((await npc.ask(" upon")).length() > 0, "and speaks")
	engine.queue_free()


func cancelled_loads() -> void:
	var engine := new_engine()
	var failed: Array[int] = []
	engine.failed.connect(func(code: int, _message: String) -> void: failed.append(code))
	engine.cancel_load()
	var error: Error = await engine.load_finished
	check(error == ERR_SKIP or error == OK, "a cancelled load: %s" % error_string(error))
	engine.load_model(MODEL)
	engine.unload_model()
	check_equal(await engine.load_finished, ERR_SKIP, "a load that is not wanted any more")
	check_equal(failed, [] as Array[int], "neither of them is a failure")
	for i in 5:
		engine.load_model(MODEL)  # each takes the place of the one before
	check_equal(await engine.load_finished, OK, "the last one counts")
	check(engine.is_model_loaded(), "and is there")
	engine.queue_free()


func freed_while_loading() -> void:
	for delay in 6:
		var engine := new_engine()
		var npc := new_npc("Once", engine)
		var told: Array = []
		var wait := func() -> void: told.append(await npc.ask(" upon"))
		wait.call()
		OS.delay_usec(delay * 300)
		engine.free()
		check(await until(func() -> bool: return told.size() == 1), "freed %d steps into the load" % delay)


func wrong_template() -> void:
	var engine := BanterEngine.new()
	engine.chat_template = "{{ raise_exception('not me') }}"
	root.add_child(engine)
	engine.load_model(MODEL)
	var npc := new_npc("Once", engine)
	npc.say("Hello?")
	check_equal((await failure_of(npc))[0], ERR_PARSE_ERROR, "the template refuses")
	check_equal(await npc.ask("Hello?"), "", "and again")
	check_equal(npc.history, [], "nothing is remembered of it")
	engine.queue_free()


func too_long() -> void:
	var engine := new_engine()
	var npc := new_npc("Once upon a time", engine)
	npc.context_policy = BanterNPC.CONTEXT_STOP
	npc.context_tokens = 64
	npc.say(" and then they went home".repeat(40))
	check_equal((await failure_of(npc))[0], ERR_PARAMETER_RANGE_ERROR, "more than the context holds")
	check((await npc.ask(" a cat")).length() > 0, "the next one is answered")
	engine.queue_free()
