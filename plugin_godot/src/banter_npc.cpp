#include "banter_npc.h"

#include <algorithm>
#include <utility>

#include "banter_engine.h"
#include "banter_profile.h"
#include "errors.h"

namespace banter::godot {
namespace {

/** Whether the project has the autoload that the plugin adds: in the editor it is in no tree. */
bool has_autoload() {
  return Variant(singleton("ProjectSettings")).call("has_setting", "autoload/Banter").to_bool();
}

/** Where files change beside a running game: not in exported ones, nor in the editor, which looks itself. */
bool follows_files() {
  return Variant(singleton("OS")).call("is_debug_build").to_bool() &&
         !Variant(singleton("Engine")).call("is_editor_hint").to_bool();
}

}  // namespace

BanterNPC::~BanterNPC() {
  // What is awaited ends, although the node that could tell so is half gone: none of its own methods can be called here.
  for (const auto& [id, request] : running_) BanterPending::complete_later(request.pending, cancelled_result(request));
  for (const Request& request : waiting_) BanterPending::complete_later(request.pending, cancelled_result(request));
  leave_host();
}

void BanterNPC::notification(int32_t what) {
  if (what != kEnterTree) return;
  engine_call("add_to_group", BanterEngine::kCharacters);
  stale_ = stale_ || engine_id_ == 0;  // another engine may be nearer now
  engine_call("update_configuration_warnings");
}

std::vector<std::string> BanterNPC::configuration_warnings() const {
  std::vector<std::string> found;
  if (engine_id_ == 0 && engine_node() == nullptr && !has_autoload()) {
    found.emplace_back(
        "There is no BanterEngine for this character: set the property \"engine\", put the node below a BanterEngine, "
        "or "
        "make one an autoload, as enabling the plugin does.");
  }
  const BanterProfile* const profile = own_profile();
  if (profile == nullptr) {
    if (persona_.empty())
      found.emplace_back("The character is nobody yet: write its \"persona\", or set a \"profile\".");
    if (context_tokens_ != 0 && reply_reserve_tokens_ >= context_tokens_) {
      found.emplace_back("\"reply_reserve_tokens\" leaves nothing of \"context_tokens\" for the conversation.");
    }
  } else {
    if (!persona_.empty())
      found.emplace_back("The profile's persona is used, and the node's own \"persona\" is not: clear one of them.");
    if (profile->is_silent_about_itself()) found.emplace_back("The profile has neither persona nor lore.");
    if (const std::string problem = profile->problem(); !problem.empty()) found.push_back(problem);
    const ProfileData& data = profile->data();
    if (data.context_tokens != 0 && data.reply_reserve_tokens >= data.context_tokens) {
      found.emplace_back(
          "The profile's reply_reserve_tokens leave nothing of its context_tokens for the conversation.");
    }
  }
  if (speech_.thinking == BANTER_THINKING_OFF && speech_.thinking_budget_tokens > 0) {
    found.emplace_back("\"thinking_budget_tokens\" has no meaning while \"thinking\" is Off.");
  }
  if (speech_.max_tokens > 0 && speech_.thinking_budget_tokens >= speech_.max_tokens) {
    found.emplace_back(
        "\"max_tokens\" counts thoughts, too: \"thinking_budget_tokens\" leaves nothing of it for speech.");
  }
  return found;
}

uint32_t BanterNPC::property_usage(std::string_view name, uint32_t usage) const {
  if (!profile_) return usage;
  for (const char* const replaced :
       {"priority", "stop_strings", "context_policy", "context_tokens", "reply_reserve_tokens", "seed", "temperature",
        "top_k", "top_p", "min_p", "repetition_penalty"}) {
    if (name == replaced) return usage | kUsageReadOnly;
  }
  return usage;
}

/* ------------------------------------------------------------------ what is asked for */

int64_t BanterNPC::enqueue(Request request) {
  if (BanterProfile* const profile = own_profile(); profile != nullptr && follows_files()) profile->refresh();
  const int64_t id = request.id = ++last_id_;
  std::erase_if(silences_, [](const auto& silence) { return silence.expired(); });
  silences_.push_back(request.silence);
  waiting_.push_back(std::move(request));
  // What cannot be is told when the caller has had the time to connect and to await.
  Emissions emissions;
  submit_waiting(emissions);
  emissions.run_later();
  return id;
}

int64_t BanterNPC::say(const std::string& text) {
  Request request;
  request.text = text;
  return enqueue(std::move(request));
}

Signal BanterNPC::ask(const std::string& text) {
  Request request;
  request.text = text;
  const Variant pending = request.pending = BanterPending::make();
  enqueue(std::move(request));
  return BanterPending::completed(pending);
}

Signal BanterNPC::save_state(bool with_cache) {
  Request request;
  request.kind = Kind::kSave;
  request.with_cache = with_cache;
  const Variant pending = request.pending = BanterPending::make();
  enqueue(std::move(request));
  return BanterPending::completed(pending);
}

Signal BanterNPC::load_state(const PackedByteArray& bytes) {
  Request request;
  request.kind = Kind::kLoad;
  const Variant pending = request.pending = BanterPending::make();
  SavedState state;
  const banter_result code = unpack_state(bytes.bytes(), state);
  if (code == BANTER_OK) {
    request.turns = std::move(state.turns);
    request.snapshot.assign(state.snapshot.begin(), state.snapshot.end());
    enqueue(std::move(request));
  } else {
    Emissions emissions;
    end_failed(request, error_of(code),
               code == BANTER_ERROR_VERSION ? "The state was saved by a newer version of the addon: update it."
                                            : "The state is damaged: its parts do not fit together.",
               emissions);
    emissions.run_later();
  }
  return BanterPending::completed(pending);
}

int64_t BanterNPC::add_turn(const std::string& role, const std::string& text) {
  Request request;
  request.kind = Kind::kTurn;
  request.text = text;
  if (!role_of(role, request.role)) return kErrInvalidParameter;
  if (is_talking()) {
    waiting_.push_back(std::move(request));
  } else {
    turns_.push_back({request.role, text});
  }
  return kOk;
}

void BanterNPC::interrupt() {
  cancel_all(false);
}

int64_t BanterNPC::cancel(int64_t request_id) {
  for (const auto& [id, request] : running_) {
    if (request.id != request_id) continue;
    *request.silence = true;
    return error_of(banter_cancel(host_->engine(), id));
  }
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Request& r) { return r.id == request_id; });
  if (request_id == 0 || found == waiting_.end()) return kErrDoesNotExist;
  Emissions emissions;
  end_cancelled(*found, emissions);
  waiting_.erase(found);
  emissions.run_later();
  return kOk;
}

