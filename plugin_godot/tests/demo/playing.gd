extends "res://checks.gd"
## The demo as a player has it: keys, the line to type in, buttons.

var game: Game


func test() -> void:
	UiFont.install()
	Words.install()
	game = (load("res://game.tscn") as PackedScene).instantiate()
	root.add_child(game)
	check(await until(func() -> bool: return game.engine.is_model_loaded()), "the model is loaded")
	game.chatter.is_enabled = false
	await walking()
	await talking()
	await chatter_makes_way()
	await function_keys()
	await game.end(0 if _failures == 0 else 1)
	game.queue_free()


func press(key: Key, unicode := 0, released := true) -> void:
	for pressed: bool in ([true, false] if released else [true]):
		var event := InputEventKey.new()
		event.keycode = key
		event.physical_keycode = key
		event.unicode = unicode if pressed else 0
		event.pressed = pressed
		Input.parse_input_event(event)
		Input.flush_buffered_events()
	await process_frame


func release(key: Key) -> void:
	var event := InputEventKey.new()
	event.keycode = key
	event.physical_keycode = key
	Input.parse_input_event(event)
	Input.flush_buffered_events()
	await process_frame


func type(text: String) -> void:
	for character in text:
		await press(KEY_X, character.unicode_at(0))


func line() -> LineEdit:
	return game.hud.find_children("*", "LineEdit", true, false)[0] as LineEdit


func walking() -> void:
	var player := game.village.player
	player.position = Vector2(500, 366)
	for keys: Array in [[KEY_D, Vector2(1, 0)], [KEY_LEFT, Vector2(-1, 0)], [KEY_W, Vector2(0, -1)], [KEY_DOWN, Vector2(0, 1)]]:
		var key: Key = keys[0]
		var direction: Vector2 = keys[1]
		var before := player.position
		await press(key, 0, false)
		check(await until(func() -> bool: return (player.position - before).dot(direction) > 5, 5), "key %s walks" % OS.get_keycode_string(key))
		await release(key)
	player.position = Vector2(900, 300)
	await press(KEY_D, 0, false)
	await until(func() -> bool: return false, 0.7)
	await release(KEY_D)
	check(not Ground.is_wet(player.position), "nobody walks on water: %s" % player.position)
	player.position = Vector2(860, 362)
	player.walk_to(Vector2(1090, 362))
	check(await until(func() -> bool: return player.position.x > 1080, 5), "the bridge leads over it")
	player.stop()


func talking() -> void:
	var mira := game.village.find_villager("Mira")
	game.village.player.position = Vector2(500, 366)
	await process_frame
	await process_frame
	check(not line().visible, "with nobody near there is nothing to type in")
	game.village.player.position = mira.position + Vector2(52, 16)
	await process_frame
	await process_frame
	check(line().visible and line().placeholder_text.contains("Mira"), "who is near can be talked to")
	await press(KEY_ENTER)
	check(game.hud.is_typing(), "Enter begins to type")
	var before := game.village.player.position
	await type("Wasd 好")
	check_equal(line().text, "Wasd 好", "what was typed")
	check_equal(game.village.player.position, before, "who types does not walk")
	await press(KEY_ENTER)
	check(await until(func() -> bool: return mira.mind.history.size() == 2), "Mira answered")
	check(str(mira.mind.history).contains("Wasd 好"), "what she heard: %s" % [mira.mind.history])
	await type("Again")
	check_equal(line().text, "Again", "the talk goes on without another key")
	await press(KEY_ENTER)
	check(await until(func() -> bool: return mira.mind.history.size() == 4), "Mira answered again")
	check(mira.balloon.visible and not mira.balloon.words().is_empty(), "in her balloon")
	await press(KEY_ENTER)
	check(not game.hud.is_typing(), "an empty line ends the typing")
	await press(KEY_ENTER)
	await press(KEY_ESCAPE)
	check(not game.hud.is_typing(), "Esc ends the typing")


func chatter_makes_way() -> void:
	var mira := game.village.find_villager("Mira")
	var priorities := {}
	game.chatter.line_spoken.connect(func(speaker: Villager, _text: String) -> void: priorities[speaker.mind.priority] = true)
	game.chatter.is_enabled = true
	game.chatter.hurry()
	check(await until(func() -> bool: return game.chatter.lines_spoken >= 3), "the villagers talk with each other")
	check_equal(priorities.keys(), [Villager.PRIORITY_CHATTER], "at low priority")
	var turns := mira.mind.history.size()
	await game.talk_to(mira, "Hello!")
	check_equal(mira.mind.priority, Villager.PRIORITY_PLAYER, "who is spoken to by the player comes first")
	check(mira.mind.history.size() >= turns + 2, "and answers")
	game.chatter.is_enabled = false
	check(await until(func() -> bool: return not game.chatter.is_anyone_talking(), 5), "switched off they fall silent")
	check_equal(game.failures, 0, "nothing failed")


func function_keys() -> void:
	await press(KEY_F3)
	check(game.overlay.visible, "F3 opens the profiler")
	for i in 30:
		await process_frame
	var shown: PackedStringArray = []
	for label: Label in game.overlay.find_children("*", "Label", true, false):
		shown.append(label.text)
	check(" ".join(shown).contains("MiB") and shown.has("Mira") and shown.has("阿石"), "it shows figures: %s" % [shown])
	await press(KEY_F3)
	check(not game.overlay.visible, "and closes it")
	var before := game.memory.transcript()
	await press(KEY_F5)
	check(await until(func() -> bool: return FileAccess.file_exists(SavedGame.PATH)), "F5 saves")
	await game.talk_to(game.village.find_villager("Tomas"), "This was never said.")
	check(game.memory.transcript() != before, "something was said since")
	await press(KEY_F9)
	check(await until(func() -> bool: return game.memory.transcript() == before), "F9 brings back what was saved")
	game.chatter.is_enabled = false
	var file := FileAccess.open(SavedGame.PATH, FileAccess.READ_WRITE)
	file.store_string("Other")
	file.close()
	var outcome := await game.load_game()
	game.chatter.is_enabled = false
	check_equal(outcome.error, ERR_FILE_UNRECOGNIZED, "a damaged saved game is refused")
	check(game.memory.transcript() == before, "and changes nothing")
	DirAccess.remove_absolute(SavedGame.PATH)
