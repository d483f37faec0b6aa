extends "res://check.gd"
## The resources: profiles in all their forms, hostile ones too; characters made with them, and changed while the game runs; models.

const JSON_TEXT := """{
	"name": "Mira", "lore": ["The valley of Oakrest.", "The inn."], "persona": "You are Mira.",
	"examples": [{"user": "Who are you?", "reply": "Mira."}], "sampling": {"seed": 7, "temperature": 0.8, "top_k": 12, "logit_bias": [{"token": 3, "value": -2.5}]},
	"context_tokens": 256, "reply_reserve_tokens": 32, "priority": 5, "stop_strings": ["\\nPlayer:"], "context_policy": "Slide"
}"""

var _engine: BanterEngine


func test() -> void:
	forms()
	refused()
	saved()
	_engine = new_engine()
	await _engine.model_ready
	await who_wins()
	await hot_reload()
	await changed_file()
	await shared_and_freed()
	_engine.queue_free()
	await models()


func forms() -> void:
	var profile := BanterProfile.new()
	var changes: Array[int] = [0]
	profile.changed.connect(func() -> void: changes[0] += 1)
	check_equal(profile.load_json(JSON_TEXT), OK, "JSON: " + profile.get_load_message())
	check_equal(changes[0], 1, "changed is told once")
	check_equal([profile.profile_name, profile.persona, profile.priority, profile.context_policy], ["Mira", "You are Mira.", 5, BanterNPC.CONTEXT_SLIDE], "its fields")
	check_equal(profile.examples, PackedStringArray(["Who are you?", "Mira."]), "examples")
	check_equal([profile.seed, profile.temperature, profile.top_k, profile.logit_bias], [7, 0.8, 12, {3: -2.5}], "sampling")
	var bytes := profile.to_binary()
	check_equal(bytes.slice(4, 8).get_string_from_ascii(), "BNPC", "a FlatBuffer of profiles")
	var other := BanterProfile.new()
	check_equal(other.load_binary(bytes), OK, "binary: " + other.get_load_message())
	for property in profile.get_property_list():
		if property.usage & PROPERTY_USAGE_STORAGE and not property.name.begins_with("resource_"):
			check_equal(other.get(property.name), profile.get(property.name), "the same " + property.name)
	profile.persona = "You are Mira."
	check_equal(changes[0], 1, "what stays the same tells nothing")
	profile.logit_bias = {4294967299: 1.0, -1: 2.0, 2147483648: 3.0, 2147483647: 4.0, "3": 5.0, 7: -INF, 8: NAN}
	check_equal(profile.logit_bias.keys(), [2147483647, 7, 8], "only what may be a token")
	check(profile.get_problem().contains("token 8"), "a bias that is no number: " + profile.get_problem())
	profile.logit_bias = {8: 1e300}
	check(profile.get_problem().contains("token 8"), "or too large: " + profile.get_problem())


func refused() -> void:
	var profile := BanterProfile.new()
	profile.load_json(JSON_TEXT)
	var good := profile.to_binary()
	for text: String in ["", "{", "[]", "7", "{\"persona\": 7}", "{\"nonsense\": 1}", "{\"sampling\": {\"temperature\": 11}}", "{\"priority\": 8}",
			"{\"sampling\": {\"top_k\": 18446744073709551615}}", "{\"examples\": [{\"user\": \"Hi\"}]}", "{\"context_policy\": \"Never\"}", "[".repeat(100000)]:
		check(profile.load_json(text) != OK, "refused: " + text.left(50))
		check(profile.get_load_message().length() > 20, "in words: " + profile.get_load_message())
		check_equal(profile.to_binary(), good, "and nothing has changed")
	for size in range(0, good.size(), 7):
		check(profile.load_binary(good.slice(0, size)) != OK or size == good.size(), "cut off after %d bytes" % size)
	for at in good.size():
		var bent := good.duplicate()
		bent[at] = bent[at] ^ 0xFF
		if BanterProfile.new().load_binary(bent) == OK and at < 8:
			check(false, "an offset or the identifier was bent, at %d" % at)
	check_equal(profile.to_binary(), good, "after all of these")


