extends SceneTree
## What a test of the demo extends: checks that count, and an end that cannot be missed. Typed throughout, as the demo's project asks.

var _failures := 0


func _initialize() -> void:
	await process_frame  # the root enters the tree after this
	await test()
	print("TEST ENDED, failures: ", _failures)
	quit(1 if _failures > 0 else 0)


func check(good: bool, what: String) -> void:
	if not good:
		_failures += 1
		print("CHECK FAILED: ", what)


func check_equal(got: Variant, wanted: Variant, what: String) -> void:
	check(typeof(got) == typeof(wanted) and str(got) == str(wanted), "%s: got %s, wanted %s" % [what, got, wanted])


func test() -> void:
	check(false, "the script has no test()")


## Waits until the condition holds; false when it took too long.
func until(condition: Callable, seconds := 20.0) -> bool:
	var end := Time.get_ticks_msec() + int(seconds * 1000)
	while not condition.call():
		if Time.get_ticks_msec() > end:
			return false
		await process_frame
	return true
