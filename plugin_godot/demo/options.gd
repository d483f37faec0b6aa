class_name Options
extends RefCounted
## What was asked for on the command line, behind "--": godot --path plugin_godot/demo -- --model FILE.gguf

const USAGE := """The demo's options, behind "--":
  --model FILE          the model, a GGUF file; else BANTER_MODEL, else the one that ./dev fetch-model brought
  --chinese             the words of the interface in Chinese
  --script-evening      play an evening by itself, print what was said, and end
  --measure             measure frame times, with the engine idle and with six villagers talking, and end
  --screen-no-model     the screen that is shown where there is no model, and end
  --screenshots FOLDER  where the scripted runs save pictures
  --tokens N            most tokens of a reply (default: 64)
  --seconds N           for how long a phase is measured; for an evening, when it has failed (defaults: 8, 600)
  --rounds N            how often each phase is measured (default: 3)
  --threads N, --frame-budget-ms X, --cpu-share X    the engine's, in the place of the demo's own
  --budgets X,Y,…       several frame budgets to be measured beside each other (0: no limit)"""

var model := ""
var help := false
var chinese := false
var evening := false
var measure := false
var no_model := false
var screenshots := ""
var tokens := 64
var seconds := 0.0
var rounds := 3
var threads := -1
var frame_budget_ms := -1.0
var cpu_share := -1.0
var budgets: PackedFloat64Array = []
## What is wrong with the command line; empty where nothing is.
var fault := ""


static func of_command_line() -> Options:
	return parse(OS.get_cmdline_user_args())


static func parse(words: PackedStringArray) -> Options:
	var options := Options.new()
	var i := 0
	while i < words.size() and options.fault.is_empty():
		var word := words[i]
		var value := ""
		if word.contains("="):
			value = word.substr(word.find("=") + 1)
			word = word.get_slice("=", 0)
			if not options._takes_value(word):
				options.fault = "there is no option %s that takes a value" % word
				break
		elif options._takes_value(word):
			i += 1
			value = words[i] if i < words.size() else ""
		options._take(word, value)
		i += 1
	return options


## Whether nobody sits in front of the screen.
func is_scripted() -> bool:
	return evening or measure or no_model


func _takes_value(word: String) -> bool:
	return word in ["--model", "--screenshots", "--tokens", "--seconds", "--rounds", "--threads", "--frame-budget-ms", "--cpu-share", "--budgets"]


func _take(word: String, value: String) -> void:
	if _takes_value(word) and value.is_empty():
		fault = "%s needs a value" % word
		return
	match word:
		"--help": help = true
		"--model": model = value
		"--screenshots": screenshots = value
		"--chinese": chinese = true
		"--script-evening": evening = true
		"--measure": measure = true
		"--screen-no-model": no_model = true
		"--tokens": tokens = int(_number(word, value, 1, 4096))
		"--seconds": seconds = _number(word, value, 0.1, 36000)
		"--rounds": rounds = int(_number(word, value, 1, 1000))
		"--threads": threads = int(_number(word, value, 0, 256))
		"--frame-budget-ms": frame_budget_ms = _number(word, value, 0, 1000)
		"--cpu-share": cpu_share = _number(word, value, 0.01, 1)
		"--budgets":
			for part in value.split(","):
				budgets.append(_number(word, part, 0, 1000))
		_: fault = "there is no option %s" % word


func _number(word: String, value: String, least: float, most: float) -> float:
	if not value.is_valid_float() or value.to_float() < least or value.to_float() > most:
		fault = "%s takes a number from %s to %s, not \"%s\"" % [word, least, most, value]
		return least
	return value.to_float()
