class_name NoticeScreen
extends CanvasLayer
## A screen that says what is wrong, and what to do.

signal file_chosen(path: String)

var _lines: VBoxContainer
var _dialog: FileDialog


func _init() -> void:
	layer = 20
	var shade := ColorRect.new()
	shade.color = Color(0.07, 0.09, 0.1, 0.82)
	shade.set_anchors_preset(Control.PRESET_FULL_RECT)
	add_child(shade)
	var center := CenterContainer.new()
	center.set_anchors_preset(Control.PRESET_FULL_RECT)
	add_child(center)
	var panel := PanelContainer.new()
	panel.custom_minimum_size = Vector2(760, 0)
	center.add_child(panel)
	var margin := MarginContainer.new()
	for side: String in ["left", "right", "top", "bottom"]:
		margin.add_theme_constant_override("margin_" + side, 16)
	panel.add_child(margin)
	_lines = VBoxContainer.new()
	_lines.add_theme_constant_override("separation", 10)
	margin.add_child(_lines)


## All of it in the player's language already. A line that begins with "  " is something to type or to read exactly, and looks so.
func present(title: String, lines: PackedStringArray, may_choose := false) -> void:
	for child in _lines.get_children():
		child.queue_free()
	var heading := _label(title)
	heading.add_theme_font_size_override("font_size", 26)
	heading.add_theme_color_override("font_color", Color(1, 0.82, 0.45))
	_lines.add_child(heading)
	for line in lines:
		_lines.add_child(_code(line.strip_edges()) if line.begins_with("  ") else _label(line))
	var buttons := HBoxContainer.new()
	buttons.add_theme_constant_override("separation", 10)
	if may_choose:
		buttons.add_child(_button(tr("Choose a file …"), _choose))
	buttons.add_child(_button(tr("Quit"), func() -> void: get_tree().quit()))
	_lines.add_child(buttons)


func _label(text: String) -> Label:
	var label := Label.new()
	label.text = text
	label.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	label.auto_translate_mode = Node.AUTO_TRANSLATE_MODE_DISABLED
	return label


func _code(text: String) -> Control:
	var box := PanelContainer.new()
	var style := StyleBoxFlat.new()
	style.bg_color = Color(0.05, 0.07, 0.07)
	style.set_corner_radius_all(4)
	style.set_content_margin_all(8)
	style.content_margin_left = 12
	box.add_theme_stylebox_override("panel", style)
	var label := _label(text)
	label.add_theme_color_override("font_color", Color(0.72, 0.9, 0.78))
	box.add_child(label)
	return box


func _button(text: String, pressed: Callable) -> Button:
	var button := Button.new()
	button.text = text
	button.pressed.connect(pressed)
	return button


func _choose() -> void:
	if _dialog == null:
		_dialog = FileDialog.new()
		_dialog.file_mode = FileDialog.FILE_MODE_OPEN_FILE
		_dialog.access = FileDialog.ACCESS_FILESYSTEM
		_dialog.title = tr("Choose a file …")
		_dialog.filters = ["*.gguf;" + tr("Models")]
		_dialog.file_selected.connect(func(path: String) -> void: file_chosen.emit(path))
		add_child(_dialog)
	_dialog.popup_centered(Vector2i(760, 480))
