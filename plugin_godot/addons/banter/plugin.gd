@tool
extends EditorPlugin
## Adds what a project with one engine needs, the autoload Banter and the setting that says which model it loads; and to the editor a dock
## for talking to characters, the import of profiles, and the export of models.

const AUTOLOAD := "Banter"
const SETTING := "banter/model_path"
const IMPORT_ITEM := "Import Banter Profile…"

const Dock := preload("editor/dock.gd")
const ProfileImporter := preload("editor/profile_importer.gd")
const ProfileDialog := preload("editor/profile_dialog.gd")
const ModelExporter := preload("editor/model_exporter.gd")

var _dock: Dock
var _importer: ProfileImporter
var _dialog: ProfileDialog
var _exporter: ModelExporter


func _enter_tree() -> void:
	if not ProjectSettings.has_setting(SETTING):
		ProjectSettings.set_setting(SETTING, "")
	ProjectSettings.set_initial_value(SETTING, "")
	ProjectSettings.set_as_basic(SETTING, true)
	ProjectSettings.add_property_info({"name": SETTING, "type": TYPE_STRING, "hint": PROPERTY_HINT_FILE, "hint_string": "*.gguf"})
	_importer = ProfileImporter.new()
	add_import_plugin(_importer)
	_exporter = ModelExporter.new()
	add_export_plugin(_exporter)
	_dialog = ProfileDialog.new()
	EditorInterface.get_base_control().add_child(_dialog)
	add_tool_menu_item(IMPORT_ITEM, _dialog.popup_file_dialog)
	_dock = Dock.new()
	_dock.name = "Banter"
	add_control_to_dock(DOCK_SLOT_RIGHT_UL, _dock)
	scene_changed.connect(_on_scene_changed)


func _exit_tree() -> void:
	scene_changed.disconnect(_on_scene_changed)
	remove_control_from_docks(_dock)
	_dock.unload_model()  # only here: a dock that is moved or made to float leaves the tree, too
	_dock.free()
	remove_tool_menu_item(IMPORT_ITEM)
	_dialog.free()
	remove_import_plugin(_importer)
	_importer = null
	remove_export_plugin(_exporter)
	_exporter = null


func _on_scene_changed(_root: Node) -> void:
	_dock.model_panel.follow_scene()


func _enable_plugin() -> void:
	_refresh_warnings.call_deferred()
	var path := _path_of_autoload()
	if path.is_empty():
		add_autoload_singleton(AUTOLOAD, _own_autoload())
	elif path != _own_autoload():
		push_warning("The project has an autoload %s of its own, %s, which stays. The engine for all scenes is %s: make it an autoload of another name, or add a BanterEngine to your scenes."
				% [AUTOLOAD, path, _own_autoload()])


func _disable_plugin() -> void:
	_refresh_warnings.call_deferred()
	if _path_of_autoload() == _own_autoload():  # else somebody has taken it away, or put another one in its place
		remove_autoload_singleton(AUTOLOAD)


## Of the characters in the edited scene: the autoload is an engine for them.
func _refresh_warnings() -> void:
	EditorInterface.get_base_control().get_tree().call_group(&"banter_characters", &"update_configuration_warnings")


func _own_autoload() -> String:
	var script: Script = get_script()
	return script.resource_path.get_base_dir().path_join("autoload.gd")


## What the project has as the autoload of that name, or "".
func _path_of_autoload() -> String:
	var path := str(ProjectSettings.get_setting("autoload/" + AUTOLOAD, "")).trim_prefix("*")
	if not path.begins_with("uid://"):
		return path
	var id := ResourceUID.text_to_id(path)
	return ResourceUID.get_id_path(id) if ResourceUID.has_id(id) else path
