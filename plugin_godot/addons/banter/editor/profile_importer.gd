@tool
extends EditorImportPlugin
## Compiled profiles (.bnpc, of sdk/schema/npc_profile.fbs) in the project are BanterProfiles.


func _get_importer_name() -> String:
	return "banter.profile"


func _get_visible_name() -> String:
	return "Banter Profile"


func _get_recognized_extensions() -> PackedStringArray:
	return ["bnpc"]


func _get_save_extension() -> String:
	return "res"


func _get_resource_type() -> String:
	return "BanterProfile"


func _get_priority() -> float:
	return 1.0


func _get_import_order() -> int:
	return IMPORT_ORDER_DEFAULT


func _get_preset_count() -> int:
	return 0


func _get_import_options(_path: String, _preset_index: int) -> Array[Dictionary]:
	return []


func _get_option_visibility(_path: String, _option_name: StringName, _options: Dictionary) -> bool:
	return true


func _import(source_file: String, save_path: String, _options: Dictionary, _platform_variants: Array[String],
		_gen_files: Array[String]) -> Error:
	var bytes := FileAccess.get_file_as_bytes(source_file)
	if bytes.is_empty() and FileAccess.get_open_error() != OK:
		return FileAccess.get_open_error()
	var profile := BanterProfile.new()
	var error := profile.load_binary(bytes)
	if error != OK:
		push_error("%s: %s" % [source_file, profile.get_load_message()])
		return error
	return ResourceSaver.save(profile, "%s.%s" % [save_path, _get_save_extension()])
