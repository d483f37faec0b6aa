@tool
extends VBoxContainer
## The dock's middle: what is said, and by whom.

signal said(text: String)
signal stopped
signal cleared

var _who: Label
var _warning: Label
var _transcript: RichTextLabel
var _input: LineEdit
var _send: Button
var _clear: Button
var _is_talking := false
var _speaker := ""


func _init() -> void:
	size_flags_vertical = SIZE_EXPAND_FILL
	_who = Label.new()
	_who.text_overrun_behavior = TextServer.OVERRUN_TRIM_ELLIPSIS
	_who.mouse_filter = MOUSE_FILTER_PASS
	add_child(_who)
	_warning = Label.new()
	_warning.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	add_child(_warning)
	_transcript = RichTextLabel.new()
	_transcript.size_flags_vertical = SIZE_EXPAND_FILL
	_transcript.scroll_following = true
	_transcript.selection_enabled = true
	_transcript.context_menu_enabled = true
	_transcript.focus_mode = FOCUS_CLICK
	_transcript.custom_minimum_size.y = 90.0 * EditorInterface.get_editor_scale()
	add_child(_transcript)
	var row := HBoxContainer.new()
	_input = LineEdit.new()
	_input.size_flags_horizontal = SIZE_EXPAND_FILL
	_input.text_submitted.connect(func(_text: String) -> void: submit())
	row.add_child(_input)
	_send = Button.new()
	_send.pressed.connect(_on_send_pressed)
	row.add_child(_send)
	_clear = Button.new()
	_clear.tooltip_text = "Forgets the conversation."
	_clear.pressed.connect(func() -> void: cleared.emit())
	row.add_child(_clear)
	add_child(row)


func _notification(what: int) -> void:
	if what == NOTIFICATION_THEME_CHANGED and _clear != null:
		_clear.icon = get_theme_icon("Clear", "EditorIcons")
		_who.add_theme_font_override("font", get_theme_font("bold", "EditorFonts"))
		_warning.add_theme_color_override("font_color", get_theme_color("warning_color", "Editor"))
		for style: String in ["normal", "focus"]:
			_transcript.add_theme_stylebox_override(style, get_theme_stylebox("normal", "LineEdit"))
		_show_send_button()


## Who is spoken to; "" for nobody.
func set_speaker(title: String, problems: PackedStringArray) -> void:
	_speaker = title
	_who.text = title if title else "Nobody is selected"
	_who.tooltip_text = title
	_warning.text = "\n".join(problems)
	_warning.visible = not problems.is_empty()
	_input.placeholder_text = "Say something to %s" % title if title else "Select a BanterNPC in the scene tree"


func set_enabled(enabled: bool) -> void:
	_input.editable = enabled
	_send.disabled = not enabled


func set_talking(is_talking: bool) -> void:
	_is_talking = is_talking
	_show_send_button()


func get_transcript() -> String:
	return _transcript.get_parsed_text()


func set_input(text: String) -> void:
	_input.text = text


func submit() -> void:
	if _is_talking or not _input.editable or _input.text.strip_edges().is_empty():
		return
	var text := _input.text
	_input.clear()
	said.emit(text)


func add_turn(title: String, text: String, is_player: bool) -> void:
	if not _transcript.get_parsed_text().is_empty():
		_transcript.newline()
	var shade := get_theme_color("font_color" if is_player else "accent_color", "Label" if is_player else "Editor")
	_transcript.push_font(get_theme_font("bold", "EditorFonts"))
	_transcript.push_color(shade)
	_transcript.add_text(title + "  ")
	_transcript.pop_all()
	add_words(text)


func add_words(text: String) -> void:
	_transcript.push_color(get_theme_color("font_color", "Label"))
	_transcript.add_text(text)
	_transcript.pop_all()


func add_thought(text: String) -> void:
	_transcript.push_color(get_theme_color("disabled_font_color", "Editor"))
	_transcript.add_text(text)
	_transcript.pop_all()


func add_error(text: String) -> void:
	_transcript.newline()
	_transcript.push_color(get_theme_color("error_color", "Editor"))
	_transcript.add_text(text)
	_transcript.pop_all()


func clear() -> void:
	_transcript.clear()


func _show_send_button() -> void:
	_send.icon = get_theme_icon("Stop" if _is_talking else "Play", "EditorIcons")
	_send.tooltip_text = "Stops the reply; what was said stays." if _is_talking else "Says it."


func _on_send_pressed() -> void:
	if _is_talking:
		stopped.emit()
	else:
		submit()
