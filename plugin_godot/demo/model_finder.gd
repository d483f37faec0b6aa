class_name ModelFinder
extends RefCounted
## Where the model is: what the command line names, BANTER_MODEL, the project's setting, or what ./dev fetch-model brought.

## Where was looked, for the screen that says that nothing was found.
var looked: PackedStringArray = []


## The path of a model, or "".
func find(named: String) -> String:
	# What is named is meant: another one in its place would only surprise.
	if not named.is_empty():
		return _if_there(_from_there(named), "--model")
	var variable := OS.get_environment("BANTER_MODEL")
	if not variable.is_empty():
		return _if_there(_from_there(variable), "BANTER_MODEL")
	looked.append(Words.of("%s: not set") % "BANTER_MODEL")
	var setting := str(ProjectSettings.get_setting("banter/model_path", ""))
	if not setting.is_empty():
		return _if_there(setting, "banter/model_path")
	return _in_cache()


## With --path Godot goes to the project's folder; who typed a relative path meant it from where the shell was.
func _from_there(path: String) -> String:
	var there := OS.get_environment("PWD").path_join(path)
	return there if path.is_relative_path() and there.is_absolute_path() and FileAccess.file_exists(there) else path


func _if_there(path: String, whence: String) -> String:
	if FileAccess.file_exists(path):
		return path
	looked.append(Words.of("%s: %s, which is not there") % [whence, path])
	return ""


func _in_cache() -> String:
	var cache := OS.get_environment("XDG_CACHE_HOME")
	if cache.is_empty():
		cache = OS.get_environment("HOME").path_join(".cache")
	var folder := cache.path_join("banter/models")
	for name in DirAccess.get_files_at(folder) if DirAccess.dir_exists_absolute(folder) else PackedStringArray():
		if name.get_extension() == "gguf":
			return folder.path_join(name)
	looked.append(Words.of("%s: no model") % folder)
	return ""
