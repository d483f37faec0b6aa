extends "res://check.gd"
## Every method, property and signal that ClassDB lists of the addon's classes, from scripts of three styles: typed, untyped, and by name.
## What is listed and has no row in the table fails, so a new one cannot be forgotten; so does what the documentation does not tell as it is.

const Table := preload("res://surface_table.gd")
const Documentation := preload("res://documentation.gd")
const STYLES := ["typed", "untyped", "named"]
## What a class has beside its properties with plain values; made anew for each script.
const OBJECTS := {"BanterEngine": {"model": "BanterModel"}, "BanterNPC": {"profile": "BanterProfile", "engine": "BanterEngine"}}

var _engine: BanterEngine
var _state: PackedByteArray


func test() -> void:
	_engine = new_engine()
	var npc := new_npc("Once upon a time")
	await npc.ask(" there was a")
	_state = await npc.save_state()
	npc.queue_free()
	# BanterPending is what ask() awaits: no script can name it.
	var listed := Array(ClassDB.get_class_list()).filter(func(name: String) -> bool: return name.begins_with("Banter") and name != "BanterPending")
	compare("the addon's classes", listed, Table.METHODS.keys())
	for type: String in Table.METHODS:
		check_coverage(type)
		var scripts := script_of(type)
		properties(type, scripts)
		await methods(type, scripts)
		await signals(type, scripts)
		for fault: String in Documentation.faults_of(type):
			check(false, fault)
	_engine.queue_free()


## A class's own properties, without the headings between them.
func listed_properties(type: String) -> Array:
	return ClassDB.class_get_property_list(type, true).filter(func(p: Dictionary) -> bool:
		return p.usage & (PROPERTY_USAGE_GROUP | PROPERTY_USAGE_SUBGROUP | PROPERTY_USAGE_CATEGORY) == 0)


## Property and value, each of which a script can read, and write unless it is of READ_ONLY.
func rows_of_properties(type: String) -> Dictionary:
	var rows := {}
	for row: Array in Table.PROPERTIES[type]:
		rows[row[0]] = PackedStringArray(row[1]) if row[1] is Array else row[1]
	for name: String in OBJECTS.get(type, {}):
		rows[name] = _engine if name == "engine" else ClassDB.instantiate(OBJECTS[type][name])
	if type == "BanterNPC":
		rows["history"] = [{"role": "user", "content": "Hello"}]
	for name: String in Table.READ_ONLY.get(type, []):
		rows[name] = null
	return rows


func getter_of(type: String, name: String) -> String:
	return "is_" + name if ClassDB.class_has_method(type, "is_" + name, true) else "get_" + name


func check_coverage(type: String) -> void:
	var told := rows_of_properties(type)
	var names := listed_properties(type).map(func(p: Dictionary) -> String: return p.name)
	compare(type + "'s properties", names, told.keys())
	var calls := {}
	for row: Array in Table.METHODS[type]:
		calls[row[0]] = true
	for name: String in names:
		calls[getter_of(type, name)] = true
		if not name in Table.READ_ONLY.get(type, []):
			calls["set_" + name] = true
	compare(type + "'s methods", ClassDB.class_get_method_list(type, true).map(func(m: Dictionary) -> String: return m.name), calls.keys())
	compare(type + "'s signals", ClassDB.class_get_signal_list(type, true).map(func(s: Dictionary) -> String: return s.name), Table.SIGNALS[type].keys())


func compare(what: String, listed: Array, told: Array) -> void:
	var missing := listed.filter(func(name: String) -> bool: return not name in told)
	check_equal(missing, [], what + " that have no row in surface_table.gd")
	check_equal(told.filter(func(name: String) -> bool: return not name in listed), [], what + " that are in the table only")


