@tool
extends EditorPlugin
## Adds what a project with one engine needs: the autoload Banter, and the setting that says which model it loads.

const AUTOLOAD := "Banter"
const SETTING := "banter/model_path"


func _enter_tree() -> void:
	if not ProjectSettings.has_setting(SETTING):
		ProjectSettings.set_setting(SETTING, "")
	ProjectSettings.set_initial_value(SETTING, "")
	ProjectSettings.set_as_basic(SETTING, true)
	ProjectSettings.add_property_info({"name": SETTING, "type": TYPE_STRING, "hint": PROPERTY_HINT_FILE, "hint_string": "*.gguf"})


func _enable_plugin() -> void:
	add_autoload_singleton(AUTOLOAD, get_script().resource_path.get_base_dir().path_join("autoload.gd"))


func _disable_plugin() -> void:
	remove_autoload_singleton(AUTOLOAD)
