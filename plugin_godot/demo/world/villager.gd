class_name Villager
extends Node2D
## Somebody who can be talked to: a figure, a BanterNPC that thinks and speaks, a balloon that shows it.

## The first words of a reply are there, so long after the question.
signal reply_began(milliseconds: float)

enum Language { ENGLISH, CHINESE }

## Whom the player waits for comes before everybody else; what villagers tell each other is computed when there is time.
const PRIORITY_CHATTER := 0
const PRIORITY_PLAYER := 7
const CHATTER_TOKENS := 40

@export var display_name := ""
@export var language := Language.ENGLISH
@export var tint := Color.WHITE

var last_stats := {}
var reply_tokens := 64

## When the question was put, while the first words of the reply are waited for; else 0.
var _asked_at_us := 0

@onready var mind: BanterNPC = $Mind
@onready var figure: Figure = $Figure
@onready var balloon := Balloon.new()


func _ready() -> void:
	balloon.tint(tint)
	mind.text_received.connect(_on_text)
	mind.reply_finished.connect(_on_finished)
	mind.failed.connect(_on_failed)


## What the player says to them. What they were saying is over.
func answer_player(words: String) -> String:
	mind.interrupt()
	mind.priority = PRIORITY_PLAYER
	mind.max_tokens = reply_tokens
	balloon.is_important = true
	return await _ask(words)


## What another villager says to them.
func answer_villager(words: String) -> String:
	mind.priority = PRIORITY_CHATTER
	mind.max_tokens = mini(CHATTER_TOKENS, reply_tokens)
	balloon.is_important = false
	return await _ask(words)


func is_busy() -> bool:
	return mind.is_talking()


func look_at_place(at: Vector2) -> void:
	figure.gaze = clampf((at.x - global_position.x) / 120, -1, 1)


func _ask(words: String) -> String:
	balloon.begin()
	_asked_at_us = Time.get_ticks_usec()
	return await mind.ask(words)


func _draw() -> void:
	var font := UiFont.current()
	var width := font.get_string_size(display_name, HORIZONTAL_ALIGNMENT_LEFT, -1, 13).x
	var at := Vector2(-width / 2, 21)
	draw_string_outline(font, at, display_name, HORIZONTAL_ALIGNMENT_LEFT, -1, 13, 5, Color(0.12, 0.15, 0.12, 0.85))
	draw_string(font, at, display_name, HORIZONTAL_ALIGNMENT_LEFT, -1, 13, Color(0.98, 0.96, 0.88))


func _process(_delta: float) -> void:
	balloon.anchor = get_global_transform_with_canvas() * Vector2(0, -60)


func _on_text(text: String) -> void:
	if _asked_at_us > 0:
		reply_began.emit((Time.get_ticks_usec() - _asked_at_us) / 1000.0)
		_asked_at_us = 0
	figure.is_speaking = true
	balloon.add(text)


func _on_finished(_text: String, stats: Dictionary) -> void:
	if stats.has("time_to_first_token_ms"):
		last_stats = stats
	figure.is_speaking = false
	if not mind.is_talking():
		balloon.end()


func _on_failed(_code: int, _message: String) -> void:
	figure.is_speaking = false
	balloon.end()
