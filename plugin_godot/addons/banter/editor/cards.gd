@tool
extends HFlowContainer
## The graphics cards by their memory: which of them the chosen model fits.

const Needs := preload("needs.gd")
## Larger ones are shown where this one is too small.
const LARGEST_OF_PLAYERS := 24

var _icons: Array[TextureRect] = []
var _labels: Array[Label] = []
var _needs := {}
var _characters := 1


func _init() -> void:
	add_theme_constant_override("v_separation", 0)
	for card in Needs.CARDS:
		var box := HBoxContainer.new()
		box.add_theme_constant_override("separation", 2)
		box.mouse_filter = MOUSE_FILTER_PASS
		var icon := TextureRect.new()
		icon.stretch_mode = TextureRect.STRETCH_KEEP_CENTERED
		icon.mouse_filter = MOUSE_FILTER_IGNORE
		box.add_child(icon)
		_icons.append(icon)
		var label := Label.new()
		label.text = "%d GB" % card
		label.mouse_filter = MOUSE_FILTER_IGNORE
		box.add_child(label)
		_labels.append(label)
		add_child(box)
	hide()


func _notification(what: int) -> void:
	if what == NOTIFICATION_THEME_CHANGED and not _needs.is_empty():
		_show()


func show_nothing() -> void:
	_needs = {}
	hide()


## Of what BanterModel.measure() tells.
func show_needs(needs: Dictionary, characters: int) -> void:
	_needs = needs
	_characters = characters
	_show()
	show()


## A sentence for each card.
func get_lines() -> PackedStringArray:
	var lines: PackedStringArray = []
	if not _needs.is_empty():
		for card in Needs.CARDS:
			lines.append(_line(card))
	return lines


func _line(card: int) -> String:
	var most := Needs.most_characters(_needs, card)
	var room := "room for %d character%s" % [most, "" if most == 1 else "s"]
	if Needs.bytes(_needs, _characters) <= Needs.room(card):
		return "%d GB: fits, with %s and a fifth left for the picture." % [card, room]
	return "%d GB: does not fit%s." % [card, "; it has %s" % room if most > 0 else ""]


func _show() -> void:
	for i in Needs.CARDS.size():
		var fits := Needs.bytes(_needs, _characters) <= Needs.room(Needs.CARDS[i])
		_icons[i].texture = get_theme_icon("StatusSuccess" if fits else "StatusError", "EditorIcons")
		_labels[i].add_theme_color_override("font_color", get_theme_color("font_color" if fits else "disabled_font_color", "Label" if fits else "Editor"))
		var box: Control = get_child(i)
		box.tooltip_text = _line(Needs.CARDS[i])
		box.visible = Needs.CARDS[i] <= LARGEST_OF_PLAYERS or Needs.bytes(_needs, _characters) > Needs.room(LARGEST_OF_PLAYERS)
