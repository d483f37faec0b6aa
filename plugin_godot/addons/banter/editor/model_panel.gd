@tool
extends VBoxContainer
## The dock's upper part: which model, what it needs and where it fits, loading it.

signal load_requested
signal unload_requested

const Needs := preload("needs.gd")
const Cards := preload("cards.gd")
const FolderModels := preload("folder_models.gd")

## Of the window's height, the most that cards and other models take.
const MOST_OF_HEIGHT := 0.14
const SETTING := "banter/model_path"
const CONTEXTS: Array[int] = [1024, 2048, 4096, 8192, 16384, 32768]
const KV_NAMES: Array[String] = ["Auto", "F16", "BF16", "F32", "INT8", "INT4"]

## What is measured, and what the dock's engine loads.
var model := BanterModel.new()

var _path: LineEdit
var _browse: Button
var _context: OptionButton
var _kv: OptionButton
var _characters: SpinBox
var _hint: Label
var _fold: Button
var _details: ScrollContainer
var _column: VBoxContainer
var _cards: Cards
var _others: FolderModels
var _load: Button
var _progress: ProgressBar
var _files: EditorFileDialog
var _is_loaded := false
var _is_loading := false
## Whether somebody typed a path that the project does not have yet.
var _is_edited := false
## Of the engine in the edited scene; what an engine has by default where there is none.
var _engine_context := 0
var _engine_kv := BanterEngine.KV_AUTO
## Whose models are listed.
var _folder := ""


func _init() -> void:
	_add_picker()
	_add_options()
	_hint = Label.new()
	_hint.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	_hint.mouse_filter = MOUSE_FILTER_PASS
	add_child(_hint)
	_add_details()
	var row := HBoxContainer.new()
	_load = Button.new()
	_load.pressed.connect(_on_load_pressed)
	row.add_child(_load)
	_progress = ProgressBar.new()
	_progress.max_value = 1.0
	_progress.size_flags_horizontal = SIZE_EXPAND_FILL
	_progress.size_flags_vertical = SIZE_SHRINK_CENTER
	row.add_child(_progress)
	add_child(row)


func _add_picker() -> void:
	var row := HBoxContainer.new()
	_path = LineEdit.new()
	_path.placeholder_text = "A model: a GGUF file"
	_path.size_flags_horizontal = SIZE_EXPAND_FILL
	_path.text_submitted.connect(set_model_path)
	_path.text_changed.connect(func(_text: String) -> void: _is_edited = true)
	_path.focus_exited.connect(_on_focus_exited)
	row.add_child(_path)
	_browse = Button.new()
	_browse.tooltip_text = "Choose a model. The project setting %s remembers it." % SETTING
	_browse.pressed.connect(func() -> void: _files.popup_file_dialog())
	row.add_child(_browse)
	add_child(row)
	_files = EditorFileDialog.new()
	_files.file_mode = EditorFileDialog.FILE_MODE_OPEN_FILE
	_files.access = EditorFileDialog.ACCESS_FILESYSTEM
	_files.add_filter("*.gguf", "Models")
	_files.file_selected.connect(_on_file_selected)
	_files.canceled.connect(_on_files_canceled)
	add_child(_files)


func _add_options() -> void:
	var grid := GridContainer.new()
	grid.columns = 2
	_context = OptionButton.new()
	_context.add_item("", 0)
	for tokens in CONTEXTS:
		_context.add_item("%d tokens" % tokens, tokens)
	_context.tooltip_text = "The longest conversation of each character. The first choice is what the BanterEngine of the edited scene has."
	_context.item_selected.connect(func(_index: int) -> void: _on_option_changed())
	_add_option(grid, "Context", _context)
	_kv = OptionButton.new()
	for name_of_type in KV_NAMES:
		_kv.add_item(name_of_type)
	_kv.add_item("")
	_kv.tooltip_text = "How conversations are kept: size against exactness. The last choice is what the BanterEngine of the edited scene has."
	_kv.item_selected.connect(func(_index: int) -> void: _on_option_changed())
	_add_option(grid, "KV format", _kv)
	_characters = SpinBox.new()
	_characters.min_value = 1
	_characters.max_value = 1000
	_characters.tooltip_text = "How many characters of the game have a conversation of that length at a time."
	_characters.value_changed.connect(func(_value: float) -> void: _on_option_changed())
	_add_option(grid, "Characters", _characters)
	add_child(grid)


