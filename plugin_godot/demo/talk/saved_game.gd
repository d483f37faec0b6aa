class_name SavedGame
extends RefCounted
## A file of saved conversations: a mark, then for each villager a name and a state. What is read is not trusted.

const PATH := "user://oakrest.save"
const MARK := "OAKREST1"
const MOST_ENTRIES := 256
const MOST_NAME_BYTES := 256
const MOST_STATE_BYTES := 64 << 20


## Writes a new file and puts it in the old one's place: a game that ends meanwhile leaves one that is whole.
static func write(path: String, states: Dictionary) -> Error:
	var beside := path + ".new"
	var file := FileAccess.open(beside, FileAccess.WRITE)
	if file == null:
		return FileAccess.get_open_error()
	file.store_buffer(MARK.to_ascii_buffer())
	file.store_32(states.size())
	for name: String in states:
		var state: PackedByteArray = states[name]
		for block: PackedByteArray in [name.to_utf8_buffer(), state]:
			file.store_32(block.size())
			file.store_buffer(block)
	file.flush()
	var error := file.get_error()
	file.close()
	if error != OK:
		return error
	return DirAccess.rename_absolute(beside, path)


## Fills `states` with those of the known names; ERR_FILE_CORRUPT, and nothing, where the file is not what write() makes.
static func read(path: String, known: PackedStringArray, states: Dictionary) -> Error:
	states.clear()
	if not FileAccess.file_exists(path):
		return ERR_FILE_NOT_FOUND
	var file := FileAccess.open(path, FileAccess.READ)
	if file == null:
		return FileAccess.get_open_error()
	var mark := MARK.to_ascii_buffer()
	if _left(file) < mark.size() + 4 or file.get_buffer(mark.size()) != mark:
		return ERR_FILE_UNRECOGNIZED
	var count := file.get_32()
	if count > MOST_ENTRIES:
		return ERR_FILE_CORRUPT
	for i in count:
		var name := _block(file, MOST_NAME_BYTES)
		var state := _block(file, MOST_STATE_BYTES)
		if name.is_empty() or state.is_empty():
			states.clear()
			return ERR_FILE_CORRUPT
		for candidate in known:  # a name that nobody has, or that is no text, finds nobody
			if candidate.to_utf8_buffer() == name:
				states[candidate] = state
	return OK


static func _left(file: FileAccess) -> int:
	return file.get_length() - file.get_position()


static func _block(file: FileAccess, most: int) -> PackedByteArray:
	if _left(file) < 4:
		return PackedByteArray()
	var size := file.get_32()
	if size > most or size > _left(file):
		return PackedByteArray()
	return file.get_buffer(size)
