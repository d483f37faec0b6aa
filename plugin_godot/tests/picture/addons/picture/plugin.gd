@tool
extends EditorPlugin
## Talks to a character in the dock and takes a picture of the editor. What it takes is in the environment: see ../../../picture.py.


func _ready() -> void:
	get_window().size = Vector2i(1280, 800)
	await get_tree().create_timer(3.0).timeout
	EditorInterface.open_scene_from_path("res://tavern.tscn")
	EditorInterface.set_main_screen_editor("2D")
	await get_tree().create_timer(1.0).timeout
	var dock: Control = EditorInterface.get_base_control().find_child("Banter", true, false)
	show_tab_of(dock)
	dock.model_panel.set_model_path(OS.get_environment("BANTER_PICTURE_MODEL"))
	EditorInterface.get_selection().clear()
	EditorInterface.get_selection().add_node(EditorInterface.get_edited_scene_root().get_node("Counter/Mira"))
	dock.model_panel.unfold(true)
	dock.load_model()
	while not dock.is_model_loaded():
		await get_tree().process_frame
	for text: String in ["Good evening! Is there a room left?", "What is this place called?"]:
		dock.conversation.set_input(text)
		dock.conversation.submit()
		while dock.conversation._is_talking:
			await get_tree().process_frame
	forget_the_screen_s_troubles()
	await get_tree().create_timer(1.0).timeout
	var image := get_window().get_texture().get_image()
	print("PICTURE: ", error_string(image.save_png(OS.get_environment("BANTER_PICTURE"))))
	get_tree().quit()


## The virtual screen has no Vulkan, which Godot looks for in vain and calls an error, with a red mark; it is about neither editor nor addon.
func forget_the_screen_s_troubles() -> void:
	for log: Node in EditorInterface.get_base_control().find_children("*", "EditorLog", true, false):
		for button: Button in log.find_children("*", "Button", true, false):
			if button.tooltip_text.begins_with("Clear") or (button.shortcut != null and button.shortcut.resource_name.begins_with("Clear")):
				button.pressed.emit()


func show_tab_of(control: Control) -> void:
	while control != null and not control.get_parent() is TabContainer:
		control = control.get_parent() as Control
	if control != null:
		var tabs: TabContainer = control.get_parent()
		tabs.current_tab = tabs.get_tab_idx_from_control(control)
