extends "res://check.gd"
## What the classes say about themselves: properties with hints and limits, signals, constants. All of it from scripts, and the documentation: surface.gd.

const Table := preload("res://surface_table.gd")

func test() -> void:
	check_class("BanterEngine", &"Node", [["model", BanterModel.new()]])
	check_class("BanterNPC", &"Node", [["profile", BanterProfile.new()]])
	check_class("BanterModel", &"Resource")
	check_class("BanterProfile", &"Resource")
	check(not ClassDB.is_parent_class("BanterNPC", "BanterEngine"), "the two nodes are no relatives")
	check_enums()
	check_limits_of_the_binding()
	check_engine_property()
	check_read_only()


func check_class(type: String, parent: StringName, resources: Array = []) -> void:
	check(ClassDB.class_exists(type) and ClassDB.can_instantiate(type), type + " can be made")
	check_equal(ClassDB.get_parent_class(type), parent, type + "'s parent")
	var node: Object = ClassDB.instantiate(type)
	for name: String in Table.SIGNALS[type]:
		var told: Dictionary = ClassDB.class_get_signal(type, name)
		var types: Array = told.get("args", []).map(func(a: Dictionary) -> int: return a.type)
		check_equal(types, Table.SIGNALS[type][name], "%s's signal %s" % [type, name])
	for row: Array in Table.PROPERTIES[type] + resources:
		check_property(node, row)
	if node is Node:
		node.free()


func check_property(node: Object, row: Array) -> void:
	var name: String = row[0]
	var value: Variant = PackedStringArray(row[1]) if row[1] is Array else row[1]
	var info: Array = node.get_property_list().filter(func(p: Dictionary) -> bool: return p.name == name)
	check_equal(info.size(), 1, name + " is listed")
	check_equal(info[0].type, typeof(value), name + "'s type")
	var class_of_value: StringName = value.get_class() if value is Object else &""
	check_equal(class_of_value, &"" if not value is Object else StringName(info[0].hint_string), name + "'s class")
	var before: Variant = node.get(name)
	check_equal(before, ClassDB.class_get_property_default_value(node.get_class(), name), name + "'s default value")
	check(before != value, name + ": the test's value is not the default")
	node.set(name, value)
	check_equal(node.get(name), value, name + " keeps its value")
	var getter := ("is_" if value is bool else "get_") + name
	check_equal(node.call(getter), value, getter)
	for i in range(2, row.size(), 2):
		node.call("set_" + name, row[i])
		check_equal(node.get(name), row[i + 1], "%s = %s" % [name, row[i]])
	if row.size() > 2 and value is float or row.size() > 2 and value is int:
		check(info[0].hint == PROPERTY_HINT_RANGE or info[0].hint == PROPERTY_HINT_ENUM, name + " has a range or its values")
		check(not info[0].hint_string.is_empty(), name + "'s hint")
	check(info[0].usage & PROPERTY_USAGE_STORAGE and info[0].usage & PROPERTY_USAGE_EDITOR, name + " is saved and shown")


func check_enums() -> void:
	check_equal(Array(ClassDB.class_get_enum_list("BanterEngine", true)).size(), 3, "BanterEngine's enums")
	check_equal(Array(ClassDB.class_get_enum_list("BanterNPC", true)).size(), 2, "BanterNPC's enums")
	check_equal(BanterNPC.CONTEXT_TRIM + BanterNPC.CONTEXT_SUMMARIZE + BanterNPC.CONTEXT_STOP, 4, "ContextPolicy")
	check_equal(BanterNPC.THINKING_AUTO + BanterNPC.THINKING_OFF, 1, "Thinking")
	check_equal(BanterEngine.DEVICE_AUTO + BanterEngine.DEVICE_CPU, 1, "Device")
	check_equal(BanterEngine.KV_F16 + BanterEngine.KV_BF16 + BanterEngine.KV_F32, 6, "KVType")


## What typed and untyped calls make of arguments: conversions that Godot allows, defaults.
func check_limits_of_the_binding() -> void:
	var typed := BanterNPC.new()
	var untyped: Variant = typed
	typed.temperature = 1
	check_equal(typed.temperature, 1.0, "an int for a float, typed")
	untyped.temperature = 2
	check_equal(typed.get_temperature(), 2.0, "an int for a float, untyped")
	untyped.persona = &"name"
	check_equal(typed.persona, "name", "a StringName for a String")
	check_equal(untyped.call("add_turn", "user", "Hi"), OK, "call() of a method")
	check_equal(typed.add_turn("nobody", "Hi"), ERR_INVALID_PARAMETER, "an Error as result, typed")
	check_equal(typed.history, [{"role": "user", "content": "Hi"}], "an Array as result")
	check_equal(untyped.callv("get_history", []).size(), 1, "an Array as result, untyped")
	check_equal(typed.cancel(77), ERR_DOES_NOT_EXIST, "an int as argument, typed")
	check_equal(typed.is_talking(), false, "a bool as result")
	typed.stop_strings = ["a"]
	check_equal(untyped.stop_strings, PackedStringArray(["a"]), "an Array for a PackedStringArray")
	typed.free()


func check_engine_property() -> void:
	var npc := BanterNPC.new()
	var engine := BanterEngine.new()
	check(npc.engine == null, "no engine")
	npc.engine = engine
	check(npc.engine == engine, "the engine that was set")
	engine.free()
	check(npc.engine == null, "a freed engine is none")
	npc.free()


func check_read_only() -> void:
	var engine := BanterEngine.new()
	for name: String in Table.READ_ONLY.BanterEngine:
		check(engine.get(name) != null, name + " can be read")
		var before: Variant = engine.get(name)
		engine.set(name, "other")
		check_equal(engine.get(name), before, name + " cannot be written")
	engine.free()
