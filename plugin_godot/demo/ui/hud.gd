class_name Hud
extends CanvasLayer
## What is on the glass: buttons, the line to type in, and messages.

signal said(text: String)
signal save_wanted
signal load_wanted
signal profiler_wanted
signal language_changed

const MESSAGE_SECONDS := 5.0
## As long as it takes to read what is longer.
const SECONDS_PER_LETTER := 0.06
const MESSAGE_SIZE := 14
const MESSAGE_WIDTH := 440.0
const MESSAGE_LINES := 6

var _line := LineEdit.new()
var _hint := Label.new()
var _message := Label.new()
var _message_panel := PanelContainer.new()
var _save := Button.new()
var _load := Button.new()
var _profiler := Button.new()
var _language := Button.new()
var _partner := ""
var _seconds_left := 0.0


func _init() -> void:
	layer = 10
	_build_buttons()
	_build_line()
	_build_message()
	translate()


## Who can be talked to now; "" for nobody.
func set_partner(display_name: String) -> void:
	if display_name == _partner:
		return
	_partner = display_name
	if display_name.is_empty():
		_line.release_focus()
	translate()


func is_typing() -> bool:
	return _line.has_focus()


func tell(text: String) -> void:
	_message.text = text
	# A pixel more: what fits exactly must not wrap for a rounded fraction.
	_message.custom_minimum_size.x = minf(UiFont.current().get_string_size(text, HORIZONTAL_ALIGNMENT_LEFT, -1, MESSAGE_SIZE).x + 2, MESSAGE_WIDTH)
	_message_panel.show()
	_message_panel.modulate.a = 1
	_seconds_left = maxf(MESSAGE_SECONDS, SECONDS_PER_LETTER * text.length())


func translate() -> void:
	_save.text = Words.of("Save (F5)")
	_load.text = Words.of("Load (F9)")
	_profiler.text = Words.of("Profiler (F3)")
	_language.text = "English" if Words.are_chinese() else "中文"
	_language.visible = UiFont.has_chinese()
	_line.visible = not _partner.is_empty()
	_hint.visible = _partner.is_empty()
	_hint.text = Words.of("Walk: arrow keys or WASD. Go near somebody to talk.")
	_line.placeholder_text = Words.of("Say something to %s …   (Esc: walk on)" if is_typing() else "Enter: talk to %s") % _partner


func _process(delta: float) -> void:
	if not visible:  # what was told while there was nothing to see waits for its readers
		return
	_seconds_left -= delta
	_message_panel.modulate.a = clampf(_seconds_left * 2, 0, 1)
	_message_panel.visible = _seconds_left > 0


func _unhandled_key_input(event: InputEvent) -> void:
	var key := event as InputEventKey
	if not visible or key == null or not key.pressed or key.echo:
		return
	match key.keycode:
		KEY_F3: profiler_wanted.emit()
		KEY_F5: save_wanted.emit()
		KEY_F9: load_wanted.emit()
		KEY_ENTER, KEY_KP_ENTER:
			if not _partner.is_empty():
				_line.grab_focus()
		_: return
	get_viewport().set_input_as_handled()


func _build_buttons() -> void:
	var bar := HBoxContainer.new()
	bar.set_anchors_and_offsets_preset(Control.PRESET_TOP_LEFT, Control.PRESET_MODE_MINSIZE, 10)
	bar.add_theme_constant_override("separation", 8)
	add_child(bar)
	var actions := {_save: save_wanted, _load: load_wanted, _profiler: profiler_wanted}
	for button: Button in [_save, _load, _profiler, _language]:
		button.focus_mode = Control.FOCUS_NONE
		bar.add_child(button)
		if actions.has(button):
			var wanted: Signal = actions[button]
			button.pressed.connect(func() -> void: wanted.emit())
	_language.pressed.connect(func() -> void:
		Words.speak_chinese(not Words.are_chinese())
		translate()
		language_changed.emit())


func _build_line() -> void:
	var place := MarginContainer.new()
	place.set_anchors_preset(Control.PRESET_BOTTOM_WIDE)
	place.grow_vertical = Control.GROW_DIRECTION_BEGIN
	# Beside the profiler's place.
	place.add_theme_constant_override("margin_left", 346)
	place.add_theme_constant_override("margin_right", 206)
	place.add_theme_constant_override("margin_bottom", 14)
	place.mouse_filter = Control.MOUSE_FILTER_IGNORE
	add_child(place)
	_line.max_length = 400
	if &"keep_editing_on_text_submit" in _line:  # since 4.4, where a line that was submitted would have to be opened again
		_line.set(&"keep_editing_on_text_submit", true)
	_line.text_submitted.connect(_on_submitted)
	_line.focus_entered.connect(translate)
	_line.focus_exited.connect(translate)
	_line.gui_input.connect(_on_line_input)
	place.add_child(_line)
	_hint.horizontal_alignment = HORIZONTAL_ALIGNMENT_CENTER
	_hint.add_theme_color_override("font_outline_color", Color(0.1, 0.13, 0.1))
	_hint.add_theme_constant_override("outline_size", 6)
	place.add_child(_hint)


func _build_message() -> void:
	_message.add_theme_font_size_override("font_size", MESSAGE_SIZE)
	_message.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	_message.max_lines_visible = MESSAGE_LINES
	_message.text_overrun_behavior = TextServer.OVERRUN_TRIM_ELLIPSIS
	_message.auto_translate_mode = Node.AUTO_TRANSLATE_MODE_DISABLED
	_message_panel.set_anchors_and_offsets_preset(Control.PRESET_TOP_RIGHT, Control.PRESET_MODE_MINSIZE, 10)
	_message_panel.grow_horizontal = Control.GROW_DIRECTION_BEGIN
	add_child(_message_panel)
	_message_panel.mouse_filter = Control.MOUSE_FILTER_IGNORE
	_message_panel.add_child(_message)
	_message_panel.hide()


func _on_submitted(text: String) -> void:
	_line.clear()
	if text.strip_edges().is_empty():
		_line.release_focus()
		return
	said.emit(text.strip_edges())


func _on_line_input(event: InputEvent) -> void:
	var key := event as InputEventKey
	if key == null or not key.pressed:
		return
	if key.keycode == KEY_ESCAPE:
		_line.release_focus()
	elif key.keycode in [KEY_F3, KEY_F5, KEY_F9]:
		_unhandled_key_input(event)
