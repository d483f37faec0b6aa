@tool
extends Node
## Makes a BanterProfile of the project of a profile's JSON, or of a compiled one, from anywhere.

var _files: EditorFileDialog
var _message: AcceptDialog


func _init() -> void:
	_files = EditorFileDialog.new()
	_files.title = "Import a Banter Profile"
	_files.file_mode = EditorFileDialog.FILE_MODE_OPEN_FILE
	_files.access = EditorFileDialog.ACCESS_FILESYSTEM
	_files.add_filter("*.json", "Profile as JSON")
	_files.add_filter("*.bnpc", "Compiled profile")
	_files.file_selected.connect(_on_file_selected)
	add_child(_files)
	_message = AcceptDialog.new()
	_message.title = "Banter"
	add_child(_message)


func popup_file_dialog() -> void:
	_files.popup_file_dialog()


## Saves it as NAME.tres in the project's folder, and tells where; gives the path, or "".
func import_profile(path: String) -> String:
	var profile := BanterProfile.new()
	var bytes := FileAccess.get_file_as_bytes(path)
	var error := FileAccess.get_open_error()
	if error == OK and path.get_extension().to_lower() == "json":
		error = profile.load_json(bytes.get_string_from_utf8())
	elif error == OK:
		error = profile.load_binary(bytes)
	if error != OK:
		_tell("%s cannot be imported: %s" % [path.get_file(), profile.get_load_message() if profile.get_load_message() else error_string(error)])
		return ""
	var target := _free_name("res://" + path.get_file().get_basename())
	error = ResourceSaver.save(profile, target)
	if error != OK:
		_tell("%s cannot be written: %s." % [target, error_string(error)])
		return ""
	EditorInterface.get_resource_filesystem().update_file(target)
	_tell("The profile is now %s." % target)
	return target


func _free_name(base: String) -> String:
	var path := base + ".tres"
	var number := 2
	while FileAccess.file_exists(path):
		path = "%s_%d.tres" % [base, number]
		number += 1
	return path


func _on_file_selected(path: String) -> void:
	import_profile(path)


func _tell(text: String) -> void:
	_message.dialog_text = text
	if DisplayServer.get_name() != "headless":
		_message.popup_centered()
