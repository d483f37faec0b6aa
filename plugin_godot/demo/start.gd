extends Node
## The first scene. It knows nothing of the addon's classes, so that it can say what to do where the addon is not built.

const WORLD := "res://game.tscn"


func _ready() -> void:
	var options := Options.of_command_line()
	if options.help or not options.fault.is_empty():
		_explain(options)
		return
	UiFont.install()
	Words.install()
	if options.chinese:
		Words.speak_chinese(true)
	if ClassDB.class_exists(&"BanterEngine"):
		get_tree().change_scene_to_file.call_deferred(WORLD)
		return
	var notice := NoticeScreen.new()
	add_child(notice)
	notice.present(tr("The addon is not here yet"), [
		tr("This project needs the folder addons/banter with its library, which is built, not downloaded."),
		tr("In a terminal, in the root of the repository:"), "  ./dev godot",
		tr("That builds the addon, puts it here, brings a model and a font, and starts this demo."),
	])
	printerr("OAKREST FAILED: the addon is not here; run ./dev godot")
	if options.is_scripted():
		get_tree().quit(1)


func _explain(options: Options) -> void:
	if options.help:
		print(Options.USAGE)
	else:
		printerr("OAKREST FAILED: ", options.fault, "\n", Options.USAGE)
	get_tree().quit(0 if options.help else 2)
