class_name BalloonLayer
extends CanvasLayer
## Finds a place for every balloon: over its head, inside the screen, and beside the others.

const EDGE := 8.0
const OVER_HEAD := 14.0
## Left free above and below, for buttons and for the input line.
const TOP := 50.0
const BOTTOM := 66.0

## Where people stand, who have a balloon or could have one.
var _figures: Array[Rect2] = []


func _init() -> void:
	layer = 5
	process_priority = 100  # when all words of the frame have come


func _process(_delta: float) -> void:
	var screen := get_viewport().get_visible_rect().grow_individual(-EDGE, -TOP, -EDGE, -BOTTOM)
	var balloons: Array[Balloon] = []
	_figures.clear()
	for child in get_children():
		var balloon := child as Balloon
		if balloon != null:
			_figures.append(Rect2(balloon.anchor - Vector2(20, 2), Vector2(40, 64)))
			if balloon.visible:
				balloons.append(balloon)
	balloons.sort_custom(func(a: Balloon, b: Balloon) -> bool:
		return a.is_important and not b.is_important if a.is_important != b.is_important else a.get_index() < b.get_index())
	var taken: Array[Rect2] = []
	for balloon in balloons:
		var rect := _find_place(balloon, screen, taken)
		taken.append(rect.grow(3))
		balloon.place(rect.position)


func _find_place(balloon: Balloon, screen: Rect2, taken: Array[Rect2]) -> Rect2:
	var size := balloon.size
	var head := balloon.anchor
	var over := head - Vector2(size.x / 2, size.y + OVER_HEAD)
	var aside := size.x / 2 - 24
	var best := _inside(Rect2(over, size), screen)
	var best_overlap := INF
	for shift: Vector2 in [Vector2.ZERO, Vector2(-aside, 0), Vector2(aside, 0), Vector2(0, -40), Vector2(-aside, -40), Vector2(aside, -40),
			Vector2(0, -90), Vector2(0, size.y + 96), Vector2(-aside, size.y + 96), Vector2(aside, size.y + 96)]:
		var rect := _inside(Rect2(over + shift, size), screen)
		var overlap := 0.0
		for other in taken:
			overlap += rect.intersection(other).get_area()
		# People stay visible where they can.
		for figure in _figures:
			overlap += 0.5 * rect.intersection(figure).get_area()
		if overlap < best_overlap:
			best = rect
			best_overlap = overlap
		if overlap <= 0:
			break
	return best


func _inside(rect: Rect2, screen: Rect2) -> Rect2:
	var room := screen.size - rect.size
	return Rect2(screen.position + (rect.position - screen.position).clamp(Vector2.ZERO, room.max(Vector2.ZERO)), rect.size)
