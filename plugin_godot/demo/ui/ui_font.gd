class_name UiFont
extends RefCounted
## The font of everything on the screen: Godot's own, and for Chinese the one that ./dev godot brings, else the system's.

## In the order in which they are tried. A font that the editor has imported is a resource; one beside an unimported project is a file.
const FILES: PackedStringArray = ["res://fonts/chinese.ttf", "res://fonts/chinese.ttc"]

static var _chinese := false


static func install() -> void:
	var font := FontVariation.new()
	font.base_font = ThemeDB.fallback_font
	var chinese := _find()
	_chinese = chinese != null
	if chinese != null:
		font.fallbacks = [chinese]
	ThemeDB.get_project_theme().default_font = font


## Whether Chinese can be read.
static func has_chinese() -> bool:
	return _chinese


static func current() -> Font:
	return ThemeDB.get_project_theme().default_font


static func _find() -> FontFile:
	for path in FILES:
		if ResourceLoader.exists(path):
			return load(path) as FontFile
		if FileAccess.file_exists(path):
			var font := FontFile.new()
			if font.load_dynamic_font(path) == OK:
				return font
	var system := OS.get_system_font_path_for_text("sans-serif", "茶", "zh")
	for path in system:
		var font := FontFile.new()
		if font.load_dynamic_font(path) == OK and font.has_char("茶".unicode_at(0)):
			return font
	return null
