class_name ProfilerOverlay
extends CanvasLayer
## What the talking costs: frames, the engine's figures, and how quickly each villager answers.

const REFRESH_SECONDS := 0.25
const FONT_SIZE := 12
const MEGABYTE := 1048576.0

var _engine: BanterEngine
var _meter: FrameMeter
var _villagers: Array[Villager]
var _graph := FrameGraph.new()
var _figures := GridContainer.new()
var _people := GridContainer.new()
var _title := Label.new()
var _seconds_until_next := 0.0


func _init(engine: BanterEngine, meter: FrameMeter, villagers: Array[Villager]) -> void:
	layer = 12
	visible = false
	_engine = engine
	_meter = meter
	_villagers = villagers
	_graph.meter = meter
	var panel := PanelContainer.new()
	panel.set_anchors_preset(Control.PRESET_BOTTOM_LEFT)
	panel.grow_vertical = Control.GROW_DIRECTION_BEGIN
	panel.offset_left = 10
	panel.offset_bottom = -10
	panel.mouse_filter = Control.MOUSE_FILTER_IGNORE
	add_child(panel)
	var rows := VBoxContainer.new()
	rows.add_theme_constant_override("separation", 4)
	panel.add_child(rows)
	_title.add_theme_font_size_override("font_size", FONT_SIZE)
	_title.add_theme_color_override("font_color", Color(1, 0.82, 0.45))
	rows.add_child(_title)
	rows.add_child(_graph)
	_figures.columns = 2
	_people.columns = 5
	for grid: GridContainer in [_figures, _people]:
		grid.add_theme_constant_override("h_separation", 10)
		grid.add_theme_constant_override("v_separation", 0)
		rows.add_child(grid)


func toggle() -> void:
	visible = not visible
	_seconds_until_next = 0


func _process(delta: float) -> void:
	_seconds_until_next -= delta
	if not visible or _seconds_until_next > 0:
		return
	_seconds_until_next = REFRESH_SECONDS
	_graph.queue_redraw()
	var info := _engine.model_info
	_title.text = "%s  ·  %s" % [info.get("name", "—"), info.get("backend", "—")]
	_fill(_figures, _figure_cells())
	_fill(_people, _people_cells())


func _figure_cells() -> PackedStringArray:
	var frames := FrameMeter.summarize(_meter.recent)
	var now: float = _meter.recent[-1] if not _meter.recent.is_empty() else 0.0
	var m := _engine.metrics
	var share := 100.0 * _number(m, "kv_bytes_used") / maxf(1, _number(m, "kv_bytes_total"))
	return [
		tr("frame time"), "%.1f ms   p50 %.1f   p99 %.1f" % [now, frames.p50, frames.p99],
		tr("replies"), "%.1f %s" % [_number(m, "recent_decode_tokens_per_second"), tr("tokens/s")],
		tr("prompts"), "%.0f %s" % [_number(m, "recent_prefill_tokens_per_second"), tr("tokens/s")],
		tr("at work / waiting"), "%d / %d" % [_number(m, "requests_active") - _number(m, "requests_queued"), _number(m, "requests_queued")],
		tr("conversations (KV)"), "%.1f / %.0f MiB   (%.0f %%)" % [_number(m, "kv_bytes_used") / MEGABYTE, _number(m, "kv_bytes_total") / MEGABYTE, share],
		tr("weights"), "%.0f MiB" % (_number(m, "weight_bytes") / MEGABYTE),
		tr("process"), "%.0f MiB" % (resident_bytes() / MEGABYTE),
	]


func _people_cells() -> PackedStringArray:
	var cells: PackedStringArray = [tr("Villagers"), "", tr("first token"), tr("tokens/s"), tr("turns")]
	for villager in _villagers:
		var stats := villager.last_stats
		var state := "silent"
		if villager.is_busy():
			state = "talks" if villager.figure.is_speaking else "thinks"
		var first := _number(stats, "time_to_first_token_ms")
		cells.append_array([villager.display_name, tr(state), "%.0f ms" % first if first > 0 else "—",
			"%.1f" % _number(stats, "tokens_per_second") if first > 0 else "—", str(villager.mind.history.size())])
	return cells


## Fills a grid; labels are made once.
func _fill(grid: GridContainer, cells: PackedStringArray) -> void:
	while grid.get_child_count() < cells.size():
		var label := Label.new()
		label.add_theme_font_size_override("font_size", FONT_SIZE)
		if grid.get_child_count() % grid.columns == 0 or (grid == _people and grid.get_child_count() < grid.columns):
			label.add_theme_color_override("font_color", Color(0.68, 0.77, 0.73))
		grid.add_child(label)
	for i in cells.size():
		(grid.get_child(i) as Label).text = cells[i]


static func _number(figures: Dictionary, key: String) -> float:
	var value: float = figures.get(key, 0)
	return value


## Memory of the whole process as the system counts it; 0 where it does not tell.
static func resident_bytes() -> float:
	var file := FileAccess.open("/proc/self/statm", FileAccess.READ) if OS.get_name() == "Linux" else null
	if file == null:
		return 0
	var pages := file.get_line().get_slice(" ", 1)
	return pages.to_float() * 4096


## The last frames as bars; the line is a frame of 60 Hz.
class FrameGraph:
	extends Control

	const FRAMES := 150
	const HEIGHT := 32.0
	const MOST := 50.0

	var meter: FrameMeter

	func _init() -> void:
		custom_minimum_size = Vector2(FRAMES * 2, HEIGHT)

	func _draw() -> void:
		draw_rect(Rect2(Vector2.ZERO, Vector2(FRAMES * 2, HEIGHT)), Color(0.05, 0.07, 0.07))
		var from := maxi(0, meter.recent.size() - FRAMES)
		for i in range(from, meter.recent.size()):
			var time := meter.recent[i]
			var height := clampf(time / MOST, 0, 1) * HEIGHT
			var color := Color(0.45, 0.75, 0.5) if time < 20 else (Color(0.95, 0.75, 0.3) if time < 34 else Color(0.9, 0.35, 0.3))
			draw_rect(Rect2((i - from) * 2, HEIGHT - height, 2, height), color)
		var line := HEIGHT * (1 - 16.67 / MOST)
		draw_line(Vector2(0, line), Vector2(FRAMES * 2, line), Color(1, 1, 1, 0.35))
