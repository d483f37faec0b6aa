class_name Pictures
extends RefCounted
## Pictures of the screen, for scripted runs.


## Saves what is shown as FOLDER/NAME.png; nothing where there is no folder, or nothing is drawn (--headless).
static func take(node: Node, folder: String, name: String) -> void:
	# What was just set is on the screen two frames later.
	for i in 3:
		await node.get_tree().process_frame
	if folder.is_empty() or DisplayServer.get_name() == "headless":
		return
	await RenderingServer.frame_post_draw
	var image := node.get_viewport().get_texture().get_image()
	var path := folder.path_join(name + ".png")
	var error := DirAccess.make_dir_recursive_absolute(folder)
	if error == OK:
		image.convert(Image.FORMAT_RGB8)
		error = image.save_png(path)
	print("PICTURE: ", path if error == OK else "%s could not be written: %s" % [path, error_string(error)])
