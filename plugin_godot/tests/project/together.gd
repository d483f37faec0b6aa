extends "res://check.gd"
## Short enough for every sanitizer: three characters stream at once on one engine, one is cancelled, one interrupted; then all of them
## again, and a model that goes while they talk.

const SAID := [" there was a", " a dog saw a", " Tim had a big"]
const REASONS := ["length", "cancelled", "cancelled"]


func test() -> void:
	var engine := new_engine()
	engine.thread_count = 2
	check_equal(engine.load_model(), OK, "with another thread")
	check_equal(await engine.load_finished, OK, "the model")
	engine.frame_budget_ms = 0.5  # so that a reply takes some frames
	var npcs: Array[BanterNPC] = []
	for i in 3:
		npcs.append(new_npc("Once upon a time"))
	for round in 2:
		await stream(npcs)
	check((await npcs[0].save_state(true)).size() > 100, "a state")
	for npc in npcs:
		npc.max_tokens = 400
		npc.say(" So")
	await npcs[0].text_received
	engine.unload_model()
	check(await until(func() -> bool: return npcs.all(func(n: BanterNPC) -> bool: return not n.is_talking()), 60), "all end without their model")
	check_equal(engine.metrics.requests_active, 0, "nothing is left to do")
	for npc in npcs:
		npc.queue_free()
	engine.queue_free()


func stream(npcs: Array[BanterNPC]) -> void:
	var texts: Array[String] = ["", "", ""]
	var ends: Array[Dictionary] = [{}, {}, {}]
	var handlers: Array[Callable] = []
	for i in 3:
		handlers.append(func(text: String) -> void:
			texts[i] += text
			if i == 1:
				npcs[1].cancel(npcs[1].get_meta("request"))
			elif i == 2:
				npcs[2].interrupt())
		npcs[i].text_received.connect(handlers[i])
		npcs[i].reply_finished.connect(func(text: String, stats: Dictionary) -> void: ends[i] = stats.merged({"text": text}), CONNECT_ONE_SHOT)
		npcs[i].max_tokens = 16 if i == 0 else 400
		npcs[i].set_meta("request", npcs[i].say(SAID[i]))
	check(await until(func() -> bool: return ends.all(func(s: Dictionary) -> bool: return not s.is_empty()), 60), "all three end: %s" % [ends])
	check_equal(texts[0], ends[0].text, "and all of the one that was left alone")
	for i in 3:
		npcs[i].text_received.disconnect(handlers[i])
		check_equal(ends[i].finish_reason, REASONS[i], "its end")
		# Of a reply that somebody cut off there may be more than was heard.
		check(texts[i].length() > 0 and ends[i].text.begins_with(texts[i]), "pieces make up the whole: %s, %s" % [texts[i], ends[i].text])
		check(not npcs[i].is_talking(), "silent")
