extends "res://check.gd"
## What the classes say about themselves: methods, properties with hints and limits, signals, constants, documentation.

const ENGINE_METHODS := ["load_model", "unload_model", "cancel_load", "is_model_loaded", "is_model_loading", "get_monitor", "get_setup_problems"]
const NPC_METHODS := ["say", "ask", "add_turn", "interrupt", "cancel", "reset", "is_talking", "save_state", "load_state", "get_setup_problems"]
const ENGINE_SIGNALS := {"load_progress": [TYPE_FLOAT], "model_ready": [], "load_finished": [TYPE_INT], "failed": [TYPE_INT, TYPE_STRING]}
const NPC_SIGNALS := {"text_received": [TYPE_STRING], "sentence_received": [TYPE_STRING], "thought_received": [TYPE_STRING],
	"reply_finished": [TYPE_STRING, TYPE_DICTIONARY], "failed": [TYPE_INT, TYPE_STRING], "context_trimmed": [TYPE_INT, TYPE_INT]}
## Property, a value, one too low and one too high with what they become.
const ENGINE_PROPERTIES := [
	["model_path", "res://x.gguf"], ["auto_load", false], ["chat_template", "{{ 1 }}"],
	["context_tokens", 512, 3, 16, 1 << 30, 1 << 20], ["kv_type", BanterEngine.KV_INT8, -1, BanterEngine.KV_AUTO, 9, BanterEngine.KV_INT4],
	["speculation", BanterEngine.SPECULATION_NGRAM, -4, 0, 7, 1], ["device", BanterEngine.DEVICE_CUDA, -1, 0, 2, 0],
	["thread_count", 3, -1, 0, 1000, 256], ["memory_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
	["kv_budget_mb", 100, -1, 0, 1 << 40, 1 << 24], ["swap_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
	["frame_budget_ms", 2.5, -1.0, 0.0, 1e9, 1000.0], ["cpu_share", 0.5, 0.0, 0.01, 2.0, 1.0], ["paused", true],
	["performance_monitors", false]]
const MODEL_PROPERTIES := [
	["model_path", "res://x.gguf"], ["draft_path", "res://y.gguf"], ["chat_template", "{{ 1 }}"], ["context_tokens", 512, 3, 16, 1 << 30, 1 << 20],
	["kv_type", BanterEngine.KV_INT8, -1, BanterEngine.KV_AUTO, 9, BanterEngine.KV_INT4], ["kv_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
	["speculation", BanterEngine.SPECULATION_DRAFT, -4, 0, 7, 2]]
const PROFILE_PROPERTIES := [
	["profile_name", "Märta"], ["lore", ["The valley.", "The inn."]], ["persona", "You are Märta 🧙."], ["examples", ["Hi", "Ho"]],
	["priority", 7, -3, 0, 12, 7], ["stop_strings", ["\n", "Ünd"]], ["context_policy", BanterNPC.CONTEXT_SLIDE, -1, 0, 9, 3],
	["context_tokens", 128, 1, 16, 1 << 40, 1 << 20], ["reply_reserve_tokens", 32, -1, 0, 1 << 40, 1 << 20], ["seed", -5],
	["temperature", 1.5, -1.0, 0.0, 99.0, 10.0, NAN, 0.0], ["top_p", 0.5, 0.0, 1e-6, 2.0, 1.0], ["min_p", 0.25, -1.0, 0.0, 1.0, 0.999999],
	["typical_p", 0.5, 0.0, 1e-6, 2.0, 1.0], ["repetition_penalty", 1.25, 0.0, 0.01, 99.0, 10.0], ["presence_penalty", 0.5, -99.0, -10.0, 99.0, 10.0],
	["frequency_penalty", 0.5, -99.0, -10.0, 99.0, 10.0], ["dry_multiplier", 0.5, -1.0, 0.0, 999.0, 100.0], ["dry_base", 2.0, 0.0, 1.0, 99.0, 10.0],
	["xtc_probability", 0.5, -1.0, 0.0, 2.0, 1.0], ["xtc_threshold", 0.5, -1.0, 0.0, 2.0, 1.0], ["mirostat_tau", 2.0, 0.0, 1e-6, 999.0, 100.0],
	["mirostat_eta", 0.5, 0.0, 1e-6, 2.0, 1.0], ["top_k", 7, -1, 0, 1 << 40, (1 << 31) - 1], ["penalty_last_tokens", 7, -9, -1, 1 << 40, (1 << 31) - 1],
	["dry_allowed_length", 7, 0, 1, 1 << 40, (1 << 31) - 1], ["dry_last_tokens", 7, -9, -1, 1 << 40, (1 << 31) - 1], ["mirostat", 2, 1, 0, 9, 2],
	["logit_bias", {7: -1.5, 9: -INF}], ["dry_breakers", [":", "\n"]]]
const NPC_PROPERTIES := [
	["persona", "You are Märta 🧙."], ["priority", 7, -3, 0, 12, 7], ["max_tokens", 99, -1, 0, 1 << 40, 1 << 20],
	["stop_strings", ["\n", "Ünd"]], ["deadline_ms", 500, -1, 0, 1 << 40, (1 << 31) - 1],
	["context_policy", BanterNPC.CONTEXT_SLIDE, -1, 0, 9, 3], ["context_tokens", 128, 1, 16, 1 << 40, 1 << 20],
	["reply_reserve_tokens", 32, -1, 0, 1 << 40, 1 << 20], ["seed", -5], ["temperature", 1.5, -1.0, 0.0, 99.0, 10.0],
	["top_k", 7, -1, 0, 1 << 40, 1 << 20], ["top_p", 0.5, 0.0, 0.001, 2.0, 1.0], ["min_p", 0.25, -1.0, 0.0, 1.0, 0.999],
	["repetition_penalty", 1.25, 0.0, 0.01, 99.0, 10.0], ["thinking", BanterNPC.THINKING_ON, -1, 0, 9, 2],
	["thinking_budget_tokens", 64, -1, 0, 1 << 40, 1 << 20]]


func test() -> void:
	check_class("BanterEngine", &"Node", ENGINE_METHODS, ENGINE_SIGNALS, ENGINE_PROPERTIES + [["model", BanterModel.new()]])
	check_class("BanterNPC", &"Node", NPC_METHODS, NPC_SIGNALS, NPC_PROPERTIES + [["profile", BanterProfile.new()]])
	check_class("BanterModel", &"Resource", ["file_exists", "measure", "get_memory_needed"], {}, MODEL_PROPERTIES)
	check_class("BanterProfile", &"Resource", ["load_binary", "load_json", "to_binary", "get_problem", "get_load_message"], {}, PROFILE_PROPERTIES)
	check(not ClassDB.is_parent_class("BanterNPC", "BanterEngine"), "the two nodes are no relatives")
	check_enums()
	check_limits_of_the_binding()
	check_engine_property()
	check_read_only()


func check_class(type: String, parent: StringName, methods: Array, signals: Dictionary, properties: Array) -> void:
	check(ClassDB.class_exists(type) and ClassDB.can_instantiate(type), type + " can be made")
	check_equal(ClassDB.get_parent_class(type), parent, type + "'s parent")
	var node: Object = ClassDB.instantiate(type)
	for method: String in methods:
		check(node.has_method(method), "%s.%s()" % [type, method])
	for name: String in signals:
		var told: Dictionary = ClassDB.class_get_signal(type, name)
		var types: Array = told.get("args", []).map(func(a: Dictionary) -> int: return a.type)
		check_equal(types, signals[name], "%s's signal %s" % [type, name])
	check_equal(ClassDB.class_get_signal_list(type, true).size(), signals.size(), type + "'s signals, all of them")
	for row: Array in properties:
		check_property(node, row)
	check_documentation(type, methods, signals, properties)
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


func check_documentation(type: String, methods: Array, signals: Dictionary, properties: Array) -> void:
	var page := FileAccess.get_file_as_string("res://doc_classes/%s.xml" % type)
	var parser := XMLParser.new()
	check_equal(parser.open_buffer(page.to_utf8_buffer()), OK, type + ".xml")
	var told := {}
	var subject := ""
	while parser.read() == OK:
		if parser.get_node_type() == XMLParser.NODE_ELEMENT:
			var element := parser.get_node_name()
			if element in ["class", "method", "member", "signal", "constant"]:
				subject = element + " " + parser.get_named_attribute_value("name")
		elif parser.get_node_type() == XMLParser.NODE_TEXT and not parser.get_node_data().strip_edges().is_empty():
			told[subject] = parser.get_node_data()
	var wanted := ["class " + type]
	wanted += methods.map(func(m: String) -> String: return "method " + m)
	wanted += signals.keys().map(func(s: String) -> String: return "signal " + s)
	wanted += properties.map(func(p: Array) -> String: return "member " + p[0])
	wanted += Array(ClassDB.class_get_integer_constant_list(type, true)).map(func(c: String) -> String: return "constant " + c)
	for subject_wanted: String in wanted:
		check(told.has(subject_wanted), "%s.xml says nothing of: %s" % [type, subject_wanted])


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
	for name: String in ["backend_name", "backend_reason", "model_info", "metrics", "load_fraction"]:
		check(engine.get(name) != null, name + " can be read")
		var before: Variant = engine.get(name)
		engine.set(name, "other")
		check_equal(engine.get(name), before, name + " cannot be written")
	engine.free()
