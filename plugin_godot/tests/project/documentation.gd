extends RefCounted
## Compares the pages of the editor's help with what ClassDB knows of a class: everything is told, with its types, and nothing else.


## Sentences about what does not agree.
static func faults_of(type: String) -> PackedStringArray:
	var faults := PackedStringArray()
	var told := page_of(type)
	var listed := listed_of(type)
	for subject: String in listed:
		if not told.has(subject):
			faults.append("%s.xml says nothing of: %s" % [type, subject])
		elif told[subject].form != listed[subject]:
			faults.append("%s.xml says %s: %s, but it is: %s" % [type, subject, told[subject].form, listed[subject]])
		elif not told[subject].has_text:
			faults.append("%s.xml does not describe: %s" % [type, subject])
	for subject: String in told:
		if not listed.has(subject):
			faults.append("%s.xml tells of what is not there: %s" % [type, subject])
	return faults


## What the page tells: {"method say": {"form": "say(text: String) -> int", "has_text": true}}.
static func page_of(type: String) -> Dictionary:
	var told := {}
	var parser := XMLParser.new()
	if parser.open("res://doc_classes/%s.xml" % type) != OK:
		return told
	var subject := ""
	while parser.read() == OK:
		if parser.get_node_type() == XMLParser.NODE_TEXT and told.has(subject) and not parser.get_node_data().strip_edges().is_empty():
			told[subject].has_text = true
		if parser.get_node_type() != XMLParser.NODE_ELEMENT:
			continue
		var element := parser.get_node_name()
		var name := parser.get_named_attribute_value_safe("name")
		if element in ["class", "method", "member", "signal", "constant"]:
			subject = element + " " + name
			if not parser.has_attribute("overrides"):
				told[subject] = {"form": form_of_element(parser, element), "has_text": false}
		elif element == "return":
			told[subject].gives = type_told(parser)
		elif element == "param":
			told[subject].form += "%s: %s%s, " % [name, type_told(parser), default_told(parser)]
	for about: String in told:
		if told[about].has("gives"):
			told[about].form += "-> " + told[about].gives
	return told


static func form_of_element(parser: XMLParser, element: String) -> String:
	match element:
		"class":
			return parser.get_named_attribute_value("inherits")
		"method":
			return "const " if parser.get_named_attribute_value_safe("qualifiers") == "const" else ""
		"member":
			var written := parser.get_named_attribute_value_safe("setter") + "/" + parser.get_named_attribute_value_safe("getter")
			return type_told(parser) + default_told(parser) + " " + written
		"constant":
			return parser.get_named_attribute_value_safe("enum") + " " + parser.get_named_attribute_value_safe("value")
	return ""


static func type_told(parser: XMLParser) -> String:
	var of_enum := parser.get_named_attribute_value_safe("enum")
	return parser.get_named_attribute_value_safe("type") if of_enum.is_empty() else of_enum


static func default_told(parser: XMLParser) -> String:
	return " = " + parser.get_named_attribute_value("default") if parser.has_attribute("default") else ""


## The same of what Godot lists; getters, setters and what is private belong into no page.
static func listed_of(type: String) -> Dictionary:
	var listed := {"class " + type: String(ClassDB.get_parent_class(type))}
	var hidden := {}
	for info: Dictionary in ClassDB.class_get_property_list(type, true):
		if info.usage & (PROPERTY_USAGE_GROUP | PROPERTY_USAGE_SUBGROUP | PROPERTY_USAGE_CATEGORY):
			continue
		var getter: String = ("is_" if info.type == TYPE_BOOL else "get_") + info.name
		var setter: String = "set_" + info.name if ClassDB.class_has_method(type, "set_" + info.name, true) else ""
		hidden[getter] = true
		hidden[setter] = true
		var default: Variant = ClassDB.class_get_property_default_value(type, info.name)
		var is_told: bool = info.usage & PROPERTY_USAGE_STORAGE and info.type != TYPE_OBJECT
		listed["member " + info.name] = type_listed(info) + (" = " + var_to_str(default) if is_told else "") + " %s/%s" % [setter, getter]
	for info: Dictionary in ClassDB.class_get_method_list(type, true):
		if not hidden.has(info.name) and not info.name.begins_with("_"):
			var first_default: int = info.args.size() - info.default_args.size()
			var form := "const " if info.flags & METHOD_FLAG_CONST else ""
			for i: int in info.args.size():
				var default := " = " + var_to_str(info.default_args[i - first_default]) if i >= first_default else ""
				form += "%s: %s%s, " % [info.args[i].name, type_listed(info.args[i]), default]
			listed["method " + info.name] = form + "-> " + type_listed(info.return, "void")
	for info: Dictionary in ClassDB.class_get_signal_list(type, true):
		listed["signal " + info.name] = "".join(info.args.map(func(a: Dictionary) -> String: return "%s: %s, " % [a.name, type_listed(a)]))
	for name: String in ClassDB.class_get_integer_constant_list(type, true):
		listed["constant " + name] = "%s %d" % [ClassDB.class_get_integer_constant_enum(type, name, true), ClassDB.class_get_integer_constant(type, name)]
	return listed


static func type_listed(info: Dictionary, of_nil := "Variant") -> String:
	if not String(info.class_name).is_empty():
		return info.class_name
	return of_nil if info.type == TYPE_NIL else type_string(info.type)
