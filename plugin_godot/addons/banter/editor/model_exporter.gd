@tool
extends EditorExportPlugin
## Puts the models that a game refers to into its export, whatever the preset's filters say: Godot itself leaves files out that are no resources.
## Found are the paths that BanterEngine nodes of exported scenes, BanterModel resources and the project setting have; what scripts load is not.

const SETTING := "banter/model_path"

## Of this export: models that are in it, by either way.
var _inside := {}
## Told already.
var _warned := {}


func _get_name() -> String:
	return "BanterModels"


func _export_begin(_features: PackedStringArray, _is_debug: bool, _path: String, _flags: int) -> void:
	_inside.clear()
	_warned.clear()
	if ProjectSettings.has_setting("autoload/Banter"):
		_add_models([str(ProjectSettings.get_setting(SETTING, ""))], "the project setting " + SETTING)


func _export_file(path: String, type: String, _features: PackedStringArray) -> void:
	if path.get_extension().to_lower() == "gguf":
		if _inside.has(path):
			skip()  # a filter brings it, too
		_inside[path] = true
	elif type == "PackedScene":
		_add_models(models_of_scene(ResourceLoader.load(path) as PackedScene), path)
	elif type == "BanterModel":
		_add_models(models_of_resource(ResourceLoader.load(path) as BanterModel), path)


## Model files that nodes of a scene name, themselves or in a resource of theirs; those of instanced scenes are in files of their own.
static func models_of_scene(scene: PackedScene) -> PackedStringArray:
	var paths: PackedStringArray = []
	if scene == null:
		return paths
	var state := scene.get_state()
	for node in state.get_node_count():
		for property in state.get_node_property_count(node):
			var value: Variant = state.get_node_property_value(node, property)
			if value is BanterModel:
				var resource: BanterModel = value
				paths.append_array(models_of_resource(resource))
			elif value is String and state.get_node_property_name(node, property) == &"model_path":
				var path: String = value
				# The type of an instanced scene's node is in that scene; another addon's node may have such a property, too.
				if state.get_node_type(node) == &"BanterEngine" or path.get_extension().to_lower() == "gguf":
					paths.append(path)
	return paths


static func models_of_resource(resource: BanterModel) -> PackedStringArray:
	return PackedStringArray([resource.model_path, resource.draft_path]) if resource != null else PackedStringArray()


func _add_models(paths: PackedStringArray, whence: String) -> void:
	for path in paths:
		if path.is_empty() or _inside.has(path):
			continue
		if not path.begins_with("res://"):
			_warn("%s names the model %s, which is not in the project: the exported game has to find it there." % [whence, path])
			continue
		var bytes := FileAccess.get_file_as_bytes(path)
		if bytes.is_empty():
			_warn("%s names the model %s, which cannot be read: %s." % [whence, path, error_string(FileAccess.get_open_error())])
			continue
		_inside[path] = true
		add_file(path, bytes, false)


func _warn(text: String) -> void:
	if not _warned.has(text):
		_warned[text] = true
		push_warning("Banter: " + text)
