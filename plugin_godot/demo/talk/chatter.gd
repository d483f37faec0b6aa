class_name Chatter
extends Node
## Pairs of villagers who talk with each other when nobody talks to them: at low priority, and only until the player does.

signal line_spoken(speaker: Villager, text: String)

const LINES := 4
const OPENINGS: PackedStringArray = ["Good evening, %s! Are you looking forward to the fair?", "What will you eat tonight, %s?",
	"%s, did you see the lights on the river last night?", "Who is that traveller in the square, %s?", "It smells of rain, %s. What do you say?"]
const OPENINGS_CHINESE: PackedStringArray = ["%s,晚上好!你盼着集市吗?", "%s,今晚你吃什么?", "%s,昨晚河上的灯光你看见了吗?",
	"%s,广场上那位旅人是谁?", "%s,你看明天会下雨吗?"]


class Pair:
	## The pause between two lines is over, or the talk is.
	signal pause_ended

	var first: Villager
	var second: Villager
	var is_talking := false
	var is_broken := false
	var seconds_until_next := 0.0
	var pause_seconds := 0.0

	func has(villager: Villager) -> bool:
		return villager == first or villager == second


## Off: nobody begins, and who talks falls silent.
var is_enabled := false:
	set(value):
		is_enabled = value
		if not value:
			for pair in _pairs:
				_break_off(pair)
## Nobody begins anew while the player waits for an answer.
var player_waits := false
var lines_spoken := 0

var _pairs: Array[Pair] = []
var _random := RandomNumberGenerator.new()


func add_pair(first: Villager, second: Villager) -> void:
	var pair := Pair.new()
	pair.first = first
	pair.second = second
	pair.seconds_until_next = 3.0 + 4.0 * _pairs.size()
	_pairs.append(pair)


## The player talks to somebody: their chat is over, and begins again some time later.
func make_way(villager: Villager) -> void:
	for pair in _pairs:
		if pair.has(villager):
			_break_off(pair)
			pair.seconds_until_next = 25


## Somebody begins soon.
func hurry() -> void:
	for pair in _pairs:
		pair.seconds_until_next = minf(pair.seconds_until_next, 0.2)


func is_anyone_talking() -> bool:
	return _pairs.any(func(pair: Pair) -> bool: return pair.is_talking)


func _break_off(pair: Pair) -> void:
	if not pair.is_talking:
		return
	pair.is_broken = true
	pair.pause_ended.emit()
	for villager: Villager in [pair.first, pair.second]:
		if villager.mind.priority == Villager.PRIORITY_CHATTER:
			villager.mind.interrupt()
			villager.balloon.close()


func _process(delta: float) -> void:
	for pair in _pairs:
		if pair.is_talking:
			pair.pause_seconds -= delta
			if pair.pause_seconds <= 0:
				pair.pause_ended.emit()
			continue
		if not is_enabled or player_waits:
			continue
		pair.seconds_until_next -= delta
		if pair.seconds_until_next <= 0 and not pair.first.is_busy() and not pair.second.is_busy():
			_talk(pair)


func _talk(pair: Pair) -> void:
	pair.is_talking = true
	pair.is_broken = false
	var words := _opening(pair.first, pair.second)
	pair.first.balloon.is_important = false
	pair.first.balloon.speak(words)
	for i in LINES:
		var speaker := pair.second if i % 2 == 0 else pair.first
		var line := await speaker.answer_villager(_heard(pair.first if speaker == pair.second else pair.second, words))
		if pair.is_broken or line.strip_edges().is_empty():
			break
		lines_spoken += 1
		line_spoken.emit(speaker, line)
		words = line
		# As long as it takes to read, before the other one answers.
		pair.pause_seconds = clampf(0.03 * line.length(), 0.6, 3.0)
		await pair.pause_ended
		if pair.is_broken or not is_enabled:
			break
	pair.is_talking = false
	pair.seconds_until_next = maxf(pair.seconds_until_next, _random.randf_range(8, 16))


## What somebody says so that the talk begins.
func _opening(speaker: Villager, listener: Villager) -> String:
	var openings := OPENINGS_CHINESE if speaker.language == Villager.Language.CHINESE else OPENINGS
	return openings[_random.randi() % openings.size()] % listener.display_name


## How the one who is spoken to hears it.
func _heard(speaker: Villager, line: String) -> String:
	return ("%s说:%s" if speaker.language == Villager.Language.CHINESE else "%s says: %s") % [speaker.display_name, line]
