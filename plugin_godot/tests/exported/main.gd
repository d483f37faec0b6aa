extends Node
## A game as it is shipped: the engine as autoload, the model inside the .pck, a character in the scene.


func _ready() -> void:
	var banter: BanterEngine = get_tree().root.get_node("Banter")
	banter.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"  # the tests' model has none
	banter.failed.connect(func(_code: int, message: String) -> void:
		print("FAILED: ", message)
		get_tree().quit(1))
	banter.load_model(banter.model_path)
	var reply: String = await $Mira.ask(" there was a")
	for kind: String in ["release", "debug"]:
		if OS.has_feature("template_" + kind):
			print("exported: ", kind)
	print("SAID:", reply)
	get_tree().quit(0)
