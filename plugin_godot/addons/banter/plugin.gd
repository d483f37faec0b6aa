@tool
extends EditorPlugin
## Adds what a project with one engine needs, the autoload Banter and the setting that says which model it loads; and to the editor a dock
## for talking to characters, and the import of profiles.

const AUTOLOAD := "Banter"
const SETTING := "banter/model_path"
const IMPORT_ITEM := "Import Banter Profile…"

const Dock := preload("editor/dock.gd")
const ProfileImporter := preload("editor/profile_importer.gd")
const ProfileDialog := preload("editor/profile_dialog.gd")

var _dock: Dock
var _importer: ProfileImporter
var _dialog: ProfileDialog


func _enter_tree() -> void:
	if not ProjectSettings.has_setting(SETTING):
		ProjectSettings.set_setting(SETTING, "")
	ProjectSettings.set_initial_value(SETTING, "")
	ProjectSettings.set_as_basic(SETTING, true)
	ProjectSettings.add_property_info({"name": SETTING, "type": TYPE_STRING, "hint": PROPERTY_HINT_FILE, "hint_string": "*.gguf"})
	_importer = ProfileImporter.new()
	add_import_plugin(_importer)
	_dialog = ProfileDialog.new()
	EditorInterface.get_base_control().add_child(_dialog)
	add_tool_menu_item(IMPORT_ITEM, _dialog.popup_file_dialog)
	_dock = Dock.new()
	_dock.name = "Banter"
	add_control_to_dock(DOCK_SLOT_RIGHT_UL, _dock)


func _exit_tree() -> void:
	remove_control_from_docks(_dock)
	_dock.free()  # and with it the engine
	remove_tool_menu_item(IMPORT_ITEM)
	_dialog.free()
	remove_import_plugin(_importer)
	_importer = null


func _enable_plugin() -> void:
	var script: Script = get_script()
	add_autoload_singleton(AUTOLOAD, script.resource_path.get_base_dir().path_join("autoload.gd"))


func _disable_plugin() -> void:
	if ProjectSettings.has_setting("autoload/" + AUTOLOAD):  # somebody may have taken it away
		remove_autoload_singleton(AUTOLOAD)
