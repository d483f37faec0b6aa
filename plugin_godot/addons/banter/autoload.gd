extends BanterEngine
## The engine of the project: loads the model of the project setting banter/model_path when the game starts.


func _init() -> void:
	if model_path.is_empty():
		model_path = ProjectSettings.get_setting("banter/model_path", "")
