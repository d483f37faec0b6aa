extends "res://checks.gd"
## The parts of the demo that a whole evening does not try: damaged saved games, wrong command lines, balloons in narrow places.

const FILE := "user://parts.save"
const NAMES: PackedStringArray = ["Mira", "林婆"]

func test() -> void:
	UiFont.install()
	saved_games()
	damaged_saved_games()
	command_lines()
	models_that_are_not_there()
	frame_figures()
	chinese_words()
	await messages()
	await balloons()


func states() -> Dictionary:
	return {"Mira": PackedByteArray([1, 2, 3]), "林婆": PackedByteArray([0, 255])}


func saved_games() -> void:
	var read := {"old": PackedByteArray()}
	check_equal(SavedGame.read("user://no such.save", NAMES, read), ERR_FILE_NOT_FOUND, "no file")
	check_equal(read, {}, "no file leaves nothing")
	check_equal(SavedGame.write(FILE, states()), OK, "written")
	check_equal(SavedGame.read(FILE, NAMES, read), OK, "read")
	check_equal(read, states(), "what was read is what was written")
	check_equal(SavedGame.read(FILE, ["Mira"], read), OK, "a name that nobody has")
	check_equal(read.keys(), ["Mira"], "is left out")
	check(not FileAccess.file_exists(FILE + ".new"), "the new file took the old one's place")
	check(SavedGame.write("user://no such folder/x.save", states()) != OK, "a folder that is not there")


func damaged_saved_games() -> void:
	var good := FileAccess.get_file_as_bytes(FILE)
	var read := {}
	for length in good.size():
		store(good.slice(0, length))
		check(SavedGame.read(FILE, NAMES, read) != OK and read.is_empty(), "cut after %d bytes" % length)
	# Any byte may be another one: what comes back is at most what fits into the file, under names that somebody has.
	for at in good.size():
		var bad := good.duplicate()
		bad[at] = bad[at] ^ 0xff
		store(bad)
		SavedGame.read(FILE, NAMES, read)
		for who: String in read:
			var state: PackedByteArray = read[who]
			check(who in NAMES and state.size() <= good.size(), "byte %d" % at)
	store("OAKREST1".to_ascii_buffer() + PackedByteArray([255, 255, 255, 255]))
	check_equal(SavedGame.read(FILE, NAMES, read), ERR_FILE_CORRUPT, "four thousand million entries")
	store(PackedByteArray())
	check_equal(SavedGame.read(FILE, NAMES, read), ERR_FILE_UNRECOGNIZED, "an empty file")


func store(bytes: PackedByteArray) -> void:
	var file := FileAccess.open(FILE, FileAccess.WRITE)
	file.store_buffer(bytes)
	file.close()


func command_lines() -> void:
	var options := Options.parse(["--model", "a b=c.gguf", "--tokens=12", "--script-evening"])
	check_equal(options.fault, "", "a good command line")
	check_equal([options.model, options.tokens, options.evening, options.is_scripted()], ["a b=c.gguf", 12, true, true], "its values")
	check_equal(Options.parse(["--model=x=y.gguf"]).model, "x=y.gguf", "a value with an equals sign")
	check_equal(Options.parse(["--budgets", "0,4.5"]).budgets, PackedFloat64Array([0, 4.5]), "a list")
	check_equal(Options.parse([]).is_scripted(), false, "nothing")
	for wrong: PackedStringArray in [["--modle", "x"], ["--model"], ["--model="], ["--tokens", "many"], ["--tokens", "0"], ["--cpu-share=2"], ["x"], ["--measure=1"], ["--budgets", "4,x"]]:
		check(not Options.parse(wrong).fault.is_empty(), "%s is refused" % [wrong])


func models_that_are_not_there() -> void:
	OS.set_environment("BANTER_MODEL", "/no such/model.gguf")
	var finder := ModelFinder.new()
	check_equal(finder.find(""), "", "BANTER_MODEL names nothing")
	check(" ".join(finder.looked).contains("/no such/model.gguf"), "and it is said")
	finder = ModelFinder.new()
	check_equal(finder.find("res://named.gguf"), "", "--model names nothing")
	check_equal(finder.looked.size(), 1, "and nothing else is taken in its place")
	OS.set_environment("BANTER_MODEL", "res://project.godot")
	check_equal(ModelFinder.new().find(""), "res://project.godot", "BANTER_MODEL")
	var shell := OS.get_environment("PWD")
	OS.set_environment("PWD", ProjectSettings.globalize_path("res://world"))
	OS.set_environment("BANTER_MODEL", "village.tscn")
	check_equal(ModelFinder.new().find(""), ProjectSettings.globalize_path("res://world/village.tscn"), "a path from where the shell is")
	check_equal(ModelFinder.new().find("../game.tscn").simplify_path(), ProjectSettings.globalize_path("res://game.tscn"), "and --model")
	check_equal(ModelFinder.new().find("./not here.gguf"), "", "and nothing that is not there")
	OS.set_environment("PWD", shell)
	OS.unset_environment("BANTER_MODEL")


