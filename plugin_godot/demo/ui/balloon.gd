class_name Balloon
extends Control
## Words over somebody's head: they come in pieces, wrap, stay as long as one needs to read them, and fade.

const WIDTH := 250.0
const PADDING := Vector2(12, 8)
const LINES := 6
const FONT_SIZE := 15
const FADE_SECONDS := 0.7
const TAIL := 12.0

## Where the speaker's head is, on the screen.
var anchor := Vector2.ZERO
## Who speaks to the player stands in front and is placed first.
var is_important := false

var _label := Label.new()
var _box := StyleBoxFlat.new()
var _seconds_left := 0.0
var _is_open := false


func _init() -> void:
	mouse_filter = Control.MOUSE_FILTER_IGNORE
	_box.bg_color = Color(0.99, 0.98, 0.94, 0.97)
	_box.border_color = Color(0.25, 0.24, 0.22)
	_box.set_border_width_all(2)
	_box.set_corner_radius_all(10)
	_box.anti_aliasing = true
	_label.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	_label.mouse_filter = Control.MOUSE_FILTER_IGNORE
	_label.position = PADDING
	_label.clip_text = true
	_label.auto_translate_mode = Node.AUTO_TRANSLATE_MODE_DISABLED  # what a model says is no key of the interface
	_label.add_theme_font_size_override("font_size", FONT_SIZE)
	_label.add_theme_color_override("font_color", Color(0.13, 0.14, 0.15))
	_label.add_theme_constant_override("line_spacing", 1)
	add_child(_label)
	visible = false


func tint(color: Color) -> void:
	_box.bg_color = color


## Somebody begins to speak; until the first word it says that they think.
func begin() -> void:
	_is_open = true
	modulate.a = 1
	visible = true
	_set_text("…")


func add(text: String) -> void:
	_set_text(text if _label.text == "…" else _label.text + text)


func end() -> void:
	_is_open = false
	if _label.text.strip_edges() in ["", "…"]:
		visible = false
	_seconds_left = 2.5 + 0.07 * _label.text.length()


## All at once.
func speak(text: String) -> void:
	begin()
	add(text)
	end()


func close() -> void:
	_is_open = false
	_seconds_left = minf(_seconds_left, FADE_SECONDS)


func words() -> String:
	return _label.text


func is_open() -> bool:
	return _is_open


func _set_text(text: String) -> void:
	_label.text = text.strip_edges(true, false)
	var font := UiFont.current()
	var natural := font.get_multiline_string_size(_label.text, HORIZONTAL_ALIGNMENT_LEFT, -1, FONT_SIZE)
	# A pixel more: what fits exactly must not wrap for a rounded fraction.
	_label.size = Vector2(minf(natural.x + 2, WIDTH), 0)
	var lines := _label.get_line_count()
	# Of a long speech the last lines are shown, as they come.
	_label.lines_skipped = maxi(0, lines - LINES)
	var line_height := float(_label.get_line_height()) + 1
	_label.size.y = line_height * mini(lines, LINES)
	var old_size := size
	size = _label.size + PADDING * 2
	position += Vector2((old_size.x - size.x) / 2, old_size.y - size.y)  # it stays over its head until it is placed anew
	queue_redraw()


func _process(delta: float) -> void:
	if not visible or _is_open:
		return
	_seconds_left -= delta
	modulate.a = clampf(_seconds_left / FADE_SECONDS, 0, 1)
	visible = _seconds_left > 0


func place(at: Vector2) -> void:
	if position.distance_to(at) > 0.5:
		position = at
		queue_redraw()


func _draw() -> void:
	var tip := anchor - position
	# The tail leaves from the side that looks at the head, where there is one.
	if tip.y > size.y or tip.y < 0:
		var below := tip.y > size.y
		var root := clampf(tip.x, 18, size.x - 18)
		var edge := size.y - 1 if below else 1.0
		var end_y := clampf(tip.y, edge - TAIL, edge + TAIL)
		var points := PackedVector2Array([Vector2(root - 8, edge), Vector2(root + 8, edge),
				Vector2(clampf(tip.x, root - 10, root + 10), end_y)])
		draw_style_box(_box, Rect2(Vector2.ZERO, size))
		draw_colored_polygon(points, _box.border_color)
		var up := Vector2(0, -3 if below else 3)
		draw_colored_polygon(PackedVector2Array([points[0] + Vector2(3, 0) + up, points[1] + Vector2(-3, 0) + up, points[2] + up]), _box.bg_color)
	else:
		draw_style_box(_box, Rect2(Vector2.ZERO, size))
