@tool
extends VBoxContainer
## The models of a folder, each with the smallest graphics card that it fits. They are measured one after another, a file's header in a frame.

signal chosen(path: String)

const Needs := preload("needs.gd")
const MOST_FILES := 200

var _list: Tree
var _model := BanterModel.new()
var _folder := ""
var _context := 0
var _characters := 1
var _waiting: Array[TreeItem] = []


func _init() -> void:
	_list = Tree.new()
	_list.columns = 2
	_list.hide_root = true
	_list.scroll_vertical_enabled = false  # it is inside of something that scrolls
	_list.select_mode = Tree.SELECT_ROW
	_list.set_column_expand_ratio(0, 3)
	_list.set_column_clip_content(0, true)
	_list.item_activated.connect(_on_item_activated)
	add_child(_list)
	hide()
	set_process(false)


## Those of `folder`, with that context, KV format and number of characters; hidden where there is nothing but `current`.
func show_folder(folder: String, current: String, context: int, kv_type: BanterEngine.KVType, characters: int) -> void:
	_folder = folder
	_context = context
	_characters = characters
	_model.kv_type = kv_type
	_waiting.clear()
	_list.clear()
	var names := models_in(folder)
	visible = names.size() > 1 or (names.size() == 1 and folder.path_join(names[0]) != current)
	set_process(visible)
	if not visible:
		return
	var root := _list.create_item()
	for file in names:
		var item := root.create_child()
		item.set_text(0, file)
		item.set_tooltip_text(0, folder.path_join(file))
		item.set_text(1, "…")
		item.set_text_alignment(1, HORIZONTAL_ALIGNMENT_RIGHT)
		if folder.path_join(file) == current:
			item.select(0)
		_waiting.append(item)


## The GGUF files of a folder by their names; of one that is split only its first part.
static func models_in(folder: String) -> PackedStringArray:
	var names: PackedStringArray = []
	if folder.is_empty() or not DirAccess.dir_exists_absolute(folder):
		return names
	var later_part := RegEx.create_from_string("-(?!00001)\\d{5}-of-\\d{5}\\.gguf$")
	for file in DirAccess.get_files_at(folder):
		if file.get_extension().to_lower() == "gguf" and later_part.search(file) == null and names.size() < MOST_FILES:
			names.append(file)
	return names


## As it is shown: the file, and the card.
func get_lines() -> PackedStringArray:
	var lines: PackedStringArray = []
	if _list.get_root() != null:
		for item in _list.get_root().get_children():
			lines.append("%s: %s" % [item.get_text(0), item.get_text(1)])
	return lines


func is_measuring() -> bool:
	return not _waiting.is_empty()


func _process(_delta: float) -> void:
	if is_visible_in_tree():
		measure_next()


func measure_next() -> void:
	if _waiting.is_empty():
		set_process(false)
		return
	var item: TreeItem = _waiting.pop_front()
	_model.model_path = _folder.path_join(item.get_text(0))
	var needs := Needs.measure(_model, _context)
	if needs["error"] != OK:
		item.set_text(1, "–")
		item.set_tooltip_text(1, str(needs["message"]))
		return
	var bytes := Needs.bytes(needs, _characters)
	var card := Needs.smallest_card(bytes)
	item.set_text(1, "%d GB" % card if card > 0 else "no card")
	item.set_tooltip_text(1, "Needs about %s with %d characters of %d tokens." % [String.humanize_size(bytes), _characters, Needs.count(needs, "context_tokens")])


func _on_item_activated() -> void:
	chosen.emit(_folder.path_join(_list.get_selected().get_text(0)))
