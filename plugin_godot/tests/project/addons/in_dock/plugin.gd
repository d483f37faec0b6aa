@tool
extends "res://editor_check.gd"
## The dock of the addon in a real editor: choosing a model, talking to the selected character, figures, and that all goes when it is told to.

const MODEL := "res://models/stories.gguf"
const SCENE := "res://tavern.tscn"

var _dock: Control


func test() -> void:
	for part: String in ["dock", "model_panel", "needs", "cards", "folder_models", "conversation", "figures", "profile_importer", "profile_dialog", "model_exporter"]:
		check(load("res://addons/banter/editor/%s.gd" % part).can_instantiate(), part + ".gd has neither errors nor warnings")
	_dock = EditorInterface.get_base_control().find_child("Banter", true, false)
	check(_dock != null, "the dock is there")
	if _dock == null:
		return
	choose_a_model()
	await cards_and_folder()
	await follow_the_project()
	await open_a_scene()
	await warnings_follow_the_engine()
	await talk()
	await stop_and_clear()
	await failures()
	await imports()
	await unloads()
	await foreign_autoload()


func choose_a_model() -> void:
	var panel: Control = _dock.model_panel
	check(panel.get_hint().contains("Choose a GGUF"), "nothing is chosen yet: " + panel.get_hint())
	panel.set_model_path("res://no.gguf")
	check(panel.get_hint().contains("no.gguf"), "a file that is not there: " + panel.get_hint())
	panel.set_model_path("res://project.godot")
	check(panel.get_hint().length() > 20 and not panel.get_hint().contains("Fits"), "a file that is no model: " + panel.get_hint())
	panel.set_model_path(MODEL)
	check(panel.get_hint().contains("Fits graphics cards of 2 GB"), "a small model: " + panel.get_hint())
	check(ProjectSettings.get_setting("banter/model_path") == MODEL, "the project remembers it")
	check(FileAccess.get_file_as_string("res://project.godot").contains("stories.gguf"), "in its file, too")
	panel.set_options(1024, BanterEngine.KV_F32, 1000)
	var many: String = panel.get_hint()
	panel.set_options(1024, BanterEngine.KV_INT8, 1)
	check(panel.get_hint().contains("int8") and panel._load.disabled, "what this model cannot do: " + panel.get_hint())
	panel.set_options(1024, BanterEngine.KV_BF16, 1)
	check(many.contains("1000 characters of ") and many != panel.get_hint(), "more characters need more: %s / %s" % [many, panel.get_hint()])
	var hint: String = panel.hint_of({"weight_bytes": 5 << 30, "step_buffer_bytes": 1 << 28, "kv_bytes": 1 << 28, "context_tokens": 8192}, 4)
	check(hint.contains("Needs about 6.25 GiB with 4 characters of 8192 tokens") and hint.contains("8 GB and more"), "a large one: " + hint)
	hint = panel.hint_of({"weight_bytes": 5 << 40, "step_buffer_bytes": 0, "kv_bytes": 0, "context_tokens": 8192}, 1)
	check(hint.contains("more than graphics cards have"), "one that is too large: " + hint)
	check(_dock.find_children("*", "BanterEngine", true, false).is_empty(), "nothing is loaded unasked")


## Each card, and each model beside the chosen one.
func cards_and_folder() -> void:
	var panel: Control = _dock.model_panel
	panel.set_options(1024, BanterEngine.KV_BF16, 8)
	var lines: PackedStringArray = panel.get_cards()
	check(lines.size() == panel.Needs.CARDS.size() and lines[0].begins_with("2 GB: fits"), "every card is told of: %s" % [lines])
	panel._cards.show_needs({"weight_bytes": 5 << 30, "step_buffer_bytes": 0, "kv_bytes": 1 << 28}, 4)
	lines = panel.get_cards()
	check(lines[2] == "6 GB: does not fit." and lines[3] == "8 GB: fits, with room for 5 characters and a fifth left for the picture.", "what fits: %s" % [lines])
	panel._cards.show_needs({"weight_bytes": 5 << 30, "step_buffer_bytes": 0, "kv_bytes": 1 << 28}, 6)
	check(panel.get_cards()[3] == "8 GB: does not fit; it has room for 5 characters.", "and what nearly does: %s" % panel.get_cards()[3])
	var file := FileAccess.open("res://models/broken.gguf", FileAccess.WRITE)
	file.store_string("no model")
	file.close()
	FileAccess.open("res://models/whole-00002-of-00003.gguf", FileAccess.WRITE).close()
	panel.set_options(1024, BanterEngine.KV_BF16, 1)
	check(panel._others.visible, "the folder has other models")
	check(not panel._details.visible and panel._others.is_measuring(), "nobody looks at them yet")
	panel.unfold(true)
	check(panel._details.visible, "now somebody does")
	while panel._others.is_measuring():  # a tab behind another one is not seen, and measures nothing by itself
		panel._others.measure_next()
	check(panel._others.get_lines() == PackedStringArray(["broken.gguf: –", "stories.gguf: 2 GB", "thinking.gguf: 2 GB"]), "the others: %s" % [panel._others.get_lines()])
	panel._others.chosen.emit("res://models/thinking.gguf")
	check(panel.model.model_path == "res://models/thinking.gguf", "one of them is taken")
	panel._files.current_dir = ProjectSettings.globalize_path("res://addons")
	panel._files.canceled.emit()
	check(not panel._others.visible, "a folder without models")
	panel.set_model_path(MODEL)
	check(panel._others.visible, "and back")


