// The properties of BanterNPC, and how it presents itself to the engine.
#include <algorithm>

#include "banter_npc.h"
#include "banter_profile.h"

namespace banter::godot {
namespace {

constexpr int64_t kMostTokens = 1 << 20;

}  // namespace

void BanterNPC::set_persona(const std::string& value) {
  assign(persona_, value);
}

void BanterNPC::set_profile(const Reference& value) {
  const Reference before = profile_;
  profile_ = instance_of<BanterProfile>(value) != nullptr ? value : Reference();
  follow(object(), "_profile_changed", before, profile_);
  if (BanterProfile* const profile = own_profile()) profile->note_file();
  engine_call("notify_property_list_changed");
  profile_changed();
}

void BanterNPC::profile_changed() {
  stale_ = true;
  engine_call("update_configuration_warnings");
}

void BanterNPC::set_engine(Object value) {
  const ObjectId id = id_of(value);
  stale_ = stale_ || id != engine_id_;
  engine_id_ = id;
  engine_call("update_configuration_warnings");
}

void BanterNPC::set_context_policy(int64_t value) {
  assign(context_policy_, std::clamp<int64_t>(value, BANTER_CONTEXT_TRIM, BANTER_CONTEXT_STOP));
}

void BanterNPC::set_context_tokens(int64_t value) {
  assign(context_tokens_, value <= 0 ? int64_t{0} : std::clamp<int64_t>(value, 16, kMostTokens));
}

void BanterNPC::set_reply_reserve_tokens(int64_t value) {
  assign(reply_reserve_tokens_, std::clamp<int64_t>(value, 0, kMostTokens));
}

void BanterNPC::set_temperature(double value) {
  speech_.temperature = std::clamp(value, 0.0, 10.0);
}

void BanterNPC::set_top_p(double value) {
  speech_.top_p = std::clamp(value, 0.001, 1.0);
}

void BanterNPC::set_min_p(double value) {
  speech_.min_p = std::clamp(value, 0.0, 0.999);
}

void BanterNPC::set_repetition_penalty(double value) {
  speech_.repetition_penalty = std::clamp(value, 0.01, 10.0);
}

void BanterNPC::set_top_k(int64_t value) {
  speech_.top_k = std::clamp<int64_t>(value, 0, kMostTokens);
}

void BanterNPC::set_max_tokens(int64_t value) {
  speech_.max_tokens = std::clamp<int64_t>(value, 0, kMostTokens);
  engine_call("update_configuration_warnings");
}

void BanterNPC::set_priority(int64_t value) {
  speech_.priority = std::clamp<int64_t>(value, 0, 7);
}

void BanterNPC::set_thinking(int64_t value) {
  speech_.thinking = std::clamp<int64_t>(value, BANTER_THINKING_AUTO, BANTER_THINKING_ON);
  engine_call("update_configuration_warnings");
}

void BanterNPC::set_thinking_budget_tokens(int64_t value) {
  speech_.thinking_budget_tokens = std::clamp<int64_t>(value, 0, kMostTokens);
  engine_call("update_configuration_warnings");
}

void BanterNPC::set_deadline_ms(int64_t value) {
  speech_.deadline_ms = std::clamp<int64_t>(value, 0, INT32_MAX);
}

void BanterNPC::register_class(Registry& registry) {
  using N = BanterNPC;
  ClassBuilder<N> npc(registry, "BanterNPC", "Node");
  npc.constant("ContextPolicy", "CONTEXT_TRIM", BANTER_CONTEXT_TRIM);
  npc.constant("ContextPolicy", "CONTEXT_SUMMARIZE", BANTER_CONTEXT_SUMMARIZE);
  npc.constant("ContextPolicy", "CONTEXT_SLIDE", BANTER_CONTEXT_SLIDE);
  npc.constant("ContextPolicy", "CONTEXT_STOP", BANTER_CONTEXT_STOP);
  npc.constant("Thinking", "THINKING_AUTO", BANTER_THINKING_AUTO);
  npc.constant("Thinking", "THINKING_OFF", BANTER_THINKING_OFF);
  npc.constant("Thinking", "THINKING_ON", BANTER_THINKING_ON);

  npc.property("persona", &N::persona, &N::set_persona, {.hint = kHintMultiline});
  npc.property("profile", &N::profile, &N::set_profile,
               {.hint = kHintResource, .text = "BanterProfile", .class_name = "BanterProfile"});
  npc.property("engine", &N::engine, &N::set_engine,
               {.hint = kHintNodeType, .text = "BanterEngine", .class_name = "BanterEngine"});
  npc.property("priority", &N::priority, &N::set_priority, {.hint = kHintRange, .text = "0,7,1"});
  npc.property("max_tokens", &N::max_tokens, &N::set_max_tokens, {.hint = kHintRange, .text = "0,4096,1,or_greater"});
  npc.property("stop_strings", &N::stop_strings, &N::set_stop_strings);
  npc.property("deadline_ms", &N::deadline_ms, &N::set_deadline_ms,
               {.hint = kHintRange, .text = "0,60000,1,or_greater,suffix:ms"});
  npc.group("Context");
  npc.property("context_policy", &N::context_policy, &N::set_context_policy,
               {.hint = kHintEnum, .text = "Trim,Summarize,Slide,Stop", .class_name = "BanterNPC.ContextPolicy"});
  npc.property("context_tokens", &N::context_tokens, &N::set_context_tokens,
               {.hint = kHintRange, .text = "0,32768,1,or_greater"});
  npc.property("reply_reserve_tokens", &N::reply_reserve_tokens, &N::set_reply_reserve_tokens,
               {.hint = kHintRange, .text = "0,4096,1,or_greater"});
  npc.group("Sampling");
  npc.property("seed", &N::seed, &N::set_seed);
  npc.property("temperature", &N::temperature, &N::set_temperature,
               {.hint = kHintRange, .text = "0,2,0.01,or_greater"});
  npc.property("top_k", &N::top_k, &N::set_top_k, {.hint = kHintRange, .text = "0,200,1,or_greater"});
  npc.property("top_p", &N::top_p, &N::set_top_p, {.hint = kHintRange, .text = "0.01,1,0.01"});
  npc.property("min_p", &N::min_p, &N::set_min_p, {.hint = kHintRange, .text = "0,0.99,0.01"});
  npc.property("repetition_penalty", &N::repetition_penalty, &N::set_repetition_penalty,
               {.hint = kHintRange, .text = "0.5,2,0.01,or_greater"});
  npc.group("Thinking");
  npc.property("thinking", &N::thinking, &N::set_thinking,
               {.hint = kHintEnum, .text = "Auto,Off,On", .class_name = "BanterNPC.Thinking"});
  npc.property("thinking_budget_tokens", &N::thinking_budget_tokens, &N::set_thinking_budget_tokens,
               {.hint = kHintRange, .text = "0,4096,1,or_greater"});
  npc.property("history", &N::history, &N::set_history, {.usage = kUsageNone});

  npc.method("say", &N::say, {"text"});
  npc.method("ask", &N::ask, {"text"});
  npc.method("add_turn", &N::add_turn, {"role", "text"}, {}, "Error");
  npc.method("interrupt", &N::interrupt);
  npc.method("cancel", &N::cancel, {"request_id"}, {}, "Error");
  npc.method("reset", &N::reset);
  npc.method("is_talking", &N::is_talking);
  npc.method("save_state", &N::save_state, {"with_cache"}, {Variant(false)});
  npc.method("get_setup_problems", &N::setup_problems);
  npc.method("_profile_changed", &N::profile_changed);
  npc.method("load_state", &N::load_state, {"state"});

  npc.signal("text_received", {{"text", GDEXTENSION_VARIANT_TYPE_STRING}});
  npc.signal("sentence_received", {{"text", GDEXTENSION_VARIANT_TYPE_STRING}});
  npc.signal("thought_received", {{"text", GDEXTENSION_VARIANT_TYPE_STRING}});
  npc.signal("reply_finished",
             {{"text", GDEXTENSION_VARIANT_TYPE_STRING}, {"stats", GDEXTENSION_VARIANT_TYPE_DICTIONARY}});
  npc.signal("failed", {{"code", GDEXTENSION_VARIANT_TYPE_INT}, {"message", GDEXTENSION_VARIANT_TYPE_STRING}});
  npc.signal("context_trimmed", {{"turns", GDEXTENSION_VARIANT_TYPE_INT}, {"tokens", GDEXTENSION_VARIANT_TYPE_INT}});
}

}  // namespace banter::godot