## Each card, and the models beside the chosen one: folded, since docks are small.
func _add_details() -> void:
	_fold = Button.new()
	_fold.text = "Cards and other models"
	_fold.flat = true
	_fold.toggle_mode = true
	_fold.alignment = HORIZONTAL_ALIGNMENT_LEFT
	_fold.toggled.connect(_on_fold_toggled)
	add_child(_fold)
	_details = ScrollContainer.new()
	_details.horizontal_scroll_mode = ScrollContainer.SCROLL_MODE_DISABLED
	_details.hide()
	add_child(_details)
	_column = VBoxContainer.new()
	_column.size_flags_horizontal = SIZE_EXPAND_FILL
	_column.minimum_size_changed.connect(_fit_details)
	_details.add_child(_column)
	_cards = Cards.new()
	_column.add_child(_cards)
	_others = FolderModels.new()
	_others.chosen.connect(_on_file_selected)
	_column.add_child(_others)


func _add_option(grid: GridContainer, title: String, control: Control) -> void:
	var label := Label.new()
	label.text = title
	grid.add_child(label)
	control.size_flags_horizontal = SIZE_EXPAND_FILL
	grid.add_child(control)


func _ready() -> void:
	var kept: Dictionary = EditorInterface.get_editor_settings().get_project_metadata("banter", "dock", {})
	_context.select(maxi(_context.get_item_index(_whole(kept, "context", 0)), 0))
	_kv.select(clampi(_whole(kept, "kv", KV_NAMES.size()), 0, KV_NAMES.size()))
	_characters.set_value_no_signal(clampi(_whole(kept, "characters", 8), 1, 1000))
	_fold.set_pressed_no_signal(_whole(kept, "unfolded", 0) != 0)
	_details.visible = _fold.button_pressed
	_show_fold()
	_path.text = _path_of_project()
	_folder = _path.text.get_base_dir()
	_show_engine()
	ProjectSettings.settings_changed.connect(_on_settings_changed)
	_measure()
	show_state(false, false, 0.0)


func _notification(what: int) -> void:
	if what == NOTIFICATION_THEME_CHANGED and _browse != null:
		_browse.icon = get_theme_icon("Folder", "EditorIcons")
		_show_fold()
		_show_load_button()


## Shows the cards and the other models, or folds them away.
func unfold(is_unfolded: bool) -> void:
	_fold.button_pressed = is_unfolded


func _on_fold_toggled(is_unfolded: bool) -> void:
	_details.visible = is_unfolded
	_fit_details()
	_show_fold()
	_keep_options()


## As high as what is in it, but no wall.
func _fit_details() -> void:
	if is_inside_tree():
		_details.custom_minimum_size.y = minf(_column.get_combined_minimum_size().y, MOST_OF_HEIGHT * get_window().size.y)


func _show_fold() -> void:
	_fold.icon = get_theme_icon("GuiTreeArrowDown" if _details.visible else "GuiTreeArrowRight", "EditorIcons")


func _whole(kept: Dictionary, key: String, otherwise: int) -> int:
	var value: Variant = kept.get(key)
	if value is int:
		return value
	return otherwise


## Takes another model and remembers it in the project.
func set_model_path(path: String) -> void:
	path = path.strip_edges()
	_is_edited = false
	_path.text = path
	_folder = path.get_base_dir() if path else _folder
	if path == _path_of_project() and path == model.model_path:
		return
	ProjectSettings.set_setting(SETTING, path)
	ProjectSettings.save()
	_measure()


## What stands in the hint.
func get_hint() -> String:
	return _hint.text


## A sentence for each graphics card.
func get_cards() -> PackedStringArray:
	return _cards.get_lines()


## Looks again at the engine of the edited scene, whose settings the hint may be about.
func follow_scene() -> void:
	var engine := _engine_of_scene()
	var context := 0
	var kv := BanterEngine.KV_AUTO
	if engine != null:
		context = engine.model.context_tokens if engine.model != null else engine.context_tokens
		kv = engine.model.kv_type if engine.model != null else engine.kv_type
	if context != _engine_context or kv != _engine_kv:
		_engine_context = context
		_engine_kv = kv
		_show_engine()
		_measure()


func _engine_of_scene() -> BanterEngine:
	var scene := EditorInterface.get_edited_scene_root()
	if scene == null or scene is BanterEngine:
		return scene as BanterEngine
	for node in scene.find_children("*", "BanterEngine", true, false):
		return node
	return null