## The path may be changed in the project's settings, too.
func follow_the_project() -> void:
	var panel: Control = _dock.model_panel
	ProjectSettings.set_setting("banter/model_path", "res://models/thinking.gguf")
	check(await until(func() -> bool: return panel._path.text == "res://models/thinking.gguf"), "the panel follows: " + panel._path.text)
	check(panel.model.model_path == "res://models/thinking.gguf", "and measures: " + panel.model.model_path)
	ProjectSettings.set_setting("banter/model_path", MODEL)
	panel._path.focus_exited.emit()  # before it has heard of that
	check(ProjectSettings.get_setting("banter/model_path") == MODEL, "what nobody typed is not taken")
	check(await until(func() -> bool: return panel.model.model_path == MODEL), "it follows again")
	panel._path.text = "res://typed.gguf"
	panel._path.text_changed.emit(panel._path.text)
	ProjectSettings.set_setting("banter/model_path", "res://no.gguf")
	for i in 3:
		await get_tree().process_frame
	check(panel._path.text == "res://typed.gguf", "what is being typed stays")
	panel._path.focus_exited.emit()
	check(ProjectSettings.get_setting("banter/model_path") == "res://typed.gguf", "and is taken when that ends")
	panel.set_model_path(MODEL)


func open_a_scene() -> void:
	var root := Node2D.new()
	root.name = "Tavern"
	for who: String in ["Mira", "Guard"]:
		var body := Node2D.new()
		body.name = who + "Body"
		root.add_child(body)
		body.owner = root
		var npc := BanterNPC.new()
		npc.name = who
		npc.persona = "Once upon a time" if who == "Mira" else ""
		npc.temperature = 0.0
		npc.max_tokens = 60
		body.add_child(npc)
		npc.owner = root
	var packed := PackedScene.new()
	packed.pack(root)
	root.free()
	check(ResourceSaver.save(packed, SCENE) == OK, "a scene with characters")
	EditorInterface.open_scene_from_path(SCENE)
	check(await until(func() -> bool: return EditorInterface.get_edited_scene_root() != null), "it is open")


## Beside a character, when an engine comes and goes in its scene.
func warnings_follow_the_engine() -> void:
	var mira: BanterNPC = EditorInterface.get_edited_scene_root().get_node("MiraBody/Mira")
	var told: Array[Node] = []
	var listen := func(node: Node) -> void: told.append(node)
	get_tree().node_configuration_warning_changed.connect(listen)
	var panel: Control = _dock.model_panel
	panel.set_options(0, BanterEngine.KV_INT4 + 1, 1)
	check(not panel.get_hint().contains("of 128 tokens"), "without an engine: " + panel.get_hint())
	var engine := BanterEngine.new()
	engine.context_tokens = 128
	engine.kv_type = BanterEngine.KV_F32
	EditorInterface.get_edited_scene_root().add_child(engine)
	EditorInterface.get_selection().clear()
	EditorInterface.get_selection().add_node(engine)
	check(await until(func() -> bool: return panel.get_hint().contains("of 128 tokens")), "the engine's settings count: " + panel.get_hint())
	check(panel.model.kv_type == BanterEngine.KV_F32 and panel._context.get_item_text(0) == "Engine: 128 tokens", "and are told")
	panel.set_options(1024, BanterEngine.KV_BF16, 1)
	check(await until(func() -> bool: return told.has(mira), 2), "an engine comes: the warnings are looked at again")
	told.clear()
	engine.free()
	check(await until(func() -> bool: return told.has(mira), 2), "and when it goes")
	get_tree().node_configuration_warning_changed.disconnect(listen)


