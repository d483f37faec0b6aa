@tool
extends EditorPlugin
## What somebody does who has just unpacked the addon: waits until the editor has looked through the project, enables the plugin, and looks for the
## classes and the dock. Names nothing of the addon, which may not be there. Nothing is awaited either: the editor reloads all scripts when it finds an
## extension, and what was awaited then does not go on.

var _calm_frames := 0
var _was_enabled := false


func _process(_delta: float) -> void:
	_calm_frames = 0 if EditorInterface.get_resource_filesystem().is_scanning() else _calm_frames + 1
	if _calm_frames < 30:
		return
	_calm_frames = 0
	print("PROBE: ", state())
	if _was_enabled:
		get_tree().quit()
	elif OS.get_environment("BANTER_PROBE") == "enable":
		EditorInterface.set_plugin_enabled("banter", true)
	_was_enabled = true


func state() -> String:
	var classes := ["BanterEngine", "BanterModel", "BanterNPC", "BanterProfile"].filter(func(name: String) -> bool: return ClassDB.can_instantiate(name))
	var docks := EditorInterface.get_base_control().find_children("Banter", "Control", true, false)
	return "%d classes, plugin %s, %d docks, autoload %s" % [classes.size(), EditorInterface.is_plugin_enabled("banter"), docks.size(),
			"set" if ProjectSettings.has_setting("autoload/Banter") else "missing"]
