@tool
extends RefCounted
## The tree of the scene that is edited, as the scene dock shows it: the warning beside a node.


## What the warning beside this node of the edited scene says, or "" where there is none.
static func warning_of(path: NodePath) -> String:
	var item := item_of(path)
	if item == null:
		return "not in the tree"
	for i in item.get_button_count(0):
		var tooltip := item.get_button_tooltip_text(0, i)
		if tooltip.contains("warning"):
			return tooltip
	return ""


static func item_of(path: NodePath) -> TreeItem:
	var root := EditorInterface.get_edited_scene_root()
	for dock: Node in EditorInterface.get_base_control().find_children("*", "SceneTreeDock", true, false):
		for tree: Tree in dock.find_children("*", "Tree", true, false):
			var item := tree.get_root()
			if item == null or item.get_text(0) != root.name:
				continue
			for i in path.get_name_count():
				item = child_named(item, path.get_name(i))
			return item
	return null


static func child_named(item: TreeItem, name: String) -> TreeItem:
	if item == null:
		return null
	for child: TreeItem in item.get_children():
		if child.get_text(0) == name:
			return child
	return null


## The words of the problems in the order in which they stand, for a tooltip breaks its lines elsewhere.
static func words_of(text: String) -> PackedStringArray:
	return text.replace("\n", " ").split(" ", false)