func select(path: NodePath) -> void:
	EditorInterface.get_selection().clear()
	EditorInterface.get_selection().add_node(EditorInterface.get_edited_scene_root().get_node(path))
	await get_tree().process_frame
	await get_tree().process_frame


func person() -> String:
	return _dock.conversation._who.text


func talk() -> void:
	check(person() == "Nobody is selected", "nobody: " + person())
	await select("GuardBody")
	check(person() == "Guard" and _dock.conversation._warning.text.contains("nobody yet"), "a body's character, and what is wrong with it: " + _dock.conversation._warning.text)
	await select("MiraBody/Mira")
	check(person() == "Mira" and not _dock.conversation._warning.visible, "the selected character: " + _dock.conversation._warning.text)
	_dock.conversation.set_input("Hello")
	_dock.conversation.submit()
	check(_dock.conversation.get_transcript().is_empty(), "without a model nothing is said")
	_dock.load_model()
	check(await until(_dock.is_model_loaded), "the model is loaded: %s %s %s" % [_dock._status.text, _dock._engine.is_model_loading(), _dock._engine.is_processing()])
	var place: Node = _dock.get_parent()
	place.remove_child(_dock)  # as when it is moved
	place.add_child(_dock)
	check(_dock.is_model_loaded() and not _dock._engine.is_in_group("banter_engines"), "a dock that is moved keeps its model, for itself")
	check(_dock._engine.model_info.kv_type == "bf16" and _dock._engine.model_info.context_tokens <= 1024, "as the dock says: %s" % _dock._engine.model_info)
	_dock.conversation.set_input("there was a")
	_dock.conversation.submit()
	check(_dock.conversation._is_talking, "it talks")
	check(await until(func() -> bool: return not _dock.conversation._is_talking), "until it is done")
	var said: String = _dock.conversation.get_transcript()
	check(said.contains("You  there was a") and said.length() > 60, "what was said: " + said)
	check(_dock.figures.get_value("Speed").ends_with("tokens/s") and _dock.figures.get_value("First token").ends_with("ms"), "figures of the reply")
	check(_dock.figures.get_value("Memory").ends_with("iB") and _dock.figures.get_value("Conversations").contains(" / "), "figures of the memory")
	check(_dock.figures.get_value("Computes").begins_with("cpu/") or _dock.figures.get_value("Computes").begins_with("cuda"), "what computes: " + _dock.figures.get_value("Computes"))
	var mira: BanterNPC = EditorInterface.get_edited_scene_root().get_node("MiraBody/Mira")
	check(mira.history.is_empty() and not mira.is_talking(), "the scene's node stays as it was")
	mira.persona = "Tim and Sam"
	_dock.clear()
	_dock.say("there was a")
	check(await until(func() -> bool: return not _dock.conversation._is_talking), "again")
	check(_dock.conversation.get_transcript() != said, "as the persona is now: " + _dock.conversation.get_transcript())


func stop_and_clear() -> void:
	var mira: BanterNPC = EditorInterface.get_edited_scene_root().get_node("MiraBody/Mira")
	mira.max_tokens = 500
	_dock.say("there was a")
	await _dock._actor.text_received
	_dock.conversation.submit()  # not while it talks
	_dock.stop()
	check(await until(func() -> bool: return not _dock.conversation._is_talking), "stopped")
	check(_dock._actor.history.size() == 4, "what was said stays: %d" % _dock._actor.history.size())
	_dock.clear()
	check(_dock._actor.history.is_empty() and _dock.conversation.get_transcript().is_empty(), "cleared")
	_dock.say("there was a")
	await select("GuardBody/Guard")
	check(person() == "Guard" and _dock.conversation.get_transcript().is_empty(), "another one begins anew")
	check(await until(func() -> bool: return not _dock.conversation._is_talking), "and nobody talks")
	var mira_body: Node = EditorInterface.get_edited_scene_root().get_node("MiraBody")
	EditorInterface.get_edited_scene_root().remove_child(mira_body)
	check(person() == "Guard", "somebody else goes")
	EditorInterface.get_edited_scene_root().add_child(mira_body)
	await select("MiraBody")
	EditorInterface.get_edited_scene_root().remove_child(mira_body)
	check(person() == "Nobody is selected", "who is spoken to goes")
	EditorInterface.get_edited_scene_root().add_child(mira_body)
	await select("MiraBody")
	check(person() == "Mira", "and comes back")


