class_name Measurement
extends Node
## Frame times at 60 Hz, with the engine idle and with everybody talking, in turns so that the machine's moods meet both.

const PHASES: PackedStringArray = ["idle", "talking"]
const WARM_UP_SECONDS := 2.0
const QUESTION := "Tell me a long story about the village."
const QUESTION_CHINESE := "给我讲一个关于村子的长故事。"

var _game: Game
var _times := {"idle": PackedFloat64Array(), "talking": PackedFloat64Array()}
var _tokens := 0.0
var _talking_seconds := 0.0
var _first_tokens: PackedFloat64Array = []
var _is_talking := false


func _init(game: Game) -> void:
	_game = game


func _ready() -> void:
	DisplayServer.window_set_vsync_mode(DisplayServer.VSYNC_DISABLED)
	Engine.max_fps = 60
	_measure()


func _measure() -> void:
	var seconds := _game.options.seconds if _game.options.seconds > 0 else 8.0
	await _wait(WARM_UP_SECONDS)
	for i in _game.options.rounds:
		for phase in PHASES:
			await _phase(phase, seconds)
	_report(seconds)
	_game.end(0)


func _phase(phase: String, seconds: float) -> void:
	_is_talking = phase == "talking"
	if _is_talking:
		for villager in _game.village.villagers:
			_keep_talking(villager)
	# Prompts are part of talking, but what was going on before is not part of a phase.
	await _wait(0.2 if _is_talking else 1.0)
	var before := _decoded()
	_game.meter.recorded.clear()
	_game.meter.is_recording = true
	await _wait(seconds)
	_game.meter.is_recording = false
	var times: PackedFloat64Array = _times[phase]
	times.append_array(_game.meter.recorded)
	_times[phase] = times
	if _is_talking:
		_tokens += _decoded() - before
		_talking_seconds += seconds
	_is_talking = false
	for villager in _game.village.villagers:
		villager.mind.reset()


func _keep_talking(villager: Villager) -> void:
	while _is_talking:
		await villager.answer_villager(QUESTION_CHINESE if villager.language == Villager.Language.CHINESE else QUESTION)
		if villager.last_stats.has("time_to_first_token_ms"):
			var first: float = villager.last_stats.time_to_first_token_ms
			_first_tokens.append(first)
		await get_tree().process_frame


func _decoded() -> float:
	return _game.engine.get_monitor("decode_tokens")


func _wait(seconds: float) -> void:
	await get_tree().create_timer(seconds).timeout


func _report(seconds: float) -> void:
	_first_tokens.sort()
	var engine := _game.engine
	var report := {
		"date": Time.get_date_string_from_system(true),
		"processors": OS.get_processor_count(),
		"renderer": RenderingServer.get_video_adapter_name(),
		"model": engine.model_info.get("name", ""),
		"backend": engine.backend_name,
		"threads": engine.thread_count,
		"frame_budget_ms": engine.frame_budget_ms,
		"cpu_share": engine.cpu_share,
		"villagers": _game.village.villagers.size(),
		"phases": "%d x %s s" % [_game.options.rounds, seconds],
		"tokens_per_second": snappedf(_tokens / maxf(0.001, _talking_seconds), 0.1),
		"first_token_ms_p50": snappedf(FrameMeter.percentile(_first_tokens, 0.5), 1) if not _first_tokens.is_empty() else 0.0,
	}
	print("| engine | frames | mean ms | p50 ms | p99 ms | worst ms | late (> 25 ms) |")
	print("|---|---|---|---|---|---|---|")
	for phase in PHASES:
		var times: PackedFloat64Array = _times[phase]
		var s := FrameMeter.summarize(times)
		print("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.2f %% |" % [phase, s.frames, s.mean, s.p50, s.p99, s.worst, 100.0 * s.late_share])
		for key: String in s:
			var value: float = s[key]
			s[key] = snappedf(value, 0.001)
		report[phase] = s
	print("MEASURED: ", JSON.stringify(report))