func saved() -> void:
	var profile := BanterProfile.new()
	profile.load_json(JSON_TEXT)
	check_equal(ResourceSaver.save(profile, "res://mira.tres"), OK, "save a profile")
	var back: BanterProfile = ResourceLoader.load("res://mira.tres", "", ResourceLoader.CACHE_MODE_IGNORE)
	check_equal(back.to_binary(), profile.to_binary(), "a .tres keeps all of it")
	check(FileAccess.get_file_as_string("res://mira.tres").find("dry_base") < 0, "and nothing that is as ever")
	var copy: BanterProfile = profile.duplicate()
	check_equal(copy.to_binary(), profile.to_binary(), "a duplicate")
	var model := BanterModel.new()
	model.model_path = MODEL
	model.kv_type = BanterEngine.KV_INT8
	check_equal(ResourceSaver.save(model, "res://model.tres"), OK, "save a model")
	var model_back: BanterModel = ResourceLoader.load("res://model.tres", "", ResourceLoader.CACHE_MODE_IGNORE)
	check_equal([model_back.model_path, model_back.kv_type], [MODEL, BanterEngine.KV_INT8], "a model comes back")


func profile_of(persona: String) -> BanterProfile:
	var profile := BanterProfile.new()
	profile.persona = persona
	profile.temperature = 0.0
	return profile


func who_wins() -> void:
	var plain := new_npc("Tim and Sam")
	var wanted: String = await plain.ask(" went")
	var npc := new_npc("Once upon a time")
	npc.temperature = 2.0
	npc.stop_strings = ["e"]
	npc.profile = profile_of("Tim and Sam")
	check_equal(await npc.ask(" went"), wanted, "the profile's persona and sampling, not the node's")
	npc.reset()
	npc.profile.stop_strings = [wanted.substr(6, 3)]
	check_equal(await npc.ask(" went"), wanted.left(wanted.find(wanted.substr(6, 3))), "and its stop strings")
	npc.reset()
	npc.profile = null
	npc.temperature = 0.0
	npc.stop_strings = []
	check(await npc.ask(" went") != wanted, "without a profile the node's persona is back")
	var taught := new_npc()
	taught.profile = profile_of("Tim and Sam")
	taught.profile.examples = [" ran", " home"]
	check(await taught.ask(" went") != wanted, "examples count")
	check_equal(taught.history.size(), 2, "and are no part of the history")
	taught.profile.examples = ["only said"]
	check(not taught.profile.get_problem().is_empty(), "an example without reply")
	for node: Node in [plain, npc, taught]:
		node.queue_free()


func hot_reload() -> void:
	var wanted := await fresh_reply("Tim and Sam")
	var profile := profile_of("Once upon a time")
	var npcs: Array[BanterNPC] = []
	for i in 4:
		npcs.append(new_npc())
		npcs[i].profile = profile
		npcs[i].say(" there was a")
	profile.persona = "Tim and Sam"  # while all of them speak
	for npc in npcs:
		await npc.ask("")
		npc.reset()
		check_equal(await npc.ask(" went"), wanted, "the next reply is the new persona's")
		npc.queue_free()


func fresh_reply(persona: String) -> String:
	var npc := new_npc(persona)
	var reply: String = await npc.ask(" went")
	npc.queue_free()
	return reply


## A .tres that somebody saves while the game runs: the next reply knows.
func changed_file() -> void:
	var path := "res://changing.tres"
	var profile := profile_of("Once upon a time")
	profile.top_k = 12
	profile.stop_strings = ["nobody says this"]
	check_equal(ResourceSaver.save(profile, path), OK, "save")
	var npc := new_npc()
	npc.profile = load(path)
	var before: String = await npc.ask(" went")
	var text := FileAccess.get_file_as_string(path).replace("Once upon a time", "Tim and Sam")
	check(text.contains("top_k = 12\n") and text.contains("stop_strings = PackedStringArray(\"nobody says this\")\n"), "the file: " + text)
	# What is as ever again is no longer in the file.
	text = text.replace("top_k = 12\n", "").replace("stop_strings = PackedStringArray(\"nobody says this\")\n", "")
	var changes: Array[int] = [0]
	npc.profile.changed.connect(func() -> void: changes[0] += 1)
	await create_timer(1.1).timeout  # times of files have seconds
	var file := FileAccess.open(path, FileAccess.WRITE)
	file.store_string(text)
	file.close()
	npc.reset()
	var after: String = await npc.ask(" went")
	check_equal(npc.profile.persona, "Tim and Sam", "the file was read again")
	check_equal([npc.profile.top_k, npc.profile.stop_strings], [40, PackedStringArray()], "and what is as ever again")
	check_equal(changes[0], 1, "changed is told once")
	check(after != before and after == await fresh_reply("Tim and Sam"), "and speaks")
	check_equal(DirAccess.remove_absolute(ProjectSettings.globalize_path(path)), OK, "the file goes")
	npc.reset()
	check_equal(await npc.ask(" went"), after, "a file that is gone changes nothing")
	npc.queue_free()


