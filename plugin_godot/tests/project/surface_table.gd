extends RefCounted
## What the addon's classes offer to scripts: a row for each method, property and signal, for the tests that go through all of them.

## Property, a value, one too low and one too high with what they become.
const PROPERTIES := {
	"BanterEngine": [
		["model_path", "res://x.gguf"], ["auto_load", false], ["chat_template", "{{ 1 }}"],
		["context_tokens", 512, 3, 16, 1 << 30, 1 << 20], ["kv_type", BanterEngine.KV_INT8, -1, BanterEngine.KV_AUTO, 9, BanterEngine.KV_INT4],
		["speculation", BanterEngine.SPECULATION_NGRAM, -4, 0, 7, 1], ["device", BanterEngine.DEVICE_CUDA, -1, 0, 2, 0],
		["thread_count", 3, -1, 0, 1000, 256], ["memory_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
		["kv_budget_mb", 100, -1, 0, 1 << 40, 1 << 24], ["swap_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
		["frame_budget_ms", 2.5, -1.0, 0.0, 1e9, 1000.0], ["cpu_share", 0.5, 0.0, 0.01, 2.0, 1.0], ["paused", true],
		["performance_monitors", false]],
	"BanterModel": [
		["model_path", "res://x.gguf"], ["draft_path", "res://y.gguf"], ["chat_template", "{{ 1 }}"], ["context_tokens", 512, 3, 16, 1 << 30, 1 << 20],
		["kv_type", BanterEngine.KV_INT8, -1, BanterEngine.KV_AUTO, 9, BanterEngine.KV_INT4], ["kv_budget_mb", 100, -1, 0, 1 << 40, 1 << 24],
		["speculation", BanterEngine.SPECULATION_DRAFT, -4, 0, 7, 2]],
	"BanterNPC": [
		["persona", "You are Märta 🧙."], ["priority", 7, -3, 0, 12, 7], ["max_tokens", 99, -1, 0, 1 << 40, 1 << 20],
		["stop_strings", ["\n", "Ünd"]], ["deadline_ms", 500, -1, 0, 1 << 40, (1 << 31) - 1],
		["context_policy", BanterNPC.CONTEXT_SLIDE, -1, 0, 9, 3], ["context_tokens", 128, 1, 16, 1 << 40, 1 << 20],
		["reply_reserve_tokens", 32, -1, 0, 1 << 40, 1 << 20], ["seed", -5], ["temperature", 1.5, -1.0, 0.0, 99.0, 10.0],
		["top_k", 7, -1, 0, 1 << 40, 1 << 20], ["top_p", 0.5, 0.0, 0.001, 2.0, 1.0], ["min_p", 0.25, -1.0, 0.0, 1.0, 0.999],
		["repetition_penalty", 1.25, 0.0, 0.01, 99.0, 10.0], ["thinking", BanterNPC.THINKING_ON, -1, 0, 9, 2],
		["thinking_budget_tokens", 64, -1, 0, 1 << 40, 1 << 20]],
	"BanterProfile": [
		["profile_name", "Märta"], ["lore", ["The valley.", "The inn."]], ["persona", "You are Märta 🧙."], ["examples", ["Hi", "Ho"]],
		["priority", 7, -3, 0, 12, 7], ["stop_strings", ["\n", "Ünd"]], ["context_policy", BanterNPC.CONTEXT_SLIDE, -1, 0, 9, 3],
		["context_tokens", 128, 1, 16, 1 << 40, 1 << 20], ["reply_reserve_tokens", 32, -1, 0, 1 << 40, 1 << 20], ["seed", -5],
		["temperature", 1.5, -1.0, 0.0, 99.0, 10.0, NAN, 0.0], ["top_p", 0.5, 0.0, 1e-6, 2.0, 1.0], ["min_p", 0.25, -1.0, 0.0, 1.0, 0.999999],
		["typical_p", 0.5, 0.0, 1e-6, 2.0, 1.0], ["repetition_penalty", 1.25, 0.0, 0.01, 99.0, 10.0], ["presence_penalty", 0.5, -99.0, -10.0, 99.0, 10.0],
		["frequency_penalty", 0.5, -99.0, -10.0, 99.0, 10.0], ["dry_multiplier", 0.5, -1.0, 0.0, 999.0, 100.0], ["dry_base", 2.0, 0.0, 1.0, 99.0, 10.0],
		["xtc_probability", 0.5, -1.0, 0.0, 2.0, 1.0], ["xtc_threshold", 0.5, -1.0, 0.0, 2.0, 1.0], ["mirostat_tau", 2.0, 0.0, 1e-6, 999.0, 100.0],
		["mirostat_eta", 0.5, 0.0, 1e-6, 2.0, 1.0], ["top_k", 7, -1, 0, 1 << 40, (1 << 31) - 1], ["penalty_last_tokens", 7, -9, -1, 1 << 40, (1 << 31) - 1],
		["dry_allowed_length", 7, 0, 1, 1 << 40, (1 << 31) - 1], ["dry_last_tokens", 7, -9, -1, 1 << 40, (1 << 31) - 1], ["mirostat", 2, 1, 0, 9, 2],
		["logit_bias", {7: -1.5, 9: -INF}], ["dry_breakers", [":", "\n"]]],
}
## Properties that can only be read.
const READ_ONLY := {"BanterEngine": ["backend_name", "backend_reason", "model_info", "metrics", "load_fraction"]}
const SIGNALS := {
	"BanterEngine": {"load_progress": [TYPE_FLOAT], "model_ready": [], "load_finished": [TYPE_INT], "failed": [TYPE_INT, TYPE_STRING]},
	"BanterModel": {},
	"BanterNPC": {"text_received": [TYPE_STRING], "sentence_received": [TYPE_STRING], "thought_received": [TYPE_STRING],
		"reply_finished": [TYPE_STRING, TYPE_DICTIONARY], "failed": [TYPE_INT, TYPE_STRING], "context_trimmed": [TYPE_INT, TYPE_INT]},
	"BanterProfile": {},
}
## Method, arguments, and what it gives where that is the same in every run; called one after another, each with what the ones before left.
## Those that read and write properties are none of them. Arguments may be left out where the method has defaults; those in capitals are made by the test.
const METHODS := {
	"BanterEngine": [
		["load_model", []], ["unload_model", []], ["load_model", ["res://models/stories.gguf"], OK], ["is_model_loading", [], true],
		["is_model_loaded", [], false], ["get_monitor", ["preemptions"], 0.0], ["get_monitor", ["no such figure"], 0.0], ["cancel_load", []],
		["_model_changed", []], ["get_setup_problems", [], ["The model's file is not there: res://no.gguf."]]],
	"BanterModel": [
		["file_exists", [], true], ["measure", []], ["get_memory_needed", []], ["get_memory_needed", [3]]],
	"BanterNPC": [
		["add_turn", ["user", "Hi"], OK], ["add_turn", ["nobody", "Hi"], ERR_INVALID_PARAMETER], ["ask", [" there was a"]], ["save_state", []],
		["save_state", [true]], ["load_state", ["STATE"]], ["say", [" and"], 5], ["is_talking", [], true], ["cancel", [5], OK], ["cancel", [77], ERR_DOES_NOT_EXIST],
		["interrupt", []], ["_profile_changed", []], ["get_setup_problems", [], []], ["reset", []]],
	"BanterProfile": [
		["load_json", ["{\"persona\": \"You are Mira.\", \"priority\": 6}"], OK], ["get_problem", [], ""], ["get_load_message", [], ""], ["to_binary", []],
		["load_binary", ["PROFILE"], OK], ["load_binary", ["NO BYTES"], ERR_FILE_CORRUPT]],
}