func frame_figures() -> void:
	check_equal(FrameMeter.summarize([]).frames, 0, "no frames")
	var times := PackedFloat64Array()
	for i in 100:
		times.append(100 - i)
	var figures := FrameMeter.summarize(times)
	check_equal([figures.p50, figures.p99, figures.worst, figures.late_share], [50.0, 99.0, 100.0, 0.75], "percentiles")


## Whatever is said on the screens is said in Chinese, too.
func chinese_words() -> void:
	Words.install()
	var asked := RegEx.create_from_string("(?:\\btr|Words\\.of)\\(\"((?:[^\"\\\\]|\\\\.)*)\"")
	var found := 0
	for folder: String in ["res://", "res://ui", "res://talk", "res://world"]:
		for file in DirAccess.get_files_at(folder):
			if file.get_extension() != "gd" or file in ["parts.gd", "playing.gd", "checks.gd"]:
				continue
			for match_of_text in asked.search_all(FileAccess.get_file_as_string(folder.path_join(file))):
				found += 1
				check(Words.CHINESE.has(match_of_text.get_string(1)), "%s has no Chinese for: %s" % [file, match_of_text.get_string(1)])
	check(found > 30, "the texts were found: %d" % found)
	for english: String in Words.CHINESE:
		check_equal(str(Words.CHINESE[english]).count("%"), english.count("%"), "what is put into: " + english)
	Words.speak_chinese(true)
	check_equal(Words.of("Quit"), "退出", "a word")
	check_equal(Words.of_error(ERR_FILE_CORRUPT), "文件已损坏", "an error")
	check_equal(Words.of_error(ERR_CYCLIC_LINK), error_string(ERR_CYCLIC_LINK), "an error without a word")
	check(Words.of_failure(ERR_FILE_NOT_FOUND, "There is no x.gguf.").contains("There is no x.gguf."), "the engine's sentence stays")
	Words.speak_chinese(false)
	check_equal(Words.of_failure(ERR_FILE_NOT_FOUND, "There is no x.gguf."), "There is no x.gguf.", "and is all that English needs")


func messages() -> void:
	var hud := Hud.new()
	root.add_child(hud)
	var panel := hud._message_panel
	var screen := Rect2(Vector2.ZERO, root.get_visible_rect().size)
	hud.hide()
	hud.tell("Nobody sees this yet.")
	for i in 100:
		hud._process(0.1)
	hud.show()
	hud._process(0.1)
	check(panel.visible and panel.modulate.a == 1.0, "what was told while the screen was hidden is shown with it")
	for text: String in ["Short.", "A long sentence that tells what went wrong and what to do. ".repeat(12), "一句没有空格的长话,".repeat(40), "x".repeat(300)]:
		hud.tell(text)
		for i in 3:
			await process_frame
		check(screen.encloses(panel.get_global_rect()), "a message of %d letters leaves the screen: %s" % [text.length(), panel.get_global_rect()])
		check(panel.size.x < Hud.MESSAGE_WIDTH + 40 and panel.size.y < 200, "it is no wall: %s" % panel.size)
	hud.tell("Short.")
	for i in 3:
		await process_frame
	check(panel.size.x < 120 and panel.size.y < 60, "a short one takes little room: %s" % panel.size)
	hud._process(100)
	check(not panel.visible, "what was read goes")
	hud.queue_free()


## In every corner, with much to say at once: inside the screen, and no two in one place where there is room.
func balloons() -> void:
	var layer := BalloonLayer.new()
	root.add_child(layer)
	var screen := Rect2(Vector2.ZERO, root.get_visible_rect().size)
	var all: Array[Balloon] = []
	for at: Vector2 in [Vector2(5, 5), Vector2(screen.size.x - 5, 20), Vector2(20, screen.size.y - 10), screen.size - Vector2(9, 9), screen.size / 2]:
		var balloon := Balloon.new()
		layer.add_child(balloon)
		balloon.anchor = at
		balloon.begin()
		for i in 30:
			balloon.add("多长的一句话,没有空格。" if i % 2 else "a long sentence and aVeryLongWordWithoutAnySpaceInIt%s " % "x".repeat(40))
		all.append(balloon)
	await process_frame
	await process_frame
	for balloon in all:
		check(screen.encloses(balloon.get_rect()), "%s leaves the screen %s" % [balloon.get_rect(), screen])
		check(balloon.size.x <= Balloon.WIDTH + 2 * Balloon.PADDING.x + 3, "no balloon is wider than it may be: %s" % balloon.size)
	for i in all.size():
		for j in i:
			check(not all[i].get_rect().intersects(all[j].get_rect()), "balloons %d and %d lie on each other" % [i, j])
	all[0].end()
	all[1].begin()
	all[1].end()
	check(not all[1].visible, "who said nothing has no balloon")
	for i in 3000:
		if all[0].visible:
			all[0]._process(0.1)
	check(not all[0].visible, "what was read fades")
	layer.queue_free()
