extends "res://check.gd"
## Saved games: states and histories, damaged ones too; personas that change while the game runs.

var _npc: BanterNPC
var _told: Array = []


func test() -> void:
	var engine := new_engine()
	await engine.model_ready
	_npc = new_npc("Once upon a time")
	_npc.failed.connect(func(code: int, message: String) -> void: _told.append([code, message]))
	await save_and_load()
	await damaged()
	await another_model(engine)
	await history()
	await persona()
	_npc.queue_free()
	engine.queue_free()


func save_and_load() -> void:
	await _npc.ask(" there was a")
	var state: PackedByteArray = await _npc.save_state()
	check(state.size() > 100, "a state of %d bytes" % state.size())
	var with_cache: PackedByteArray = await _npc.save_state(true)
	check(with_cache.size() > state.size() + 10000, "with the cache %d bytes" % with_cache.size())
	var told := _npc.history
	var next: String = await _npc.ask(" Then")
	for bytes: PackedByteArray in [state, with_cache]:
		var other := new_npc("Once upon a time")
		check_equal(await other.load_state(bytes), OK, "load_state")
		check_equal(other.history, told, "the history comes back")
		check_equal(await other.ask(" Then"), next, "the same words as without the saving")
		other.queue_free()
	_npc.max_tokens = 200
	_npc.say(" And")
	var later: PackedByteArray = await _npc.save_state()  # takes its place behind the reply
	check_equal(_npc.history.size(), 6, "saved when the reply was done")
	var again := new_npc("Once upon a time")
	check_equal(await again.load_state(later), OK, "load")
	check_equal(again.history.size(), 6, "with that reply")
	again.queue_free()
	_npc.max_tokens = 24


func damaged() -> void:
	var state: PackedByteArray = await _npc.save_state()
	var before := _npc.history
	for bytes: PackedByteArray in [PackedByteArray(), "no state at all".to_utf8_buffer(), state.slice(0, state.size() / 2), state.slice(0, 13),
			state.slice(0, 9)]:
		_told.clear()
		var error: Error = await _npc.load_state(bytes)
		check(error == ERR_FILE_CORRUPT or error == ERR_INVALID_PARAMETER, "damaged: %s" % error_string(error))
		check(await until(func() -> bool: return _told.size() == 1), "failed tells it")
		check_equal(_told[0][0], error, "the same error")
	for at in range(0, state.size(), 37):
		var bent := state.duplicate()
		bent[at] = bent[at] ^ 0xFF
		var error: Error = await _npc.load_state(bent)  # never a crash; text that was changed may well load
		if error != OK:
			check_equal(_npc.history.size() >= 0, true, "alive")
	check_equal(await _npc.load_state(state), OK, "a good one still loads")
	check_equal(_npc.history, before, "and is as it was")


## A model that comes in another's place finds the characters with their conversations.
func another_model(engine: BanterEngine) -> void:
	var before := _npc.history
	check_equal(engine.load_model(MODEL), OK, "load again")
	check((await _npc.ask(" So")).length() > 0, "it speaks with the new model")
	check_equal(_npc.history.size(), before.size() + 2, "and remembers")
	engine.thread_count = 2  # makes another engine
	check_equal(engine.load_model(MODEL), OK, "load with other settings")
	check((await _npc.ask(" So")).length() > 0, "it speaks with the new engine")
	check_equal(_npc.history.size(), before.size() + 4, "and remembers still")


func history() -> void:
	_npc.history = [{"role": "user", "content": " there was a"}, {"role": "assistant", "content": " little cat"}, {"role": "none"}, 7]
	check_equal(_npc.history.size(), 2, "a history that was set; what is none is left out")
	var reply: String = await _npc.ask(" named")
	var other := new_npc("Once upon a time")
	check_equal(other.add_turn("user", " there was a"), OK, "add_turn")
	check_equal(other.add_turn("assistant", " little cat"), OK, "add_turn")
	check_equal(await other.ask(" named"), reply, "turns that were added are remembered")
	other.reset()
	check(await other.ask(" named") != reply, "forgotten turns are not")
	other.say(" more")
	other.add_turn("user", " overheard")
	check_equal(other.history.size(), 2, "a turn waits for the reply before it")
	await other.ask("")
	check_equal(other.history.map(func(t: Dictionary) -> String: return t.content).find(" overheard"), 4, "and comes behind it")
	other.queue_free()


func persona() -> void:
	var plain := new_npc("Tim and Sam")
	var wanted: String = await plain.ask(" went")
	_npc.reset()
	_npc.max_tokens = 200
	_npc.say(" went")
	_npc.persona = "Tim and Sam"  # while it speaks as somebody else
	await _npc.reply_finished
	# One that waits until the old persona has spoken, and others that wait beside it.
	var npcs: Array[BanterNPC] = []
	for i in 8:
		npcs.append(new_npc("Once upon a time"))
		npcs[i].max_tokens = 100
		npcs[i].say(" there was a")
		npcs[i].persona = "Tim and Sam"
	for npc in npcs:
		check((await npc.ask(" went")).length() > 0, "the new persona answers when the old one is done")
		check_equal(npc.history.size(), 4, "and remembers what the old one said")
		npc.queue_free()
	_npc.max_tokens = 24
	_npc.reset()
	check_equal(await _npc.ask(" went"), wanted, "the new persona speaks")
	plain.queue_free()
