extends "res://check.gd"
## Models from everywhere: res://, user://, an absolute path that is not ASCII, inside a .pck, with more than 4 GiB.


func test() -> void:
	var wanted := await told_by(MODEL)
	check(wanted.length() > 10, "res://: " + wanted)
	var bytes := FileAccess.get_file_as_bytes(MODEL)
	store("user://ein Modell.gguf", bytes)
	check_equal(await told_by("user://ein Modell.gguf"), wanted, "user://")
	var absolute := OS.get_user_data_dir().path_join("модель 模型 ü.gguf")
	store(absolute, bytes)
	check_equal(await told_by(absolute), wanted, "an absolute path that is not ASCII")
	var packer := PCKPacker.new()
	var pack := OS.get_user_data_dir().path_join("game.pck")
	check_equal(packer.pck_start(pack), OK, "start a .pck")
	check_equal(packer.add_file("res://packed/模型.gguf", absolute), OK, "add the model")
	check_equal(packer.flush(), OK, "write it")
	check(ProjectSettings.load_resource_pack(pack), "load the .pck")
	check(FileAccess.file_exists("res://packed/模型.gguf"), "the model is in it")
	check_equal(await told_by("res://packed/模型.gguf"), wanted, "inside a .pck")
	var large := FileAccess.open("res://models/large.gguf", FileAccess.READ)
	check(large.get_length() > 1 << 32, "it has more than 4 GiB")
	check_equal(await told_by("res://models/large.gguf"), wanted, "beyond 4 GiB")


func store(path: String, bytes: PackedByteArray) -> void:
	var file := FileAccess.open(path, FileAccess.WRITE)
	file.store_buffer(bytes)


func told_by(path: String) -> String:
	var engine := new_engine(path)
	var npc := new_npc("Once upon a time", engine)
	engine.failed.connect(func(_code: int, message: String) -> void: check(false, path + ": " + message))
	var reply: String = await npc.ask(" there was a")
	engine.queue_free()
	await process_frame
	return reply