func _show_engine() -> void:
	_context.set_item_text(0, "Engine: %d tokens" % _engine_context if _engine_context > 0 else "Engine: the model's own")
	_kv.set_item_text(KV_NAMES.size(), "Engine: %s" % KV_NAMES[_engine_kv])


func set_options(context: int, kv_type: int, characters: int) -> void:
	_context.select(maxi(_context.get_item_index(context), 0))
	_kv.select(kv_type)
	_characters.set_value_no_signal(characters)
	_on_option_changed()


func show_state(is_loading: bool, is_loaded: bool, fraction: float) -> void:
	_is_loading = is_loading
	_is_loaded = is_loaded
	_progress.visible = is_loading
	_progress.value = fraction
	_show_load_button()


func _show_load_button() -> void:
	_load.text = "Cancel" if _is_loading else "Unload" if _is_loaded else "Load"
	_load.tooltip_text = "Frees the model's memory." if _is_loaded else "Loads the model into the editor, to talk to the selected character."
	_load.icon = get_theme_icon("Stop" if _is_loading else "Clear" if _is_loaded else "Play", "EditorIcons")


func _on_load_pressed() -> void:
	if _is_loaded or _is_loading:
		unload_requested.emit()
	else:
		load_requested.emit()


func _on_file_selected(path: String) -> void:
	var local := ProjectSettings.localize_path(path)
	set_model_path(local if local.begins_with("res://") else path)


## The field shows what the project has, unless somebody is typing in it.
func _on_settings_changed() -> void:
	if not _is_edited and _path.text != _path_of_project():
		_path.text = _path_of_project()
		_folder = _path.text.get_base_dir()
		_measure()


## Who only looked into a folder learns what its models need.
func _on_files_canceled() -> void:
	_folder = _files.current_dir
	_list_folder()


func _list_folder() -> void:
	_others.show_folder(_folder, _path.text, _chosen_context(), model.kv_type, int(_characters.value))


func _chosen_context() -> int:
	return _context.get_selected_id() if _context.get_selected_id() > 0 else _engine_context


func _on_focus_exited() -> void:
	if _is_edited:
		set_model_path(_path.text)


func _path_of_project() -> String:
	return str(ProjectSettings.get_setting(SETTING, ""))


func _on_option_changed() -> void:
	_keep_options()
	_measure()


func _keep_options() -> void:
	EditorInterface.get_editor_settings().set_project_metadata("banter", "dock", {"context": _context.get_selected_id(), "kv": _kv.selected,
			"characters": int(_characters.value), "unfolded": int(_fold.button_pressed)})


func _measure() -> void:
	model.model_path = _path.text
	_path.tooltip_text = _path.text
	model.kv_type = _kv.selected as BanterEngine.KVType if _kv.selected < KV_NAMES.size() else _engine_kv
	_list_folder()
	_cards.show_nothing()
	_load.disabled = true
	_hint.tooltip_text = ""
	_hint.remove_theme_color_override("font_color")
	if model.model_path.is_empty():
		_hint.text = "Choose a GGUF file that can chat."
		return
	var needs := Needs.measure(model, _chosen_context())
	if needs["error"] != OK:
		_hint.text = needs["message"]
		_hint.add_theme_color_override("font_color", get_theme_color("error_color", "Editor"))
		return
	_load.disabled = false
	_hint.text = hint_of(needs, int(_characters.value))
	_cards.show_needs(needs, int(_characters.value))
	_hint.tooltip_text = "Model %s, computing %s, each conversation %s. Characters that share the beginning of their prompts need less." % [
		_size(needs, "weight_bytes"), _size(needs, "step_buffer_bytes"), _size(needs, "kv_bytes")]


func _size(needs: Dictionary, key: String) -> String:
	return String.humanize_size(Needs.count(needs, key))


## Which cards a model fits, of what BanterModel.measure() tells.
static func hint_of(needs: Dictionary, characters: int) -> String:
	var bytes := Needs.bytes(needs, characters)
	var text := "Needs about %s with %d character%s of %d tokens" % [
		String.humanize_size(bytes), characters, "" if characters == 1 else "s", Needs.count(needs, "context_tokens")]
	var card := Needs.smallest_card(bytes)
	if card > 0:
		return text + ". Fits graphics cards of %d GB and more, with a fifth left for the picture." % card
	return text + ", more than graphics cards have. A processor with as much memory can compute it."
