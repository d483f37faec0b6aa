extends "res://check.gd"
## A model that thinks before it speaks, and conversations that outgrow their context.


func test() -> void:
	var engine := BanterEngine.new()
	engine.model_path = "res://models/thinking.gguf"
	root.add_child(engine)
	var npc := new_npc("You think.", engine)
	npc.max_tokens = 40
	npc.thinking = BanterNPC.THINKING_ON
	npc.thinking_budget_tokens = 8
	var heard := {"thought": "", "text": ""}
	var order: Array[String] = []
	npc.thought_received.connect(func(text: String) -> void:
		heard.thought += text
		order.append("thought"))
	npc.text_received.connect(func(text: String) -> void:
		heard.text += text
		order.append("text"))
	var reply: String = await npc.ask("Hi")
	check(heard.thought.length() > 0, "thoughts are told: %s" % [heard])
	check_equal(heard.text, reply, "and are no part of the reply")
	check(order.find("text") == -1 or order.rfind("thought") < order.find("text"), "thoughts come first")
	await context_trimmed()
	engine.queue_free()


func context_trimmed() -> void:
	var engine := new_engine()
	var npc := new_npc("Once upon a time", engine)
	npc.context_tokens = 96
	npc.reply_reserve_tokens = 24
	var dropped := [0, 0]
	npc.context_trimmed.connect(func(turns: int, tokens: int) -> void:
		dropped[0] += turns
		dropped[1] += tokens)
	for i in 8:
		check((await npc.ask(" and then the cat said")).length() > 0, "reply %d" % i)
	check(dropped[0] > 0 and dropped[1] > 0, "context_trimmed: %s" % [dropped])
	check_equal(npc.history.size(), 16, "the game's history stays whole")
	engine.queue_free()
