@tool
extends RefCounted
## What a model needs, and the graphics cards that it fits.

## Memory of graphics cards, in GiB.
const CARDS: Array[int] = [2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 80, 96, 141]
## Of a card's memory, what is left to the game's picture.
const LEFT_TO_PICTURE := 0.2


## What BanterModel.measure() tells of a model with that context, which is no longer than the model was made for; 0: what an engine takes.
static func measure(model: BanterModel, context: int) -> Dictionary:
	model.context_tokens = 0
	var needs := model.measure()
	if needs["error"] == OK and context > 0:
		model.context_tokens = mini(context, count(needs, "trained_context_tokens"))
		needs = model.measure()
	return needs


static func count(needs: Dictionary, key: String) -> int:
	var number: int = needs[key]
	return number


## Bytes of the model and of so many conversations.
static func bytes(needs: Dictionary, characters: int) -> int:
	return count(needs, "weight_bytes") + count(needs, "step_buffer_bytes") + count(needs, "kv_bytes") * characters


## What a card has for it, in bytes.
static func room(card: int) -> int:
	return int(card * (1.0 - LEFT_TO_PICTURE) * (1 << 30))


## The memory of the smallest card that so many bytes fit, in GiB; 0 where no card has so much.
static func smallest_card(size: int) -> int:
	for card in CARDS:
		if size <= room(card):
			return card
	return 0


## How many characters a card has room for.
static func most_characters(needs: Dictionary, card: int) -> int:
	return int(maxf(0.0, room(card) - bytes(needs, 0)) / maxf(1.0, count(needs, "kv_bytes")))
