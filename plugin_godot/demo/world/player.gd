class_name Player
extends Figure
## The traveller: walks by the keys, or to where a script sends them.

signal arrived

const SPEED := 190.0
const BOUNDS := Rect2(24, 250, 1104, 320)

## Says whether nobody can stand at a place.
var is_blocked := func(_at: Vector2) -> bool: return false
## While somebody types, the keys are letters.
var listens_to_keys := true

var _way: Array[Vector2] = []


func walk_to(target: Vector2) -> void:
	# Along the road, so that no house is in the way.
	var road := 366.0
	_way = [Vector2(position.x, road), Vector2(target.x, road), target]


func stop() -> void:
	_way.clear()


func _process(delta: float) -> void:
	if not _way.is_empty():
		_follow(delta)
	elif listens_to_keys:
		_step(_wish() * SPEED * delta)


func _wish() -> Vector2:
	var wish := Vector2.ZERO
	for key: Key in [KEY_LEFT, KEY_A]:
		wish.x -= 1.0 if Input.is_physical_key_pressed(key) else 0.0
	for key: Key in [KEY_RIGHT, KEY_D]:
		wish.x += 1.0 if Input.is_physical_key_pressed(key) else 0.0
	for key: Key in [KEY_UP, KEY_W]:
		wish.y -= 1.0 if Input.is_physical_key_pressed(key) else 0.0
	for key: Key in [KEY_DOWN, KEY_S]:
		wish.y += 1.0 if Input.is_physical_key_pressed(key) else 0.0
	return wish.limit_length(1)


func _step(by: Vector2) -> void:
	if by == Vector2.ZERO:
		return
	gaze = signf(by.x)
	# Along what is in the way, not stuck at it.
	for part: Vector2 in [Vector2(by.x, 0), Vector2(0, by.y)]:
		var next := (position + part).clamp(BOUNDS.position, BOUNDS.end)
		if not is_blocked.call(next):
			position = next


func _follow(delta: float) -> void:
	var target := _way[0]
	gaze = signf(target.x - position.x)
	position = position.move_toward(target, SPEED * 1.6 * delta)
	if position.is_equal_approx(target):
		_way.pop_front()
		if _way.is_empty():
			arrived.emit()
