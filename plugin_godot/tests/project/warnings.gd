extends "res://check.gd"
## What the editor shows beside nodes that are not set up right: each warning where it belongs, and nowhere else.


func test() -> void:
	engines()
	characters()
	profiles()


func warnings_of(node: Node) -> String:
	return "\n".join(node.get_setup_problems())


func expect(node: Node, words: String) -> void:
	check(warnings_of(node).contains(words), "%s: warns of %s: %s" % [node.get_class(), words, warnings_of(node)])


func expect_none(node: Node, what: String) -> void:
	check_equal(warnings_of(node), "", what)


func engines() -> void:
	var engine := BanterEngine.new()
	expect(engine, "No model is set")
	engine.auto_load = false
	expect_none(engine, "a script loads it")
	engine.auto_load = true
	engine.model_path = "res://no.gguf"
	expect(engine, "not there: res://no.gguf")
	engine.model_path = MODEL
	expect_none(engine, "a file that is there")
	engine.memory_budget_mb = 100
	engine.kv_budget_mb = 100
	expect(engine, "kv_budget_mb")
	engine.kv_budget_mb = 50
	expect_none(engine, "room for weights")
	engine.model = BanterModel.new()
	expect(engine, "has no file")
	engine.model.model_path = "/no/such.gguf"
	expect(engine, "not there: /no/such.gguf")
	engine.model.model_path = MODEL
	expect_none(engine, "a model resource")
	engine.model.draft_path = MODEL
	expect(engine, "only when")
	engine.model.speculation = BanterEngine.SPECULATION_DRAFT
	expect_none(engine, "a draft model")
	engine.model.draft_path = ""
	expect(engine, "needs \"draft_path\"")
	engine.model.draft_path = "user://no.gguf"
	expect(engine, "draft model's file is not there")
	var read_only := func(name: String) -> bool:
		return engine.get_property_list().filter(func(p: Dictionary) -> bool: return p.name == name)[0].usage & PROPERTY_USAGE_READ_ONLY != 0
	check(read_only.call("kv_type") and not read_only.call("device"), "what the model resource replaces cannot be edited")
	engine.model = null
	check(not read_only.call("kv_type"), "and can without it")
	engine.free()


func characters() -> void:
	var npc := BanterNPC.new()
	npc.persona = "You are Mira."
	root.add_child(npc)
	expect(npc, "no BanterEngine")
	ProjectSettings.set_setting("autoload/Banter", "*res://addons/banter/autoload.gd")
	expect_none(npc, "the autoload is an engine")
	ProjectSettings.set_setting("autoload/Banter", null)
	expect(npc, "no BanterEngine")
	var engine := BanterEngine.new()
	engine.auto_load = false
	root.add_child(engine)
	expect_none(npc, "an engine in the tree")
	npc.persona = ""
	expect(npc, "nobody")
	npc.persona = "You are Mira."
	npc.context_tokens = 128
	npc.reply_reserve_tokens = 128
	expect(npc, "reply_reserve_tokens")
	npc.reply_reserve_tokens = 64
	npc.thinking = BanterNPC.THINKING_OFF
	npc.thinking_budget_tokens = 32
	expect(npc, "no meaning")
	npc.thinking = BanterNPC.THINKING_ON
	expect_none(npc, "thinking with a budget")
	npc.max_tokens = 32
	expect(npc, "counts thoughts")
	npc.free()
	engine.free()


func profiles() -> void:
	var engine := BanterEngine.new()
	engine.auto_load = false
	root.add_child(engine)
	var npc := BanterNPC.new()
	npc.persona = "You are Mira."
	npc.profile = BanterProfile.new()
	root.add_child(npc)
	expect(npc, "clear one of them")
	npc.persona = ""
	expect(npc, "neither persona nor lore")
	npc.profile.lore = ["The valley."]
	expect_none(npc, "lore is something")
	npc.profile.examples = ["Hi"]
	expect(npc, "example has no reply")
	npc.profile.examples = []
	npc.profile.context_tokens = 64
	npc.profile.reply_reserve_tokens = 64
	expect(npc, "leave nothing")
	npc.profile.context_tokens = 0
	npc.profile.stop_strings = ["x".repeat(300)]
	expect(npc, "300 bytes")
	npc.free()
	engine.free()