void BanterNPC::cancel_all(bool forget) {
  // Of those, too, that have ended in this frame and whose words are on their way: this may be a handler of the first ones.
  for (const auto& entry : silences_) {
    if (const Silence silence = entry.lock()) *silence = true;
  }
  Emissions emissions;
  for (const Request& request : waiting_) end_cancelled(request, emissions);
  waiting_.clear();
  emissions.run_later();
  for (auto& [id, request] : running_) {
    request.forgotten = request.forgotten || forget;
    static_cast<void>(banter_cancel(host_->engine(), id));  // one that has just ended has its event on the way
  }
}

void BanterNPC::reset() {
  cancel_all(true);
  turns_.clear();
  stale_ = true;
}

Array BanterNPC::history() const {
  Array list;
  for (const Turn& turn : turns_) {
    Dictionary entry;
    entry.set("role", name_of(turn.role));
    entry.set("content", turn.text);
    list.append(entry);
  }
  return list;
}

void BanterNPC::set_history(const Array& history) {
  cancel_all(true);
  turns_.clear();
  stale_ = true;
  for (int64_t i = 0; i < history.size(); i++) {
    const Dictionary entry = history.at(i).to<Dictionary>();
    Turn turn;
    if (!role_of(entry.get("role").to_text(), turn.role)) continue;
    turn.text = entry.get("content").to_text();
    turns_.push_back(std::move(turn));
  }
}

/* ------------------------------------------------------------------ towards the engine */

void BanterNPC::submit_waiting(Emissions& emissions) {
  while (!waiting_.empty()) {
    Request& request = waiting_.front();
    if (request.kind == Kind::kTurn) {
      if (!running_.empty()) return;  // the replies before it come first
      turns_.push_back({request.role, std::move(request.text)});
      waiting_.pop_front();
      continue;
    }
    std::string why;
    banter_request_id id = 0;
    banter_result code = prepare(why);
    if (code == BANTER_OK) code = submit(request, id);
    if (code == BANTER_ERROR_BUSY) return;  // next frame
    if (code == BANTER_OK) {
      host_->expect(id, this);
      running_.emplace_back(id, std::move(request));
    } else {
      end_failed(request, error_of(code), why.empty() ? banter_last_error_message() : why, emissions);
    }
    waiting_.pop_front();
  }
}

banter_result BanterNPC::prepare(std::string& why) {
  const bool fits = character_ != nullptr && !stale_ && host_ != nullptr && generation_ == host_->generation();
  if (!fits) {
    if (!running_.empty()) return BANTER_ERROR_BUSY;  // they end first: with the old persona, in the old model
    leave_host();
    BanterEngine* const node = engine_node();
    if (node == nullptr) {
      why =
          "There is no BanterEngine for this character: set its property engine, put it below one, or make one an "
          "autoload.";
      return BANTER_ERROR_STATE;
    }
    if (node->host() == nullptr || node->host()->model() == nullptr) {
      why = "The BanterEngine has no model: call its load_model(), and look at its signal failed.";
      return BANTER_ERROR_STATE;
    }
    host_ = node->host();
    host_->attach(this);
    if (const banter_result code = create_character(); code != BANTER_OK) return code;
  }
  return send_turns();
}