func shared_and_freed() -> void:
	var profile := profile_of("Once upon a time")
	var ended: Array[int] = [0]
	var wait := func(npc: BanterNPC) -> void:
		await npc.ask(" there was a")
		ended[0] += 1
	for i in 50:
		var npc := new_npc()
		npc.max_tokens = 300
		npc.profile = profile
		wait.call(npc)
		if i % 2 == 0:
			npc.queue_free()
		else:
			npc.text_received.connect(func(_text: String) -> void: npc.queue_free(), CONNECT_ONE_SHOT)
	profile.persona = "Tim and Sam"
	check(await until(func() -> bool: return ended[0] == 50), "fifty that share a profile, freed: %d" % ended[0])
	profile.persona = "nobody listens any more"


func models() -> void:
	var model := BanterModel.new()
	check_equal(model.measure().error, ERR_INVALID_PARAMETER, "no path")
	check(not model.file_exists() and model.get_memory_needed(1) == 0, "nothing to tell of no file")
	model.model_path = MODEL
	check(model.file_exists(), "the file is there")
	var told := model.measure()
	check_equal(told.error, OK, told.message)
	check(told.file_bytes > told.weight_bytes and told.weight_bytes > 1000000, "sizes: %s" % told)
	check_equal(model.get_memory_needed(3) - model.get_memory_needed(2), told.kv_bytes, "each character costs a conversation")
	model.context_tokens = told.context_tokens / 2
	check(model.measure().kv_bytes < told.kv_bytes, "a shorter context costs less")
	for path: String in ["res://check.gd", "res://no.gguf", "res://models"]:
		model.model_path = path
		check(model.measure().error != OK and model.measure().message.length() > 20, "%s: %s" % [path, model.measure().message])
	model.model_path = MODEL
	model.chat_template = TEMPLATE
	model.context_tokens = 128
	model.speculation = BanterEngine.SPECULATION_DRAFT
	model.draft_path = MODEL
	check(model.get_memory_needed(1) > 2 * told.weight_bytes, "the draft counts")
	var engine := BanterEngine.new()
	engine.model_path = "res://the/resource/wins.gguf"
	engine.model = model
	engine.device = BanterEngine.DEVICE_CPU
	root.add_child(engine)
	check_equal(await engine.load_finished, OK, "the model resource is loaded")
	check_equal(engine.model_info.context_tokens, 128, "with its own context")
	var npc := new_npc("Tim and Sam", engine)
	var drafted: String = await npc.ask(" went")
	model.speculation = BanterEngine.SPECULATION_NONE
	check_equal(engine.load_model(), OK, "load it again")
	npc.reset()
	check_equal(await npc.ask(" went"), drafted, "a draft model changes no word")
	model.speculation = BanterEngine.SPECULATION_DRAFT
	model.draft_path = "res://no.gguf"
	var told_failures: Array[String] = []
	engine.failed.connect(func(_code: int, message: String) -> void: told_failures.append(message))
	check_equal(engine.load_model(), OK, "with a draft that is not there")
	check_equal(await engine.load_finished, OK, "the model comes nevertheless")
	check(told_failures.size() == 1 and told_failures[0].begins_with("The draft model"), "and failed tells of the draft: %s" % [told_failures])
	model.draft_path = MODEL
	model.model_path = "res://no.gguf"
	check_equal(engine.load_model(), OK, "a draft for a model that is not there")
	check(await engine.load_finished != OK, "fails")
	check(await until(func() -> bool: return engine.metrics.models_loaded == 0 and engine.metrics.weight_bytes == 0), "and leaves no draft: %s" % engine.metrics)
	model.model_path = ""
	check_equal(engine.load_model(), ERR_INVALID_PARAMETER, "a draft for no path")
	await create_timer(0.5).timeout  # in which a draft that nobody released would have come
	check_equal([engine.metrics.models_loaded, engine.metrics.weight_bytes], [0, 0], "leaves none, either")
	model.model_path = MODEL
	check_equal(engine.load_model(), OK, "once more")
	engine.cancel_load()
	check_equal(await engine.load_finished, ERR_SKIP, "cancelled")
	check(await until(func() -> bool: return engine.metrics.models_loaded == 0 and engine.metrics.weight_bytes == 0), "with its draft: %s" % engine.metrics)
	model.draft_path = ""
	check_equal(engine.load_model(), ERR_INVALID_PARAMETER, "a draft without a path")
	await process_frame
	engine.model = null
	check_equal(engine.load_model(MODEL), OK, "a path by hand")
	check_equal(await engine.load_finished, OK, "loads")
	engine.queue_free()
