@tool
extends "res://editor_check.gd"
## The addon in the editor: its setting, nodes that do nothing there, and a reload of the library with nodes alive.

const EXTENSION := "res://addons/banter/banter.gdextension"


func test() -> void:
	check(ProjectSettings.has_setting("banter/model_path"), "the addon's project setting")
	var npc: Node = ClassDB.instantiate("BanterNPC")
	var engine: Node = ClassDB.instantiate("BanterEngine")
	npc.persona = "You are Mira."
	npc.temperature = 0.25
	npc.history = [{"role": "user", "content": "Hello"}]
	engine.model_path = "res://models/stories.gguf"
	npc.profile = ClassDB.instantiate("BanterProfile")
	npc.profile.lore = ["The valley."]
	npc.profile.top_k = 7
	engine.model = ClassDB.instantiate("BanterModel")
	engine.model.kv_type = 4
	engine.add_child(npc)
	add_child(engine)
	for i in 5:
		await get_tree().process_frame
	check(not engine.is_model_loading() and not engine.is_model_loaded(), "nothing is loaded in the editor")
	check(Performance.get_custom_monitor_names().is_empty(), "no monitors in the editor")
	for round in 3:
		check(GDExtensionManager.reload_extension(EXTENSION) == GDExtensionManager.LOAD_STATUS_OK, "reload")
		await get_tree().process_frame
		check(ClassDB.class_exists("BanterNPC"), "the classes are back")
		check(npc.persona == "You are Mira." and npc.temperature == 0.25, "a node keeps its properties: %s" % npc.persona)
		check(npc.profile != null and npc.profile.lore == PackedStringArray(["The valley."]) and npc.profile.top_k == 7, "a profile comes through a reload")
		check(engine.model != null and engine.model.kv_type == 4, "and a model: %s" % engine.model)
		npc.profile.persona += "!"
		check(npc.get_setup_problems().size() == 1, "and is listened to: %s" % npc.get_setup_problems())
		check(npc.has_method("say") and not npc.is_talking(), "its methods work")
		check(engine.load_model("res://models/stories.gguf") == OK, "the engine, too")
	engine.queue_free()
	await get_tree().process_frame
