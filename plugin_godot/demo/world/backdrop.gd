class_name Backdrop
extends SubViewport
## Ground and houses as one picture, drawn anew only when the window gets another size: what stands still costs a frame almost nothing.

@onready var _sprite: Sprite2D = $"../Picture"


func _ready() -> void:
	get_tree().root.size_changed.connect(_draw_anew)
	_sprite.texture = get_texture()
	_draw_anew()


func _draw_anew() -> void:
	# As many pixels as the window has, so that nothing is blurred.
	var window := get_tree().root
	var scale_to_window := window.get_final_transform().get_scale().clamp(Vector2.ONE * 0.1, Vector2.ONE * 8)
	var shown := window.get_visible_rect().size
	size = Vector2i((shown * scale_to_window).ceil())
	canvas_transform = Transform2D(0, scale_to_window, 0, Vector2.ZERO)
	_sprite.scale = Vector2.ONE / scale_to_window
	render_target_update_mode = SubViewport.UPDATE_ONCE
