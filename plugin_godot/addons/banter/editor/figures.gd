@tool
extends GridContainer
## The dock's lower part: what the replies cost.

const ROWS: Array[String] = ["Speed", "First token", "Prompt", "Memory", "Conversations", "Computes"]

var _values: Array[Label] = []


func _init() -> void:
	columns = 2
	for title in ROWS:
		var label := Label.new()
		label.text = title
		add_child(label)
		var value := Label.new()
		value.size_flags_horizontal = SIZE_EXPAND_FILL
		if title == ROWS[-1]:  # a sentence
			value.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
			label.size_flags_vertical = SIZE_SHRINK_BEGIN
		else:
			value.text_overrun_behavior = TextServer.OVERRUN_TRIM_ELLIPSIS
		value.mouse_filter = MOUSE_FILTER_PASS
		add_child(value)
		_values.append(value)
	show_nothing()


func _notification(what: int) -> void:
	if what == NOTIFICATION_THEME_CHANGED and get_child_count() > 0:
		for title: Label in get_children().filter(func(child: Node) -> bool: return child.get_index() % 2 == 0):
			title.add_theme_color_override("font_color", get_theme_color("disabled_font_color", "Editor"))


func show_nothing() -> void:
	for title in ROWS:
		_show(title, "–")


func get_value(title: String) -> String:
	return _values[ROWS.find(title)].text


func show_reply(stats: Dictionary) -> void:
	if not stats.has("tokens_per_second"):
		return
	_show("Speed", "%.1f tokens/s" % stats["tokens_per_second"], "%d tokens; ended by: %s" % [stats["generated_tokens"], stats["finish_reason"]])
	_show("First token", "%.0f ms" % stats["time_to_first_token_ms"])
	_show("Prompt", "%d of %d cached" % [stats["cached_tokens"], stats["prompt_tokens"]], "Tokens of the prompt; those in the cache cost nothing.")


func show_engine(engine: BanterEngine) -> void:
	var metrics := engine.metrics
	if metrics.is_empty() or not engine.is_model_loaded():
		return
	var weights: int = metrics["weight_bytes"]
	var total: int = metrics["kv_bytes_total"]
	var used: int = metrics["kv_bytes_used"]
	_show("Memory", String.humanize_size(weights + total), "Model %s, room for conversations %s" % [String.humanize_size(weights), String.humanize_size(total)])
	_show("Conversations", "%s / %s" % [String.humanize_size(used), String.humanize_size(total)], "KV pages that conversations hold now")
	var warning: String = engine.model_info.get("warning", "")
	var reason := engine.backend_reason.replace(ProjectSettings.globalize_path("res://"), "res://")
	_show("Computes", "%s. %s" % [engine.backend_name, reason], (reason + "\n" + warning).strip_edges())
	if engine.is_model_loaded() and metrics["recent_decode_tokens_per_second"] > 0.0 and metrics["requests_active"] > 0:
		_show("Speed", "%.1f tokens/s" % metrics["recent_decode_tokens_per_second"])


func _show(title: String, text: String, more := "") -> void:
	var value := _values[ROWS.find(title)]
	value.text = text
	value.tooltip_text = more if more else text
