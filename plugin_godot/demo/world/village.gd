class_name Village
extends Node2D
## The place and its people.

## From here on the nearest villager can be talked to.
const REACH := 96.0

var villagers: Array[Villager] = []

@onready var player: Player = $People/Player


func _ready() -> void:
	for child in $People.get_children():
		var villager := child as Villager
		if villager != null:
			villagers.append(villager)
	player.is_blocked = is_blocked


func _process(_delta: float) -> void:
	for villager in villagers:
		villager.look_at_place(player.global_position)


## Who stands near enough to be talked to; null where nobody does.
func nearest_villager() -> Villager:
	var nearest: Villager = null
	var distance := REACH
	for villager in villagers:
		var away := villager.position.distance_to(player.position)
		if away < distance:
			nearest = villager
			distance = away
	return nearest


func find_villager(node_name: String) -> Villager:
	return $People.get_node(node_name) as Villager


func is_blocked(at: Vector2) -> bool:
	if Ground.is_wet(at):
		return true
	for child in $Backdrop/Houses.get_children():
		var house := child as House
		if house != null and house.covered().grow(10).has_point(at):
			return true
	for villager in villagers:
		if villager.position.distance_to(at) < 24:
			return true
	return at.distance_to(Ground.WELL) < 36
