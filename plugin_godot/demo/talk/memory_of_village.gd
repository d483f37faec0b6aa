class_name MemoryOfVillage
extends RefCounted
## Saves the conversations of all villagers and brings them back.

class Outcome:
	## How many conversations were saved or brought back, and what they took.
	var count := 0
	var bytes := 0
	## What went wrong; OK where nothing did.
	var error := OK


var _villagers: Array[Villager]


func _init(villagers: Array[Villager]) -> void:
	_villagers = villagers


## Nothing is written where somebody's state cannot be had.
func save(path := SavedGame.PATH) -> Outcome:
	var outcome := Outcome.new()
	var states := {}
	for villager in _villagers:
		var state: PackedByteArray = await villager.mind.save_state()
		if state.is_empty():
			outcome.error = ERR_CANT_CREATE
			return outcome
		states[String(villager.name)] = state
		outcome.bytes += state.size()
	outcome.error = SavedGame.write(path, states)
	outcome.count = states.size() if outcome.error == OK else 0
	return outcome


## Who is not in the file keeps what they remember.
func load_again(path := SavedGame.PATH) -> Outcome:
	var outcome := Outcome.new()
	var names: PackedStringArray = []
	for villager in _villagers:
		names.append(villager.name)
	var states := {}
	outcome.error = SavedGame.read(path, names, states)
	if outcome.error == OK:
		for villager in _villagers:
			if not states.has(String(villager.name)):
				continue
			var state: PackedByteArray = states[String(villager.name)]
			villager.mind.interrupt()
			var loaded: Error = await villager.mind.load_state(state)
			if loaded == OK:
				outcome.count += 1
			elif outcome.error == OK:
				outcome.error = loaded
	return outcome


## All conversations as text, to be compared.
func transcript() -> Dictionary:
	var all := {}
	for villager in _villagers:
		all[String(villager.name)] = JSON.stringify(villager.mind.history)
	return all
