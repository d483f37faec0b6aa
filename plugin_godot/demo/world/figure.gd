@tool
class_name Figure
extends Node2D
## Somebody, drawn by code: clothes, a face that looks somewhere, and what tells them apart.

enum Wears { NOTHING, APRON, HELMET, STRAW_HAT, BUN, HOOD, TRAVELLER }

@export var wears := Wears.NOTHING:
	set(value):
		wears = value
		queue_redraw()
@export var cloth := Color(0.5, 0.4, 0.6):
	set(value):
		cloth = value
		queue_redraw()
@export var hair := Color(0.3, 0.2, 0.14):
	set(value):
		hair = value
		queue_redraw()

const SKIN := Color(0.94, 0.78, 0.64)
const INK := Color(0.2, 0.16, 0.15)

## Where the eyes look: -1 left, 1 right.
var gaze := 0.0:
	set(value):
		if absf(gaze - value) > 0.05:
			gaze = value
			queue_redraw()
## Mouth open, while words come.
var is_speaking := false:
	set(value):
		if is_speaking != value:
			is_speaking = value
			queue_redraw()


func head_top() -> Vector2:
	return global_position + Vector2(0, -58)


func _draw() -> void:
	_draw_ellipse(Vector2(0, 2), Vector2(19, 7), Color(0, 0, 0, 0.22))
	draw_colored_polygon(PackedVector2Array([Vector2(-9, -32), Vector2(9, -32), Vector2(17, 0), Vector2(-17, 0)]), cloth)
	draw_line(Vector2(-10, -29), Vector2(-17, -12), cloth.darkened(0.18), 7)
	draw_line(Vector2(10, -29), Vector2(17, -12), cloth.darkened(0.18), 7)
	draw_circle(Vector2(-17, -11), 4, SKIN)
	draw_circle(Vector2(17, -11), 4, SKIN)
	if wears == Wears.APRON:
		draw_colored_polygon(PackedVector2Array([Vector2(-6, -27), Vector2(6, -27), Vector2(11, -2), Vector2(-11, -2)]), Color(0.93, 0.9, 0.82))
	if wears == Wears.TRAVELLER:
		draw_colored_polygon(PackedVector2Array([Vector2(-9, -32), Vector2(9, -32), Vector2(4, -22), Vector2(-14, -6), Vector2(-17, 0)]), Color(0.76, 0.32, 0.24))
	_draw_head()


func _draw_head() -> void:
	var middle := Vector2(0, -42)
	if wears == Wears.BUN:
		draw_circle(middle + Vector2(0, -15), 6, hair)
	draw_circle(middle, 14, hair)
	draw_circle(middle + Vector2(gaze * 1.5, 3), 12, SKIN)
	for side: float in [-1, 1]:
		draw_circle(middle + Vector2(side * 4.5 + gaze * 2.5, 2), 1.8, INK)
	if is_speaking:
		draw_circle(middle + Vector2(gaze * 2, 9), 2.6, Color(0.55, 0.2, 0.2))
	else:
		draw_line(middle + Vector2(-3 + gaze * 2, 9), middle + Vector2(3 + gaze * 2, 9), INK, 1.5)
	match wears:
		Wears.HELMET:
			draw_arc(middle + Vector2(0, -1), 14, PI, TAU, 16, Color(0.66, 0.69, 0.73), 7)
			draw_line(middle + Vector2(-17, -1), middle + Vector2(17, -1), Color(0.48, 0.51, 0.55), 4)
		Wears.STRAW_HAT:
			draw_colored_polygon(PackedVector2Array([middle + Vector2(-24, -3), middle + Vector2(24, -3), middle + Vector2(0, -21)]), Color(0.87, 0.74, 0.42))
			draw_line(middle + Vector2(-24, -3), middle + Vector2(24, -3), Color(0.68, 0.55, 0.28), 2)
		Wears.HOOD:
			draw_arc(middle, 14, PI * 0.95, TAU * 1.025, 18, cloth.darkened(0.12), 7)
		Wears.TRAVELLER:
			draw_line(middle + Vector2(-20, -7), middle + Vector2(20, -7), Color(0.36, 0.27, 0.2), 5)
			draw_rect(Rect2(middle + Vector2(-10, -20), Vector2(20, 13)), Color(0.36, 0.27, 0.2))


func _draw_ellipse(middle: Vector2, radius: Vector2, color: Color) -> void:
	var points := PackedVector2Array()
	for i in 20:
		points.append(middle + radius * Vector2.from_angle(i * TAU / 20))
	draw_colored_polygon(points, color)
