class_name Game
extends Node
## The demo: brings the model, and puts together village, words on the glass, chatter, and what was asked for on the command line.

## While the player waits for an answer the engine may take more of each frame than the scene allows it for the chatter.
const BUDGET_FOR_PLAYER_MS := 10.0

var options := Options.of_command_line()
var meter := FrameMeter.new()
var hud := Hud.new()
var chatter := Chatter.new()
var balloons := BalloonLayer.new()
var overlay: ProfilerOverlay
var memory: MemoryOfVillage
## How often a villager could not answer.
var failures := 0

var _loading := LoadingScreen.new()
var _notice: NoticeScreen
var _player_balloon := Balloon.new()
var _budget_ms := 0.0

@onready var engine: BanterEngine = $Engine
@onready var village: Village = $Village


func _ready() -> void:
	get_tree().auto_accept_quit = false
	_assemble()
	_set_up_engine()
	if not UiFont.has_chinese():
		print("No font for Chinese was found: its characters show as boxes. ./dev godot brings one.")
		hud.tell("No font for Chinese was found: its characters show as boxes. ./dev godot brings one.")  # once there is a game to see
	_bring_model()


func _assemble() -> void:
	for node: Node in [meter, balloons, hud, chatter, _loading]:
		add_child(node)
	hud.hide()
	_loading.hide()
	memory = MemoryOfVillage.new(village.villagers)
	overlay = ProfilerOverlay.new(engine, meter, village.villagers)
	add_child(overlay)
	for villager in village.villagers:
		villager.reply_tokens = options.tokens
		balloons.add_child(villager.balloon)
		villager.mind.failed.connect(_on_villager_failed.bind(villager))
	balloons.add_child(_player_balloon)
	_player_balloon.tint(Color(0.86, 0.93, 1))
	_player_balloon.is_important = true
	for pair: Array in [["Mira", "Borin"], ["Edda", "Tomas"], ["LinPo", "AShi"]]:
		var first: String = pair[0]
		var second: String = pair[1]
		chatter.add_pair(village.find_villager(first), village.find_villager(second))
	hud.said.connect(say_to_nearest)
	hud.save_wanted.connect(func() -> void: save_game())
	hud.load_wanted.connect(func() -> void: load_game())
	hud.profiler_wanted.connect(overlay.toggle)


func _set_up_engine() -> void:
	# The scene has what keeps the game's frames on a small machine (docs/frame-times.md in the addon's sources).
	if options.threads >= 0:
		engine.thread_count = options.threads
	if options.frame_budget_ms >= 0:
		engine.frame_budget_ms = options.frame_budget_ms
	_budget_ms = engine.frame_budget_ms
	if options.cpu_share > 0:
		engine.cpu_share = options.cpu_share
	engine.load_progress.connect(_loading.advance)
	engine.model_ready.connect(_on_model_ready)
	engine.failed.connect(func(code: int, message: String) -> void: _show_no_model([Words.of_failure(code, message)]))


func _bring_model() -> void:
	var finder := ModelFinder.new()
	var path := finder.find(options.model)
	if path.is_empty() or options.no_model:
		_show_no_model(finder.looked)
	else:
		_load(path)


func _load(path: String) -> void:
	if _notice != null:
		_notice.queue_free()
		_notice = null
	_loading.begin(path)
	engine.load_model(path)


func _show_no_model(reasons: PackedStringArray) -> void:
	_loading.hide()
	if _notice == null:
		_notice = NoticeScreen.new()
		_notice.file_chosen.connect(_load)
		add_child(_notice)
	var lines: PackedStringArray = [tr("The villagers need a language model: a GGUF file that can chat.")]
	for reason in reasons:
		lines.append("·  " + reason)
	lines.append_array([tr("Bring the default model (491 MB) and start again, in the root of the repository:"), "  ./dev godot",
		tr("Or name a file that you have:"), "  godot --path plugin_godot/demo -- --model FILE.gguf"])
	_notice.present(tr("No model, no talk"), lines, true)
	if options.no_model:
		await Pictures.take(self, options.screenshots, "no-model")
		print("NO-MODEL SCREEN SHOWN")
		get_tree().quit(0)
	elif options.is_scripted():
		printerr("OAKREST FAILED: no model. ", " ".join(reasons))
		get_tree().quit(1)


func _on_model_ready() -> void:
	_loading.hide()
	hud.show()
	if options.evening:
		add_child(Evening.new(self))
	elif options.measure:
		add_child(Measurement.new(self))
	else:
		chatter.is_enabled = true


func _notification(what: int) -> void:
	if what == NOTIFICATION_WM_CLOSE_REQUEST:
		end(0)


## Ends the game when all talks have ended: what is awaited at the very end would never be told.
func end(code: int) -> void:
	chatter.is_enabled = false
	for villager in village.villagers:
		villager.mind.interrupt()
	var last_ms := Time.get_ticks_msec() + 1000
	while Time.get_ticks_msec() < last_ms and (chatter.is_anyone_talking()
			or village.villagers.any(func(villager: Villager) -> bool: return villager.is_busy())):
		await get_tree().process_frame
	await get_tree().process_frame
	get_tree().quit.call_deferred(code)


func _process(_delta: float) -> void:
	var nearest := village.nearest_villager() if engine.is_model_loaded() else null
	hud.set_partner(nearest.display_name if nearest != null else "")
	if options.frame_budget_ms < 0 and not options.measure:
		engine.frame_budget_ms = BUDGET_FOR_PLAYER_MS if chatter.player_waits else _budget_ms
	village.player.listens_to_keys = not hud.is_typing()
	_player_balloon.anchor = village.player.get_global_transform_with_canvas() * Vector2(0, -64)


func say_to_nearest(text: String) -> void:
	var villager := village.nearest_villager()
	if villager != null:
		talk_to(villager, text)


## The player's words, and their answer.
func talk_to(villager: Villager, text: String) -> String:
	chatter.make_way(villager)
	chatter.player_waits = true
	_player_balloon.speak(text)
	var reply := await villager.answer_player(text)
	chatter.player_waits = village.villagers.any(func(other: Villager) -> bool:
		return other.is_busy() and other.mind.priority == Villager.PRIORITY_PLAYER)
	return reply


func save_game(path := SavedGame.PATH) -> MemoryOfVillage.Outcome:
	hud.tell(tr("Saving …"))
	var done := await memory.save(path)
	hud.tell(tr("Saved %d conversations (%s).") % [done.count, String.humanize_size(done.bytes)] if done.error == OK
			else tr("Nothing was saved: %s") % Words.of_error(done.error))
	return done


func load_game(path := SavedGame.PATH) -> MemoryOfVillage.Outcome:
	chatter.is_enabled = false
	var done := await memory.load_again(path)
	chatter.is_enabled = engine.is_model_loaded() and not options.is_scripted()
	for villager in village.villagers:
		villager.balloon.close()
	hud.tell(tr("Loaded %d conversations.") % done.count if done.error == OK else tr("Nothing was loaded: %s") % Words.of_error(done.error))
	return done


func _on_villager_failed(code: int, message: String, villager: Villager) -> void:
	failures += 1
	hud.tell(tr("%s cannot answer: %s") % [villager.display_name, Words.of_failure(code, message)])
	print("FAILED: ", villager.name, ": ", message)