## A script with functions for all that a class has, each once with static types, so that Godot calls the method itself, and once without.
func script_of(type: String) -> RefCounted:
	var lines := PackedStringArray(["extends RefCounted"])
	for info: Dictionary in listed_properties(type):
		var own := type_of(info)
		lines.append("func get_typed_%s(o: %s) -> Variant:\n\tvar v: %s = o.%s\n\treturn v" % [info.name, type, own, info.name])
		lines.append("func get_untyped_%s(o):\n\treturn o.%s" % [info.name, info.name])
		if not info.name in Table.READ_ONLY.get(type, []):
			lines.append("func set_typed_%s(o: %s, v: %s) -> void:\n\to.%s = v" % [info.name, type, own, info.name])
			lines.append("func set_untyped_%s(o, v):\n\to.%s = v" % [info.name, info.name])
	for info: Dictionary in ClassDB.class_get_method_list(type, true):
		for count in range(info.args.size() - info.default_args.size(), info.args.size() + 1):
			lines.append_array(functions_of_method(type, info, count))
	for info: Dictionary in ClassDB.class_get_signal_list(type, true):
		var typed := ", ".join(info.args.map(func(a: Dictionary) -> String: return "%s: %s" % [a.name, type_of(a)]))
		var names := ", ".join(info.args.map(func(a: Dictionary) -> String: return a.name))
		lines.append("func hear_typed_%s(o: %s, heard: Array) -> void:\n\to.%s.connect(func(%s) -> void: heard.append([%s]))" % [info.name, type, info.name, typed, names])
		lines.append("func hear_untyped_%s(o, heard):\n\to.%s.connect(func(%s): heard.append([%s]))" % [info.name, info.name, names, names])
		lines.append("func hear_named_%s(o, heard):\n\to.connect(\"%s\", func(%s): heard.append([%s]))" % [info.name, info.name, names, names])
	var script := GDScript.new()
	script.source_code = "\n".join(lines) + "\n"
	check_equal(script.reload(), OK, "the script for %s:\n%s" % [type, script.source_code])
	return script.new()


func functions_of_method(type: String, info: Dictionary, count: int) -> PackedStringArray:
	var gives: bool = info.return.type != TYPE_NIL or info.return.usage & PROPERTY_USAGE_NIL_IS_VARIANT
	var locals := ""
	for i in count:
		locals += "\tvar a%d: %s = a[%d]\n" % [i, type_of(info.args[i]), i]
	var typed := "o.%s(%s)" % [info.name, ", ".join(range(count).map(func(i: int) -> String: return "a%d" % i))]
	var untyped := "o.%s(%s)" % [info.name, ", ".join(range(count).map(func(i: int) -> String: return "a[%d]" % i))]
	if gives:
		typed = "var result: %s = %s\n\treturn result" % [type_of(info.return), typed]
		untyped = "return " + untyped
	else:
		typed += "\n\treturn null"
	return ["func call_typed_%s_%d(o: %s, a: Array) -> Variant:\n%s\t%s" % [info.name, count, type, locals, typed],
		"func call_untyped_%s_%d(o, a):\n\t%s" % [info.name, count, untyped]]


## How a script writes the type of a property, an argument or a result.
func type_of(info: Dictionary) -> String:
	if info.type == TYPE_OBJECT:
		return info.class_name if ClassDB.class_exists(info.class_name) else &"Object"
	return "Variant" if info.type == TYPE_NIL else type_string(info.type)


func properties(type: String, scripts: RefCounted) -> void:
	for style: String in STYLES:
		var node: Object = ClassDB.instantiate(type)
		var rows := rows_of_properties(type)
		for name: String in rows:
			var what := "%s.%s, %s" % [type, name, style]
			var read := func() -> Variant:
				return node.get(name) if style == "named" else scripts.call("get_%s_%s" % [style, name], node)
			var accessor := func(method: String, arguments: Array) -> Variant:
				if style == "named":
					return node.callv(method, arguments)
				return scripts.call("call_%s_%s_%d" % [style, method, arguments.size()], node, arguments)
			var before: Variant = read.call()
			check_same(accessor.call(getter_of(type, name), []), before, what + ": its getter")
			if name in Table.READ_ONLY.get(type, []):
				check(before != null, what)
				continue
			if style == "named":
				node.set(name, rows[name])
			else:
				scripts.call("set_%s_%s" % [style, name], node, rows[name])
			check(read.call() == rows[name] and before != rows[name], "%s: %s after %s" % [what, read.call(), before])
			check_same(accessor.call(getter_of(type, name), []), rows[name], what + ": its getter")
			accessor.call("set_" + name, [before])
			check_same(read.call(), before, what + ": its setter")
		if node is Node:
			node.free()


