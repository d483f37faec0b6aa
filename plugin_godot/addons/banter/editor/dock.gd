@tool
extends VBoxContainer
## The dock Banter: talk to the character that is selected in the scene tree, before the game runs. A model is in memory only between Load and
## Unload. The scene's own nodes stay as they are: a copy of the selected one speaks, with an engine of the dock's.

const ModelPanel := preload("model_panel.gd")
const Conversation := preload("conversation.gd")
const Figures := preload("figures.gd")

var model_panel: ModelPanel
var conversation: Conversation
var figures: Figures

var _status: Label
var _engine: BanterEngine
var _actor: BanterNPC  # the copy
var _selected: BanterNPC
var _timer: Timer


func _init() -> void:
	custom_minimum_size.x = 240.0 * EditorInterface.get_editor_scale()
	model_panel = ModelPanel.new()
	model_panel.load_requested.connect(load_model)
	model_panel.unload_requested.connect(unload_model)
	add_child(model_panel)
	_status = Label.new()
	_status.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	_status.visible = false
	add_child(_status)
	add_child(HSeparator.new())
	conversation = Conversation.new()
	conversation.said.connect(say)
	conversation.stopped.connect(stop)
	conversation.cleared.connect(clear)
	add_child(conversation)
	figures = Figures.new()
	add_child(figures)
	_timer = Timer.new()
	_timer.wait_time = 0.25
	_timer.timeout.connect(_show_progress)
	add_child(_timer)


func _ready() -> void:
	EditorInterface.get_selection().selection_changed.connect(_on_selection_changed)
	EditorInterface.get_inspector().property_edited.connect(_on_property_edited)
	_on_selection_changed()


func load_model() -> void:
	unload_model()
	_engine = BanterEngine.new()
	_engine.auto_load = false
	_engine.performance_monitors = false
	_engine.model = model_panel.model.duplicate()
	_engine.failed.connect(_on_engine_failed)
	_engine.load_finished.connect(_on_load_finished)
	_engine.tree_entered.connect(_hide_engine)
	add_child(_engine)
	_make_actor()
	_tell("")
	_engine.load_model()
	_timer.start()
	_show_progress()


## It serves nobody but this dock; and enters the tree again when the dock is moved.
func _hide_engine() -> void:
	_engine.remove_from_group("banter_engines")


## Ends the replies and frees the model, at once.
func unload_model() -> void:
	_timer.stop()
	if _engine != null:
		_engine.free()
		_engine = null
		_actor = null
	conversation.clear()
	figures.show_nothing()
	_show_state()


func is_model_loaded() -> bool:
	return _engine != null and _engine.is_model_loaded()


func say(text: String) -> void:
	if not is_model_loaded() or _selected == null:
		return
	_copy_selected()
	conversation.add_turn("You", text, true)
	conversation.add_turn(_selected.name, "", false)
	_actor.say(text)
	_show_state()


func stop() -> void:
	if _actor != null:
		_actor.interrupt()


## Another one takes the place of the actor, so that the end of a reply that goes on reaches nobody.
func clear() -> void:
	if _actor != null:
		_actor.free()
		_make_actor()
	conversation.clear()
	_show_state()


func _make_actor() -> void:
	_actor = BanterNPC.new()
	_actor.engine = _engine
	_actor.text_received.connect(conversation.add_words)
	_actor.thought_received.connect(conversation.add_thought)
	_actor.reply_finished.connect(_on_reply_finished)
	_actor.failed.connect(_on_actor_failed)
	_engine.add_child(_actor)


## As it is now in the inspector; what is not the same as before counts for the next reply.
func _copy_selected() -> void:
	for property in ClassDB.class_get_property_list(&"BanterNPC", true):
		var usage: int = property["usage"]
		var key: StringName = property["name"]
		if usage & PROPERTY_USAGE_STORAGE and key != &"engine" and _actor.get(key) != _selected.get(key):
			_actor.set(key, _selected.get(key))


func _on_property_edited(_property: String) -> void:
	var edited := EditorInterface.get_inspector().get_edited_object()
	if edited is BanterEngine or edited is BanterModel:
		model_panel.follow_scene()


func _on_selection_changed() -> void:
	model_panel.follow_scene()  # an engine that was added is selected
	var found: BanterNPC = null
	for node in EditorInterface.get_selection().get_selected_nodes():
		found = _npc_of(node)
		if found != null:
			break
	if found == _selected and found != null:
		return
	if found == null and is_instance_valid(_selected) and _selected.is_inside_tree():
		return  # something else was selected: the conversation goes on
	if is_instance_valid(_selected) and _selected.tree_exiting.is_connected(_on_selected_gone):
		_selected.tree_exiting.disconnect(_on_selected_gone)
	_selected = found
	if _selected != null:
		_selected.tree_exiting.connect(_on_selected_gone, CONNECT_ONE_SHOT)
	clear()


## The node itself, or the first character below it.
func _npc_of(node: Node) -> BanterNPC:
	if node is BanterNPC:
		return node
	for child in node.find_children("*", "BanterNPC", true, false):
		return child
	return null


func _on_selected_gone() -> void:
	_selected = null
	clear()


func _on_engine_failed(_code: int, message: String) -> void:
	_tell(message)


func _on_load_finished(_error: Error) -> void:
	_show_progress()
	_show_state()


func _on_reply_finished(_text: String, stats: Dictionary) -> void:
	figures.show_reply(stats)
	_show_state()


func _on_actor_failed(_code: int, message: String) -> void:
	conversation.add_error(message)
	_show_state()


func _show_progress() -> void:
	if _engine == null:
		return
	figures.show_engine(_engine)
	model_panel.show_state(_engine.is_model_loading(), _engine.is_model_loaded(), _engine.load_fraction)


func _show_state() -> void:
	var loading := _engine != null and _engine.is_model_loading()
	model_panel.show_state(loading, is_model_loaded(), _engine.load_fraction if loading else 0.0)
	var problems := PackedStringArray()
	if _selected != null:
		# What concerns the engine is not this dock's: it brings its own.
		for problem in _selected.get_setup_problems():
			if not problem.contains("BanterEngine"):
				problems.append(problem)
	conversation.set_speaker(String(_selected.name) if _selected != null else "", problems)
	conversation.set_enabled(_selected != null and is_model_loaded())
	conversation.set_talking(_actor != null and _actor.is_talking())


func _tell(problem: String) -> void:
	_status.text = problem
	_status.visible = not problem.is_empty()
	_status.add_theme_color_override("font_color", get_theme_color("error_color", "Editor"))
