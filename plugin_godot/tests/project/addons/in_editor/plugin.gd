@tool
extends "res://editor_check.gd"
## The addon in the editor: its setting, warnings in the scene tree, nodes that do nothing there, and a reload of the library with nodes alive.

const EXTENSION := "res://addons/banter/banter.gdextension"
const SceneTreeShown := preload("scene_tree.gd")


func test() -> void:
	await warnings()
	await reloads()


## The warning in the scene tree is what get_setup_problems() tells, comes and goes with it.
func warnings() -> void:
	var scene := Node.new()
	scene.name = "Tavern"
	var npc: Node = ClassDB.instantiate("BanterNPC")
	npc.name = "Mira"
	npc.persona = "You are Mira."
	npc.thinking_budget_tokens = 300
	scene.add_child(npc)
	npc.owner = scene
	var packed := PackedScene.new()
	check(packed.pack(scene) == OK and ResourceSaver.save(packed, "res://warned.tscn") == OK, "a scene")
	scene.free()
	EditorInterface.open_scene_from_path("res://warned.tscn")
	check(await until(func() -> bool: return SceneTreeShown.item_of("Mira") != null), "the scene tree shows it")
	npc = EditorInterface.get_edited_scene_root().get_node("Mira")
	check(npc.get_setup_problems().size() == 2, "no engine, and no room for speech: %s" % npc.get_setup_problems())
	await shown_as_told(npc)
	npc.max_tokens = 500
	check(npc.get_setup_problems().size() == 1, "room for speech: %s" % npc.get_setup_problems())
	await shown_as_told(npc)
	var engine: Node = ClassDB.instantiate("BanterEngine")
	engine.name = "Engine"
	npc.get_parent().add_child(engine)
	engine.owner = npc.get_parent()
	check(npc.get_setup_problems().is_empty(), "an engine in the scene: %s" % npc.get_setup_problems())
	check(engine.get_setup_problems().size() == 1, "which has no model: %s" % engine.get_setup_problems())
	await shown_as_told(engine)
	await shown_as_told(npc)
	engine.model_path = "res://models/stories.gguf"
	check(engine.get_setup_problems().is_empty(), "a model: %s" % engine.get_setup_problems())
	await shown_as_told(engine)
	engine.free()
	check(npc.get_setup_problems().size() == 1, "no engine again: %s" % npc.get_setup_problems())
	await shown_as_told(npc)


func shown_as_told(node: Node) -> void:
	var told := "".join(Array(node.get_setup_problems()).map(func(p: String) -> String: return " " + p))
	var agrees := func() -> bool:
		var shown := SceneTreeShown.warning_of(NodePath(node.name))
		var words := " ".join(SceneTreeShown.words_of(shown))
		return shown.is_empty() if told.is_empty() else Array(node.get_setup_problems()).all(func(p: String) -> bool: return words.contains(p))
	var good: bool = await until(agrees, 5)
	check(good, "%s: the scene tree shows %s, but the problems are:%s" % [node.name, SceneTreeShown.warning_of(NodePath(node.name)), told])


func reloads() -> void:
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
