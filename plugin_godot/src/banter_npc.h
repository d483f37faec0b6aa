// The node BanterNPC: one character, its conversation, and what it is asked.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine_host.h"
#include "saved_state.h"
#include "sentence_splitter.h"

namespace banter::godot {

class BanterEngine;
class BanterProfile;

/** How a character speaks; each field is a property of the node. */
struct Speech {
  double temperature = 0.7, top_p = 0.95, min_p = 0.05, repetition_penalty = 1.0;
  int64_t top_k = 40, seed = 0, max_tokens = 256, priority = 4;
  int64_t thinking = BANTER_THINKING_AUTO, thinking_budget_tokens = 0, deadline_ms = 0;
  std::vector<std::string> stop_strings;
};

/** Main thread only, as nodes are. Methods and properties are documented in doc_classes/BanterNPC.xml. */
class BanterNPC final : public Instance {
 public:
  explicit BanterNPC(Object object) : Instance(object) {}
  ~BanterNPC() override;
  static void register_class(Registry& registry);

  void notification(int32_t what) override;
  std::vector<std::string> configuration_warnings() const override;
  PackedStringArray setup_problems() const { return PackedStringArray(configuration_warnings()); }
  uint32_t property_usage(std::string_view name, uint32_t usage) const override;

  int64_t say(const std::string& text);
  Signal ask(const std::string& text);
  int64_t add_turn(const std::string& role, const std::string& text);
  void interrupt();
  int64_t cancel(int64_t request_id);
  void reset();
  bool is_talking() const { return !waiting_.empty() || !running_.empty(); }
  Array history() const;
  void set_history(const Array& history);
  Signal save_state(bool with_cache);
  Signal load_state(const PackedByteArray& bytes);

  // For EngineHost.
  /** Takes an event of one of this character's requests; true when it was its last. */
  bool handle_event(const banter_event& event, Emissions& emissions);
  /** Hands over what waits, as far as the engine takes it. */
  void submit_waiting(Emissions& emissions);
  /** The engine goes: everything asked for ends. */
  void engine_closed();

 private:
  enum class Kind { kSay, kTurn, kSave, kLoad };
  /** Something that was asked for: it waits here until the engine takes it, then runs there. */
  struct Request {
    Kind kind = Kind::kSay;
    int64_t id = 0;
    Variant pending;                      // BanterPending of an awaited call
    std::string text;                     // kSay: what is said; kTurn: the turn
    banter_role role = BANTER_ROLE_USER;  // kTurn
    std::string reply;                    // kSay: so far
    SentenceSplitter sentences;
    std::vector<std::byte> snapshot;  // kLoad
    std::vector<Turn> turns;          // kLoad: the history that comes with it
    bool with_cache = false;          // kSave
    bool forgotten = false;           // the conversation was reset meanwhile
    // Set when it is cancelled: nothing more is heard of it before its end.
    Silence silence = std::make_shared<bool>(false);
  };

  int64_t enqueue(Request request);
  /** Makes what the front of waiting_ needs; on anything but BANTER_OK and BUSY `why` says what to do. */
  banter_result prepare(std::string& why);
  banter_result create_character();
  banter_result send_turns();
  banter_result submit(const Request& request, banter_request_id& out);
  banter_result submit_say(const Request& request, banter_request_id& out);
  void end_said(Request& request, const banter_event& event, Emissions& emissions);
  void end_saved(const Request& request, const banter_event& event, Emissions& emissions);
  void end_failed(const Request& request, int64_t error, const std::string& message, Emissions& emissions);
  static Variant cancelled_result(const Request& request);
  void end_cancelled(const Request& request, Emissions& emissions);
  void cancel_all(bool forget);
  void release_character();
  void leave_host();
  BanterEngine* engine_node() const;
  BanterProfile* own_profile() const;
  /** The profile, or something in it, is another one: the next reply is the new one's. */
  void profile_changed();

  // Properties.
  std::string persona_;
  Reference profile_;  // a BanterProfile
  ObjectId engine_id_ = 0;
  Speech speech_;
  int64_t context_policy_ = BANTER_CONTEXT_TRIM, context_tokens_ = 0, reply_reserve_tokens_ = 0;

  // The character in the engine.
  std::shared_ptr<EngineHost> host_;
  banter_npc* character_ = nullptr;
  uint64_t generation_ = 0;  // of the model that character_ was made with
  bool stale_ = false;       // what it was made with has changed
  size_t turns_sent_ = 0;    // of turns_, those that character_ knows
  std::vector<Turn> turns_;
  std::deque<Request> waiting_;
  std::vector<std::pair<banter_request_id, Request>> running_;  // in the order in which they end
  int64_t last_id_ = 0;
  std::vector<std::weak_ptr<bool>> silences_;  // of the requests that signals may still come of

 public:
  // Properties, one pair each.
  std::string persona() const { return persona_; }
  void set_persona(const std::string& value);
  Reference profile() const { return profile_; }
  void set_profile(const Reference& value);
  Object engine() const { return object_of(engine_id_); }
  void set_engine(Object value);
  int64_t context_policy() const { return context_policy_; }
  void set_context_policy(int64_t value);
  int64_t context_tokens() const { return context_tokens_; }
  void set_context_tokens(int64_t value);
  int64_t reply_reserve_tokens() const { return reply_reserve_tokens_; }
  void set_reply_reserve_tokens(int64_t value);
  double temperature() const { return speech_.temperature; }
  void set_temperature(double value);
  double top_p() const { return speech_.top_p; }
  void set_top_p(double value);
  double min_p() const { return speech_.min_p; }
  void set_min_p(double value);
  double repetition_penalty() const { return speech_.repetition_penalty; }
  void set_repetition_penalty(double value);
  int64_t top_k() const { return speech_.top_k; }
  void set_top_k(int64_t value);
  int64_t seed() const { return speech_.seed; }
  void set_seed(int64_t value) { speech_.seed = value; }
  int64_t max_tokens() const { return speech_.max_tokens; }
  void set_max_tokens(int64_t value);
  int64_t priority() const { return speech_.priority; }
  void set_priority(int64_t value);
  int64_t thinking() const { return speech_.thinking; }
  void set_thinking(int64_t value);
  int64_t thinking_budget_tokens() const { return speech_.thinking_budget_tokens; }
  void set_thinking_budget_tokens(int64_t value);
  int64_t deadline_ms() const { return speech_.deadline_ms; }
  void set_deadline_ms(int64_t value);
  PackedStringArray stop_strings() const { return PackedStringArray(speech_.stop_strings); }
  void set_stop_strings(const PackedStringArray& value) { speech_.stop_strings = value.texts(); }

 private:
  /** Sets what a character is made with. */
  template <class Value>
  void assign(Value& member, const Value& value) {
    if (member == value) return;
    member = value;
    stale_ = true;
    engine_call("update_configuration_warnings");
  }
};

}  // namespace banter::godot
