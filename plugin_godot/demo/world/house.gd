@tool
class_name House
extends Node2D
## A house, drawn: walls, a roof, a door, windows that are lit. Its origin is the middle of the wall's foot.

enum Kind { PLAIN, SMITHY, TEA, TOWER }

@export var kind := Kind.PLAIN:
	set(value):
		kind = value
		queue_redraw()
@export var size := Vector2(150, 70):
	set(value):
		size = value
		queue_redraw()
@export var roof := Color(0.58, 0.3, 0.24):
	set(value):
		roof = value
		queue_redraw()
@export var sign_text := "":
	set(value):
		sign_text = value
		queue_redraw()

const WALL := Color(0.86, 0.8, 0.68)
const TIMBER := Color(0.4, 0.29, 0.2)
const LIGHT := Color(1, 0.85, 0.45)


## What it hides, the roof as well: nobody stands there.
func covered() -> Rect2:
	var height := size.y + roof_rise()
	return Rect2(position + Vector2(-size.x / 2 - 14, -height), Vector2(size.x + 28, height))


func roof_rise() -> float:
	return size.x * 0.28


func _draw() -> void:
	var wall := Rect2(Vector2(-size.x / 2, -size.y), size)
	draw_rect(Rect2(wall.position + Vector2(10, 8), wall.size), Color(0, 0, 0, 0.18))
	var stone := kind == Kind.TOWER or kind == Kind.SMITHY
	draw_rect(wall, Color(0.62, 0.61, 0.58) if stone else WALL)
	if stone:
		_draw_stones(wall)
	else:
		_draw_timber(wall)
	_draw_openings()
	if kind == Kind.TOWER:
		_draw_battlement()
	else:
		_draw_roof()
	if not sign_text.is_empty():
		_draw_sign()


func _draw_stones(wall: Rect2) -> void:
	var rows := int(size.y / 14)
	for row in rows:
		var y := wall.position.y + row * 14
		draw_line(Vector2(wall.position.x, y), Vector2(wall.end.x, y), Color(0.5, 0.49, 0.47), 1)
		for column in int(size.x / 26):
			var x := wall.position.x + column * 26 + (13 if row % 2 else 2)
			draw_line(Vector2(x, y), Vector2(x, minf(y + 14, wall.end.y)), Color(0.5, 0.49, 0.47), 1)


func _draw_timber(wall: Rect2) -> void:
	draw_rect(wall, TIMBER, false, 4)
	for share: float in [0.33, 0.67]:
		var x := wall.position.x + size.x * share
		draw_line(Vector2(x, wall.position.y), Vector2(x, wall.end.y), TIMBER, 3)


func _draw_openings() -> void:
	var door := Rect2(-13, -40, 26, 40)
	draw_rect(door, TIMBER.darkened(0.25))
	draw_circle(door.get_center() + Vector2(7, 2), 2, LIGHT)
	if kind == Kind.SMITHY:
		draw_circle(Vector2(42, -18), 17, Color(1, 0.5, 0.15, 0.25))
		draw_rect(Rect2(30, -30, 26, 24), Color(0.2, 0.14, 0.12))
		draw_circle(Vector2(43, -14), 8, Color(1, 0.55, 0.2))
		draw_circle(Vector2(43, -12), 4, Color(1, 0.85, 0.45))
	for side: float in [-1, 1]:
		if kind == Kind.SMITHY and side > 0:
			continue
		var window := Rect2(side * size.x * 0.33 - 10, -size.y * 0.72, 20, 22)
		draw_rect(window.grow(10), Color(LIGHT, 0.1))
		draw_rect(window, LIGHT)
		draw_rect(window, TIMBER, false, 3)
		draw_line(Vector2(window.get_center().x, window.position.y), Vector2(window.get_center().x, window.end.y), TIMBER, 2)


func _draw_roof() -> void:
	var left := -size.x / 2 - 14
	var right := size.x / 2 + 14
	var eaves := -size.y + 4
	var rise := roof_rise()
	var points := PackedVector2Array([Vector2(left, eaves), Vector2(right, eaves), Vector2(right - 34, eaves - rise), Vector2(left + 34, eaves - rise)])
	if kind == Kind.TEA:  # eaves that turn up
		points = PackedVector2Array([Vector2(left - 10, eaves - 12), Vector2(left + 8, eaves), Vector2(right - 8, eaves), Vector2(right + 10, eaves - 12),
				Vector2(right - 40, eaves - rise), Vector2(left + 40, eaves - rise)])
	draw_colored_polygon(points, roof)
	for i in 4:
		var share := (i + 1) / 5.0
		var y := eaves - rise * share
		draw_line(Vector2(left + 34 * share + 2, y), Vector2(right - 34 * share - 2, y), roof.darkened(0.18), 2)
	if kind == Kind.PLAIN or kind == Kind.SMITHY:
		draw_rect(Rect2(right - 62, eaves - rise - 14, 16, 26), Color(0.45, 0.4, 0.38))
	if kind == Kind.TEA:
		for side: float in [-1, 1]:
			var lantern := Vector2(side * (size.x / 2 + 8), eaves + 16)
			draw_line(Vector2(lantern.x, eaves - 4), lantern, TIMBER, 2)
			draw_circle(lantern, 15, Color(1, 0.45, 0.25, 0.22))
			draw_circle(lantern, 8, Color(0.9, 0.26, 0.18))
			draw_line(lantern + Vector2(-4, -8), lantern + Vector2(4, -8), LIGHT, 2)


func _draw_battlement() -> void:
	var top := -size.y
	for i in int(size.x / 22):
		draw_rect(Rect2(-size.x / 2 + 3 + i * 22, top - 14, 13, 16), Color(0.55, 0.54, 0.52))
	draw_line(Vector2(0, top - 12), Vector2(0, top - 58), TIMBER, 3)
	draw_colored_polygon(PackedVector2Array([Vector2(1, top - 58), Vector2(36, top - 49), Vector2(1, top - 38)]), roof)


func _draw_sign() -> void:
	var font := UiFont.current() if not Engine.is_editor_hint() else ThemeDB.fallback_font
	var width := font.get_string_size(sign_text, HORIZONTAL_ALIGNMENT_LEFT, -1, 13).x
	var board := Rect2(-width / 2 - 8, -size.y + 6, width + 16, 20)
	draw_rect(board, TIMBER.darkened(0.2))
	draw_string(font, board.position + Vector2(8, 15), sign_text, HORIZONTAL_ALIGNMENT_LEFT, -1, 13, Color(1, 0.92, 0.72))