banter_result BanterNPC::create_character() {
  generation_ = host_->generation();
  stale_ = false;
  turns_sent_ = 0;
  if (const BanterProfile* const profile = own_profile()) {
    const std::vector<std::byte> bytes = write_profile_binary(profile->data());
    return banter_npc_create_from_profile(host_->model(), bytes.data(), bytes.size(), nullptr, &character_);
  }
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  config.persona = persona_.data();
  config.persona_len = persona_.size();
  config.context_tokens = static_cast<uint32_t>(context_tokens_);
  config.reply_reserve_tokens = static_cast<uint32_t>(reply_reserve_tokens_);
  config.context_policy = static_cast<banter_context_policy>(context_policy_);
  if (persona_.empty()) config.persona = nullptr;
  return banter_npc_create(host_->model(), &config, &character_);
}

banter_result BanterNPC::send_turns() {
  for (; turns_sent_ < turns_.size(); turns_sent_++) {
    const Turn& turn = turns_[turns_sent_];
    const banter_result code = banter_npc_add_turn(character_, turn.role, turn.text.data(), turn.text.size());
    if (code != BANTER_OK) return code;
  }
  return BANTER_OK;
}

banter_result BanterNPC::submit(const Request& request, banter_request_id& out) {
  if (request.kind == Kind::kSay) return submit_say(request, out);
  if (request.kind == Kind::kSave) {
    banter_save_config config;
    banter_save_config_init(&config, sizeof config);
    if (request.with_cache) config.flags |= BANTER_SAVE_KV_PAGES;
    return banter_npc_save(character_, &config, &out);
  }
  banter_load_config config;
  banter_load_config_init(&config, sizeof config);
  config.flags |= BANTER_LOAD_KEEP_PERSONA;  // the node's property says who it is
  return banter_npc_load(character_, request.snapshot.data(), request.snapshot.size(), &config, &out);
}

banter_result BanterNPC::submit_say(const Request& request, banter_request_id& out) {
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  config.flags |= BANTER_REQUEST_REPORT_THOUGHT;
  config.max_tokens = static_cast<uint32_t>(speech_.max_tokens);
  config.deadline_ms = static_cast<uint32_t>(speech_.deadline_ms);
  config.thinking = static_cast<banter_thinking>(speech_.thinking);
  config.thinking_budget_tokens = static_cast<uint32_t>(speech_.thinking_budget_tokens);
  banter_sampling_config sampling;
  std::vector<const char*> stops;
  if (own_profile() == nullptr) {  // else the character was made with its profile's
    banter_sampling_config_init(&sampling, sizeof sampling);
    sampling.seed = static_cast<uint64_t>(speech_.seed);
    sampling.temperature = static_cast<float>(speech_.temperature);
    sampling.top_k = static_cast<int32_t>(speech_.top_k);
    sampling.top_p = static_cast<float>(speech_.top_p);
    sampling.min_p = static_cast<float>(speech_.min_p);
    sampling.repetition_penalty = static_cast<float>(speech_.repetition_penalty);
    for (const std::string& stop : speech_.stop_strings) stops.push_back(stop.c_str());
    config.sampling = &sampling;
    config.priority = static_cast<int32_t>(speech_.priority);
    config.stop_strings = stops.data();
    config.stop_string_count = static_cast<uint32_t>(stops.size());
  }
  return banter_npc_say(character_, request.text.data(), request.text.size(), &config, &out);
}

void BanterNPC::engine_closed() {
  Emissions emissions;
  constexpr const char* kWhy = "The BanterEngine was freed, or made anew with other settings.";
  for (auto& [id, request] : running_) end_failed(request, kErrUnavailable, kWhy, emissions);
  for (const Request& request : waiting_) end_failed(request, kErrUnavailable, kWhy, emissions);
  running_.clear();
  waiting_.clear();
  emissions.run_later();
  character_ = nullptr;  // ends with its engine
  host_.reset();
}

void BanterNPC::release_character() {
  if (host_ != nullptr && host_->engine() != nullptr) banter_npc_destroy(character_);
  character_ = nullptr;
}

void BanterNPC::leave_host() {
  release_character();
  if (host_ != nullptr) host_->detach(this);
  host_.reset();
}

BanterEngine* BanterNPC::engine_node() const {
  if (engine_id_ != 0) return instance_of<BanterEngine>(engine_id_);
  for (Object at = object(); at; at = Variant(at).call("get_parent").to_object()) {
    if (BanterEngine* const engine = instance_of<BanterEngine>(at)) return engine;
  }
  if (!engine_call("is_inside_tree").to_bool()) return nullptr;
  const Variant first = engine_call("get_tree").call("get_first_node_in_group", BanterEngine::kGroup);
  return instance_of<BanterEngine>(first.to_object());
}

BanterProfile* BanterNPC::own_profile() const {
  return instance_of<BanterProfile>(profile_);
}

}  // namespace banter::godot
