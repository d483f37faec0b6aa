extends SceneTree
## What every test script extends: checks that count, and an end that cannot be missed.

## Same words in every run, whatever the weather of the processor.
const TEMPLATE := "{% for m in messages %}{{ m.content }}{% endfor %}"
const MODEL := "res://models/stories.gguf"

var _failures := 0


func _initialize() -> void:
	_run()


func _run() -> void:
	await process_frame  # the root enters the tree after _initialize()
	await test()
	# What was queued for deletion goes first, so that leaks are leaks.
	await process_frame
	await process_frame
	print("TEST ENDED, failures: ", _failures)
	quit(1 if _failures > 0 else 0)


func test() -> void:
	check(false, "the script has no test()")


func check(good: bool, what: String) -> void:
	if not good:
		_failures += 1
		var caller: Dictionary = get_stack()[1] if get_stack().size() > 1 else {}
		print("CHECK FAILED: ", what, " (", caller.get("source", ""), ":", caller.get("line", 0), ")")


func check_equal(got: Variant, wanted: Variant, what: String) -> void:
	check(typeof(got) == typeof(wanted) and got == wanted, "%s: got %s, wanted %s" % [what, got, wanted])


## Waits until the condition holds; false when it took too long.
func until(condition: Callable, seconds := 20.0) -> bool:
	var end := Time.get_ticks_msec() + int(seconds * 1000)
	while not condition.call():
		if Time.get_ticks_msec() > end:
			return false
		await process_frame
	return true


## The next failure of an engine or a character: [code, message]; empty until it is told.
func listen(node: Node) -> Array:
	var told: Array = []
	node.failed.connect(func(code: int, message: String) -> void: told.append_array([code, message]), CONNECT_ONE_SHOT)
	return told


func new_engine(path := MODEL) -> BanterEngine:
	var engine := BanterEngine.new()
	engine.chat_template = TEMPLATE
	engine.model_path = path
	engine.device = BanterEngine.DEVICE_CPU
	engine.thread_count = 1
	root.add_child(engine)
	return engine


func new_npc(persona := "", parent: Node = root) -> BanterNPC:
	var npc := BanterNPC.new()
	npc.persona = persona
	npc.temperature = 0.0
	npc.max_tokens = 24
	parent.add_child(npc)
	return npc
