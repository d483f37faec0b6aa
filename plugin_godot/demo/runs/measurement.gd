class_name Measurement
extends Node
## Frame times at 60 Hz, with the engine idle and with everybody talking, in turns so that the machine's moods meet both.

const WARM_UP_SECONDS := 2.0
const QUESTION := "Tell me a long story about the village."
const QUESTION_CHINESE := "给我讲一个关于村子的长故事。"


## One kind of time: the engine idle, or everybody talking within a frame budget.
class Phase:
	var title := "idle"
	var talks := false
	var frame_budget_ms := 0.0
	var times: PackedFloat64Array = []
	var tokens := 0.0
	var seconds := 0.0
	var first_words: PackedFloat64Array = []

	func figures() -> Dictionary:
		first_words.sort()
		var figures_of_phase := FrameMeter.summarize(times)
		for key: String in figures_of_phase:
			var value: float = figures_of_phase[key]
			figures_of_phase[key] = snappedf(value, 0.001)
		if talks:
			figures_of_phase["frame_budget_ms"] = frame_budget_ms
			figures_of_phase["tokens_per_second"] = snappedf(tokens / maxf(0.001, seconds), 0.1)
			figures_of_phase["first_words_ms_p50"] = FrameMeter.percentile(first_words, 0.5) if not first_words.is_empty() else 0.0
		return figures_of_phase


var _game: Game
var _phases: Array[Phase] = [Phase.new()]
var _now: Phase
var _is_talking := false


func _init(game: Game) -> void:
	_game = game
	var budgets := game.options.budgets if not game.options.budgets.is_empty() else PackedFloat64Array([game.engine.frame_budget_ms])
	for budget in budgets:
		var phase := Phase.new()
		phase.title = "talking" if budget <= 0 else "talking, %s ms a frame" % budget
		phase.talks = true
		phase.frame_budget_ms = budget
		_phases.append(phase)


func _ready() -> void:
	DisplayServer.window_set_vsync_mode(DisplayServer.VSYNC_DISABLED)
	Engine.max_fps = 60
	for villager in _game.village.villagers:
		villager.reply_began.connect(func(milliseconds: float) -> void:
			if _is_talking:
				_now.first_words.append(milliseconds))
	_measure()


func _measure() -> void:
	var seconds := _game.options.seconds if _game.options.seconds > 0 else 8.0
	await _wait(WARM_UP_SECONDS)
	for i in _game.options.rounds:
		for phase in _phases:
			await _measure_phase(phase, seconds)
	_report(seconds)
	_game.end(0)


func _measure_phase(phase: Phase, seconds: float) -> void:
	_now = phase
	_is_talking = phase.talks
	if phase.talks:
		_game.engine.frame_budget_ms = phase.frame_budget_ms
		for villager in _game.village.villagers:
			_keep_talking(villager)
	# What was going on before is no part of a phase; prompts are part of talking.
	await _wait(0.2 if phase.talks else 1.0)
	var before := _decoded()
	_game.meter.recorded.clear()
	_game.meter.is_recording = true
	await _wait(seconds)
	_game.meter.is_recording = false
	phase.times.append_array(_game.meter.recorded)
	phase.tokens += _decoded() - before
	phase.seconds += seconds
	_is_talking = false
	for villager in _game.village.villagers:
		villager.mind.reset()


func _keep_talking(villager: Villager) -> void:
	while _is_talking:
		await villager.answer_villager(QUESTION_CHINESE if villager.language == Villager.Language.CHINESE else QUESTION)
		await get_tree().process_frame


func _decoded() -> float:
	return _game.engine.get_monitor("decode_tokens")


func _wait(seconds: float) -> void:
	await get_tree().create_timer(seconds).timeout


func _report(seconds: float) -> void:
	var engine := _game.engine
	var talking: Array[Dictionary] = []
	print("| engine | frames | mean ms | p50 ms | p99 ms | worst ms | late (> 25 ms) | tokens/s | first words p50 ms |")
	print("|---|---|---|---|---|---|---|---|---|")
	for phase in _phases:
		var f := phase.figures()
		var row := "| %s | %d | %.1f | %.1f | %.1f | %.1f | %.2f %% " % [phase.title, f.frames, f.mean, f.p50, f.p99, f.worst, 100.0 * f.late_share]
		print(row, "| %.1f | %.0f |" % [f.tokens_per_second, f.first_words_ms_p50] if phase.talks else "| | |")
		if phase.talks:
			talking.append(f)
	print("MEASURED: ", JSON.stringify({
		"date": Time.get_date_string_from_system(true),
		"processors": OS.get_processor_count(),
		"renderer": RenderingServer.get_video_adapter_name(),
		"model": engine.model_info.get("name", ""),
		"backend": engine.backend_name,
		"threads": engine.thread_count,
		"cpu_share": engine.cpu_share,
		"villagers": _game.village.villagers.size(),
		"phases": "%d x %s s" % [_game.options.rounds, seconds],
		"idle": _phases[0].figures(),
		"talking": talking,
	}))
