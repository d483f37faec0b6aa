class_name LoadingScreen
extends CanvasLayer
## How far the model is.

var _bar := ProgressBar.new()
var _label := Label.new()


func _init() -> void:
	layer = 15
	var center := CenterContainer.new()
	center.set_anchors_preset(Control.PRESET_FULL_RECT)
	add_child(center)
	var panel := PanelContainer.new()
	center.add_child(panel)
	var rows := VBoxContainer.new()
	rows.add_theme_constant_override("separation", 10)
	panel.add_child(rows)
	rows.add_child(_label)
	_bar.custom_minimum_size = Vector2(420, 20)
	_bar.max_value = 1
	_bar.step = 0.001
	rows.add_child(_bar)


func begin(path: String) -> void:
	_label.text = Words.of("Loading %s") % path.get_file()
	_bar.value = 0
	show()


func advance(fraction: float) -> void:
	_bar.value = fraction
