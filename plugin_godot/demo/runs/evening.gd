class_name Evening
extends Node
## An evening that plays itself: visits everybody, asks, cuts in, listens to the chatter, saves and loads. Prints what was said; the
## last line tells how it went, and the game ends with 0 or 1.

const QUESTIONS := {
	"Mira": "Good evening! Is there any room left for the night?",
	"Borin": "What are you forging tonight?",
	"Edda": "Can you help me? I have not slept for days.",
	"Tomas": "Is the road over the bridge safe at night?",
	"LinPo": "婆婆,今晚茶馆有什么茶?",
	"AShi": "阿石,昨晚你在河上看见了什么?",
}
const CUT_IN := "Wait. How much for a dagger?"
const AFTERWARDS := "I will forget this."
const CHATTER_LINES := 4
## Not the player's own.
const FILE := "user://evening.save"
const SECONDS := 600.0
## A model's speech may be anything; what is printed of it is one line, and no longer than this.
const MOST_PRINTED := 400

var _game: Game
var _faults: PackedStringArray = []
var _ends_at_ms := 0


func _init(game: Game) -> void:
	_game = game
	# Of real time: the game's own may run quicker (--fixed-fps).
	_ends_at_ms = Time.get_ticks_msec() + int(1000 * (game.options.seconds if game.options.seconds > 0 else SECONDS))


func _ready() -> void:
	_game.chatter.line_spoken.connect(func(speaker: Villager, text: String) -> void: _tell("%s (to a neighbour)" % speaker.name, text))
	_play()


func _process(_delta: float) -> void:
	if _is_late():
		_faults.append("the evening was not at its end in time")
		_end()
		set_process(false)


func _play() -> void:
	print("EVENING BEGINS: %s, %s" % [_game.engine.model_info.get("name", ""), _game.engine.backend_name])
	await _visit_everybody()
	await _listen()
	await _save_and_load()
	_end()


func _visit_everybody() -> void:
	for who: String in QUESTIONS:
		var villager := _game.village.find_villager(who)
		var question: String = QUESTIONS[who]
		_speak_language_of(villager)
		await _walk_to(villager)
		if who == "Borin":
			await _cut_in(villager, question)
		else:
			await _ask(villager, question)
		if who == "Mira":
			await _picture("talk")
		elif who == "LinPo":
			await _picture("talk-chinese")
	Words.speak_chinese(_game.options.chinese)
	_game.hud.translate()


func _ask(villager: Villager, question: String) -> void:
	_tell("you", question)
	var reply := await _game.talk_to(villager, question)
	_tell(villager.name, reply)
	_expect(not reply.strip_edges().is_empty(), "%s said nothing" % villager.name)


## Asks, does not wait for the end of the reply, and asks something else.
func _cut_in(villager: Villager, question: String) -> void:
	_tell("you", question)
	var first := [""]
	villager.mind.reply_finished.connect(func(text: String, _stats: Dictionary) -> void: first[0] = text, CONNECT_ONE_SHOT)
	_game.talk_to(villager, question)
	await villager.mind.text_received
	await get_tree().process_frame
	var second := await _talk(villager, CUT_IN)
	_tell("%s (was cut short)" % villager.name, str(first[0]))
	_tell("you", CUT_IN)
	_tell(villager.name, second)
	_expect(not second.strip_edges().is_empty(), "%s did not answer who cut in" % villager.name)


func _talk(villager: Villager, text: String) -> String:
	return await _game.talk_to(villager, text)


## The villagers among themselves, with the profiler open; then the player speaks, and the two that are asked fall silent.
func _listen() -> void:
	_game.overlay.toggle()
	_game.chatter.is_enabled = true
	_game.village.player.walk_to(Vector2(480, 372))
	while _game.chatter.lines_spoken < CHATTER_LINES and not _is_late():
		_game.chatter.hurry()
		await get_tree().process_frame
	await _picture("profiler")
	_game.overlay.toggle()
	var mira := _game.village.find_villager("Mira")
	await _walk_to(mira)
	await _ask(mira, "Sorry to interrupt. Who is that at the bridge?")
	_expect(mira.mind.priority == Villager.PRIORITY_PLAYER, "the player did not come first")
	_game.chatter.is_enabled = false
	while _game.chatter.is_anyone_talking() and not _is_late():
		await get_tree().process_frame


func _save_and_load() -> void:
	var saved := await _game.save_game(FILE)
	var count := _game.village.villagers.size()
	_expect(saved.error == OK and saved.count == count, "saved %s of %d: %s" % [saved.count, count, error_string(saved.error)])
	var before := _game.memory.transcript()
	var edda := _game.village.find_villager("Edda")
	await _walk_to(edda)
	await _ask(edda, AFTERWARDS)
	_expect(_game.memory.transcript() != before, "a talk left no trace")
	var loaded := await _game.load_game(FILE)
	_expect(loaded.error == OK and loaded.count == count, "loaded %s of %d: %s" % [loaded.count, count, error_string(loaded.error)])
	_expect(_game.memory.transcript() == before, "what was loaded is not what was saved")
	print("SAVED AND LOADED: %d conversations, %s bytes" % [loaded.count, saved.bytes])
	await _picture("loaded")


func _is_late() -> bool:
	return Time.get_ticks_msec() > _ends_at_ms


func _walk_to(villager: Villager) -> void:
	var player := _game.village.player
	var side := -1.0 if villager.position.x > player.position.x else 1.0
	player.walk_to(villager.position + Vector2(side * 52, 16))
	await player.arrived
	player.gaze = -side


func _speak_language_of(villager: Villager) -> void:
	Words.speak_chinese(villager.language == Villager.Language.CHINESE and UiFont.has_chinese())
	_game.hud.translate()


func _picture(title: String) -> void:
	await Pictures.take(self, _game.options.screenshots, title)


func _tell(who: String, text: String) -> void:
	var line := ""
	for character in text.strip_edges().left(MOST_PRINTED):
		line += character if character.unicode_at(0) >= 32 and character.unicode_at(0) != 127 else " "
	print("[%s] %s" % [who, line])


func _expect(good: bool, fault: String) -> void:
	if not good:
		_faults.append(fault)


func _end() -> void:
	for villager in _game.village.villagers:
		_expect(villager.mind.history.size() >= 2, "%s remembers nothing" % villager.name)
	_expect(_game.failures == 0, "%d requests failed" % _game.failures)
	for fault in _faults:
		print("FAULT: ", fault)
	print("EVENING ENDED: %d villagers, %d lines of chatter, faults: %d" % [_game.village.villagers.size(), _game.chatter.lines_spoken, _faults.size()])
	_game.end(0 if _faults.is_empty() else 1)