func failures() -> void:
	_dock.unload_model()
	check(_dock.find_children("*", "BanterEngine", true, false).is_empty(), "unloaded")
	_dock.model_panel.model.model_path = "res://project.godot"
	_dock.load_model()
	check(await until(func() -> bool: return _dock._status.visible), "a load that fails is told")
	check(not _dock.conversation._input.editable, "and nothing can be said")
	_dock.unload_model()
	_dock.model_panel.set_model_path("")
	_dock.model_panel.set_model_path(MODEL)
	_dock.load_model()
	_dock.unload_model()  # in the middle of it
	_dock.load_model()
	check(await until(_dock.is_model_loaded), "loaded after all")


func imports() -> void:
	var profile := BanterProfile.new()
	profile.persona = "You are Mira."
	var file := FileAccess.open("res://mira.bnpc", FileAccess.WRITE)
	file.store_buffer(profile.to_binary())
	file.close()
	EditorInterface.get_resource_filesystem().scan()
	check(await until(func() -> bool: return ResourceLoader.exists("res://mira.bnpc")), "a .bnpc is imported")
	var imported := ResourceLoader.load("res://mira.bnpc") as BanterProfile
	check(imported != null and imported.persona == "You are Mira.", "as a BanterProfile")
	var dialog: Node = load("res://addons/banter/editor/profile_dialog.gd").new()
	add_child(dialog)
	file = FileAccess.open("user://guard.json", FileAccess.WRITE)
	file.store_string("{\"name\": \"Guard\", \"persona\": \"You guard the bridge.\"}")
	file.close()
	var path: String = dialog.import_profile(ProjectSettings.globalize_path("user://guard.json"))
	check(path == "res://guard.tres" and (load(path) as BanterProfile).persona == "You guard the bridge.", "JSON becomes a .tres: " + path)
	check(dialog.import_profile(ProjectSettings.globalize_path("user://guard.json")) == "res://guard_2.tres", "and never writes over one")
	check(dialog.import_profile("user://none.json") == "" and dialog._message.dialog_text.contains("none.json"), "a file that is not there")
	check(dialog.import_profile(MODEL) == "" and dialog._message.dialog_text.length() > 40, "a file that is none")
	dialog.queue_free()


## An autoload of the same name that is the project's.
func foreign_autoload() -> void:
	var setting := "autoload/Banter"
	EditorInterface.set_plugin_enabled("banter", false)
	check(not ProjectSettings.has_setting(setting), "disabled: no autoload")
	var file := FileAccess.open("res://foreign.gd", FileAccess.WRITE)
	file.store_string("extends Node\n")
	file.close()
	ProjectSettings.set_setting(setting, "*res://foreign.gd")
	EditorInterface.set_plugin_enabled("banter", true)
	check(ProjectSettings.get_setting(setting) == "*res://foreign.gd", "enabled: it stays")
	EditorInterface.set_plugin_enabled("banter", false)
	check(ProjectSettings.get_setting(setting, "") == "*res://foreign.gd", "disabled: it stays")
	var own := ResourceUID.id_to_text(ResourceLoader.get_resource_uid("res://addons/banter/autoload.gd"))
	check(own.begins_with("uid://") and own != "uid://<invalid>", "the addon's own has a number: " + own)
	ProjectSettings.set_setting(setting, null)
	EditorInterface.set_plugin_enabled("banter", true)
	check(ProjectSettings.get_setting(setting, "").contains("autoload.gd") or ProjectSettings.get_setting(setting, "").contains(own), "its own comes: %s" % ProjectSettings.get_setting(setting, ""))
	ProjectSettings.set_setting(setting, "*" + own)
	EditorInterface.set_plugin_enabled("banter", false)
	check(not ProjectSettings.has_setting(setting), "and goes, by whatever name")
	EditorInterface.set_plugin_enabled("banter", true)
	await get_tree().process_frame


func unloads() -> void:
	_dock.say("there was a")
	EditorInterface.set_plugin_enabled("banter", false)
	await get_tree().process_frame
	check(not is_instance_valid(_dock), "the dock goes with its plugin, in the middle of a reply")
	check(EditorInterface.get_base_control().find_children("*", "BanterEngine", true, false).is_empty(), "and the engine with it")
	EditorInterface.set_plugin_enabled("banter", true)
	await get_tree().process_frame
	check(EditorInterface.get_base_control().find_child("Banter", true, false) != null, "and comes back")
