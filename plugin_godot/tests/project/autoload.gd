extends "res://check.gd"
## The autoload that enabling the plugin adds, as this project has it: its engine serves every character of the tree.


func test() -> void:
	var banter: BanterEngine = root.get_node("Banter")
	check_equal(banter.model_path, MODEL, "the project's model")
	check_equal(banter.process_mode, Node.PROCESS_MODE_ALWAYS, "it goes on in pauses")
	banter.chat_template = TEMPLATE
	check_equal(banter.load_model(banter.model_path), OK, "load")
	var scene := Node.new()
	root.add_child(scene)
	var npc := new_npc("Once upon a time", scene)
	paused = true
	check((await npc.ask(" there was")).length() > 0, "it speaks while the tree is paused")
	paused = false
	scene.queue_free()
	banter.queue_free()