## No object is written in two ways.
func check_same(got: Variant, wanted: Variant, what: String) -> void:
	check(got == wanted and (got == null or typeof(got) == typeof(wanted)), "%s: got %s, wanted %s" % [what, got, wanted])


## An object that the calls of the table are for.
func subject(type: String) -> Object:
	var made: Object = ClassDB.instantiate(type)
	if type == "BanterModel":
		made.model_path = MODEL
	elif type == "BanterEngine":
		made.model_path = "res://no.gguf"
		made.auto_load = false
	elif type == "BanterNPC":
		made.persona = "Once upon a time"
		made.temperature = 0.0
		made.max_tokens = 8
	if made is Node:
		root.add_child(made)
	return made


func methods(type: String, scripts: RefCounted) -> void:
	var profile := BanterProfile.new()
	profile.persona = "You are Mira."
	var made := {"STATE": _state, "PROFILE": profile.to_binary(), "NO BYTES": PackedByteArray()}
	var results := {}
	for style: String in STYLES:
		var node := subject(type)
		results[style] = []
		for row: Array in Table.METHODS[type]:
			var arguments: Array = row[1].map(func(a: Variant) -> Variant: return made.get(a, a))
			_engine.paused = row[0] == "say" or _engine.paused  # so that it lasts until it is cancelled
			var result: Variant
			if style == "named":
				result = node.callv(row[0], arguments)
			else:
				result = scripts.call("call_%s_%s_%d" % [style, row[0], arguments.size()], node, arguments)
			if result is Signal:
				result = await result
			if row.size() > 2:
				var wanted: Variant = PackedStringArray(row[2]) if row[2] is Array else row[2]
				check_equal(result, wanted, "%s.%s(%s), %s" % [type, row[0], row[1], style])
			results[style].append(result)
		_engine.paused = false
		if node is Node:
			node.queue_free()
	for style: String in STYLES:
		for i in Table.METHODS[type].size():
			check_equal(results[style][i], results.typed[i], "%s.%s(), %s and typed" % [type, Table.METHODS[type][i][0], style])


## Connects every signal in all three styles to the same object, and has each of them come.
func signals(type: String, scripts: RefCounted) -> void:
	if Table.SIGNALS[type].is_empty():
		return
	var node := subject(type)
	var heard := {}
	for style: String in STYLES:
		heard[style] = {}
		for name: String in Table.SIGNALS[type]:
			heard[style][name] = []
			scripts.call("hear_%s_%s" % [style, name], node, heard[style][name])
	if node is BanterEngine:
		await provoke_engine(node)
	else:
		await provoke_character(node)
	for name: String in Table.SIGNALS[type]:
		check(not heard.typed[name].is_empty(), "%s.%s comes" % [type, name])
		for arguments: Array in heard.typed[name]:
			check_equal(arguments.map(func(a: Variant) -> int: return typeof(a)), Table.SIGNALS[type][name], "%s.%s's arguments" % [type, name])
		for style: String in STYLES:
			check_equal(heard[style][name], heard.typed[name], "%s.%s, %s and typed" % [type, name, style])
	node.queue_free()


func provoke_engine(engine: BanterEngine) -> void:
	check_equal(engine.load_model(), OK, "a file that is not there")
	await engine.load_finished
	check_equal(engine.load_model(MODEL), OK, "one that is")
	await engine.load_finished


func provoke_character(npc: BanterNPC) -> void:
	check_equal(await npc.load_state(PackedByteArray([1, 2])), ERR_FILE_CORRUPT, "no state")
	var thinker := BanterEngine.new()
	thinker.model_path = "res://models/thinking.gguf"
	root.add_child(thinker)
	npc.engine = thinker
	npc.thinking = BanterNPC.THINKING_ON
	npc.thinking_budget_tokens = 4
	npc.max_tokens = 12
	await npc.ask("Hi")
	npc.engine = _engine
	npc.thinking = BanterNPC.THINKING_OFF
	npc.context_tokens = 64
	npc.reply_reserve_tokens = 16
	for i in 6:
		await npc.ask(" and then the cat said")
	thinker.queue_free()
