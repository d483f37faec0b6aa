@tool
extends EditorPlugin
## What the tests in an editor extend: checks that count, and an end that cannot be missed.

var _failures := 0


func _ready() -> void:
	await get_tree().create_timer(0.5).timeout
	await test()
	print("TEST ENDED, failures: ", _failures)
	get_tree().quit(1 if _failures > 0 else 0)


func test() -> void:
	check(false, "the script has no test()")


func check(good: bool, what: String) -> void:
	if not good:
		_failures += 1
		print("CHECK FAILED: ", what)


## Waits until the condition holds; false when it took too long.
func until(condition: Callable, seconds := 20.0) -> bool:
	var end := Time.get_ticks_msec() + int(seconds * 1000)
	while not condition.call():
		if Time.get_ticks_msec() > end:
			return false
		await get_tree().process_frame
	return true
