class_name Ground
extends Node2D
## Meadow, river, paths and trees. Drawn once; the engine keeps it.

const MEADOW := Color(0.36, 0.47, 0.3)
const PATH := Color(0.66, 0.57, 0.42)
const PATH_EDGE := Color(0.55, 0.47, 0.34)
const WATER := Color(0.27, 0.45, 0.56)
const SHORE := Color(0.58, 0.55, 0.4)
const BRIDGE := Rect2(918, 334, 116, 58)
const TREES: Array[Vector2] = [
	Vector2(48, 470), Vector2(118, 520), Vector2(70, 572), Vector2(190, 560), Vector2(230, 480), Vector2(292, 580), Vector2(34, 210),
	Vector2(296, 96), Vector2(545, 100), Vector2(760, 110), Vector2(846, 190), Vector2(1096, 140), Vector2(1060, 90), Vector2(1120, 250),
	Vector2(1090, 470), Vector2(1124, 560), Vector2(1052, 560), Vector2(700, 585), Vector2(26, 330),
]
const WELL := Vector2(640, 405)


static func river_x(y: float) -> float:
	return 974 + 26 * sin(y / 95.0)


## Whether nobody can stand there.
static func is_wet(at: Vector2) -> bool:
	return absf(at.x - river_x(at.y)) < 52 and not BRIDGE.grow(6).has_point(at)


func _draw() -> void:
	draw_rect(Rect2(-600, -400, 2600, 1600), MEADOW)
	_draw_grass()
	_draw_river()
	_draw_paths()
	_draw_bridge()
	_draw_well()
	for tree in TREES:
		_draw_tree(tree)


func _draw_grass() -> void:
	var random := RandomNumberGenerator.new()
	random.seed = 7
	for i in 420:
		var at := Vector2(random.randf_range(-200, 1400), random.randf_range(-60, 720))
		var shade := MEADOW.lightened(random.randf_range(0.02, 0.14)) if i % 3 else MEADOW.darkened(0.12)
		draw_line(at, at + Vector2(-3, -7), shade, 2)
		draw_line(at, at + Vector2(3, -6), shade, 2)
		if i % 17 == 0:
			draw_circle(at + Vector2(0, -8), 2.5, Color(0.93, 0.86, 0.55) if i % 2 else Color(0.86, 0.7, 0.78))


func _draw_river() -> void:
	for width: float in [112, 96]:
		var points := PackedVector2Array()
		for step in 61:
			var y := -200.0 + step * 18
			points.append(Vector2(river_x(y), y))
		draw_polyline(points, SHORE if width > 100 else WATER, width)
	for i in 26:
		var y := 12.0 + i * 26
		var x := river_x(y) + 28 * sin(i * 2.4)
		draw_line(Vector2(x - 10, y), Vector2(x + 10, y), WATER.lightened(0.22), 2)


func _draw_paths() -> void:
	var ways: Array[PackedVector2Array] = [
		PackedVector2Array([Vector2(-300, 366), Vector2(330, 366), Vector2(640, 360), Vector2(1400, 362)]),
		PackedVector2Array([Vector2(170, 250), Vector2(176, 366)]),
		PackedVector2Array([Vector2(410, 240), Vector2(410, 366)]),
		PackedVector2Array([Vector2(655, 240), Vector2(648, 366)]),
		PackedVector2Array([Vector2(548, 366), Vector2(552, 520), Vector2(860, 524)]),
	]
	for edge: bool in [true, false]:
		for way in ways:
			var width := (52.0 if way[0].x < 0 else 36.0) + (6.0 if edge else 0.0)
			draw_polyline(way, PATH_EDGE if edge else PATH, width)
			for point in way:
				draw_circle(point, width / 2, PATH_EDGE if edge else PATH)
		draw_circle(Vector2(640, 385), 76 if edge else 73, PATH_EDGE if edge else PATH)
	for i in 60:
		var at := Vector2(fposmod(i * 97.3, 1150), 346 + fposmod(i * 31.7, 38))
		draw_circle(at, 2, PATH.darkened(0.14))


func _draw_bridge() -> void:
	var wood := Color(0.5, 0.36, 0.23)
	draw_rect(BRIDGE, wood)
	for i in 15:
		var x := BRIDGE.position.x + 4 + i * 8
		draw_line(Vector2(x, BRIDGE.position.y), Vector2(x, BRIDGE.end.y), wood.darkened(0.22), 1)
	for y: float in [BRIDGE.position.y, BRIDGE.end.y]:
		draw_rect(Rect2(BRIDGE.position.x - 4, y - 5, BRIDGE.size.x + 8, 8), wood.darkened(0.35))


func _draw_well() -> void:
	draw_circle(WELL + Vector2(0, 8), 26, Color(0, 0, 0, 0.18))
	draw_circle(WELL, 24, Color(0.56, 0.55, 0.53))
	for i in 12:
		var turn := Vector2.from_angle(i * TAU / 12)
		draw_line(WELL + turn * 15, WELL + turn * 24, Color(0.42, 0.41, 0.4), 2)
	draw_circle(WELL, 15, Color(0.16, 0.22, 0.28))
	draw_arc(WELL, 11, 0.4, 1.6, 8, Color(0.4, 0.55, 0.65), 2)


func _draw_tree(at: Vector2) -> void:
	draw_circle(at + Vector2(6, 6), 24, Color(0, 0, 0, 0.16))
	draw_rect(Rect2(at + Vector2(-5, -16), Vector2(10, 24)), Color(0.37, 0.27, 0.18))
	var leaves := Color(0.22, 0.38, 0.24).lightened(fposmod(at.x * 0.013, 0.12))
	draw_circle(at + Vector2(-13, -24), 19, leaves.darkened(0.12))
	draw_circle(at + Vector2(13, -26), 18, leaves.darkened(0.06))
	draw_circle(at + Vector2(0, -38), 23, leaves)
	draw_circle(at + Vector2(-6, -44), 10, leaves.lightened(0.1))
