#include "engine_host.h"

#include <utility>
#include <vector>

#include "banter_npc.h"
#include "errors.h"
#include "file_access_io.h"

namespace banter::godot {

std::shared_ptr<EngineHost> EngineHost::create(ObjectId node, const EngineSettings& settings, banter_result& code) {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.backend = settings.backend;
  config.thread_count = settings.thread_count;
  config.memory_budget_bytes = settings.memory_budget_bytes;
  config.swap_budget_bytes = settings.swap_budget_bytes;
  auto host = std::make_shared<EngineHost>();
  host->node_ = node;
  host->settings_ = settings;
  code = banter_engine_create(BANTER_API_VERSION, &config, &host->engine_);
  return code == BANTER_OK ? host : nullptr;
}

banter_result EngineHost::load_file(const std::string& path, banter_model_config& config, banter_model** model,
                                    banter_request_id* request) {
  config.path = path.data();
  config.path_len = path.size();
  const banter_io io = file_access_io();
  if (path.find("://") != std::string::npos) config.io = &io;
  return banter_model_load(engine_, &config, model, request);
}

banter_result EngineHost::load(const ModelSettings& settings) {
  release_model();
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  banter_result code = BANTER_OK;
  if (!settings.draft_path.empty()) {
    banter_model_config draft = config;
    draft.context_tokens = settings.context_tokens;
    code = load_file(settings.draft_path, draft, &draft_, &draft_load_);
    config.draft_model = draft_;
  }
  if (!settings.chat_template.empty()) {
    config.chat_template = settings.chat_template.data();
    config.chat_template_len = settings.chat_template.size();
  }
  config.context_tokens = settings.context_tokens;
  config.kv_budget_bytes = settings.kv_budget_bytes;
  config.kv_type = settings.kv_type;
  config.speculation = settings.speculation;
  if (code == BANTER_OK) code = load_file(settings.path, config, &model_, &load_);
  if (code != BANTER_OK) release_draft();
  generation_++;
  progress_ = 0;
  state_ = code == BANTER_OK ? ModelState::kLoading : ModelState::kFailed;
  return code;
}

void EngineHost::unload(Emissions& emissions) {
  if (state_ == ModelState::kLoading) emissions.add(node_, "load_finished", kErrSkip);
  release_model();
}

void EngineHost::release_model() {
  banter_model_release(std::exchange(model_, nullptr));
  release_draft();
  load_ = 0;
  generation_++;
  state_ = ModelState::kNone;
  progress_ = 0;
}

void EngineHost::release_draft() {
  banter_model_release(std::exchange(draft_, nullptr));
  draft_load_ = 0;
}

void EngineHost::cancel_load() {
  if (engine_ != nullptr && load_ != 0) banter_cancel(engine_, load_);
}

void EngineHost::poll(Emissions& emissions) {
  if (engine_ == nullptr) return;
  constexpr uint32_t kCapacity = 64;
  banter_event events[kCapacity];
  for (uint32_t count = kCapacity; count == kCapacity;) {
    if (banter_poll(engine_, events, sizeof events[0], kCapacity, &count) != BANTER_OK) break;
    for (uint32_t i = 0; i < count; i++) {
      const banter_event& event = events[i];
      if (event.npc == nullptr) {
        handle_load(event, emissions);
        continue;
      }
      const auto found = requests_.find(event.request);
      if (found == requests_.end()) continue;  // its character is gone
      BanterNPC* const npc = found->second;
      if (npc->handle_event(event, emissions)) requests_.erase(event.request);
    }
  }
  // Nothing here runs code of the game, so all of them live on; but one that is made again leaves and comes back, or goes to
  // another engine.
  const std::vector<BanterNPC*> npcs(npcs_.begin(), npcs_.end());
  for (BanterNPC* const npc : npcs) npc->submit_waiting(emissions);
}

void EngineHost::handle_load(const banter_event& event, Emissions& emissions) {
  if (draft_load_ != 0 && event.request == draft_load_ && event.kind == BANTER_EVENT_FAILED) {
    emissions.add(node_, "failed", error_of(event.code), std::string("The draft model: ") + event.text);
  }
  if (event.request != load_ || load_ == 0) return;  // of the draft, or of a load that another one replaced
  switch (event.kind) {
    case BANTER_EVENT_LOAD_PROGRESS:
      progress_ = event.progress;
      emissions.add(node_, "load_progress", event.progress);
      return;
    case BANTER_EVENT_MODEL_READY:
      state_ = ModelState::kReady;
      // A small model may be there before its progress was worth an event.
      if (progress_ < 1) emissions.add(node_, "load_progress", 1.0);
      progress_ = 1;
      emissions.add(node_, "model_ready");
      emissions.add(node_, "load_finished", kOk);
      break;
    case BANTER_EVENT_CANCELLED:
    case BANTER_EVENT_FAILED: {
      // What the game itself has ended, by cancel_load() or unload(), is no failure.
      const bool failed = event.kind == BANTER_EVENT_FAILED;
      const int64_t error = failed ? error_of(event.code) : kErrSkip;
      state_ = ModelState::kFailed;
      banter_model_release(std::exchange(model_, nullptr));
      release_draft();  // it serves nobody
      if (failed) emissions.add(node_, "failed", error, event.text);
      emissions.add(node_, "load_finished", error);
      break;
    }
    default:
      return;
  }
  load_ = 0;
}

void EngineHost::close() {
  if (engine_ == nullptr) return;
  const std::vector<BanterNPC*> npcs(npcs_.begin(), npcs_.end());
  for (BanterNPC* const npc : npcs) npc->engine_closed();
  npcs_.clear();
  requests_.clear();
  model_ = draft_ = nullptr;
  state_ = ModelState::kNone;
  generation_++;
  banter_engine_destroy(std::exchange(engine_, nullptr));
}

void EngineHost::detach(BanterNPC* npc) {
  npcs_.erase(npc);
  std::erase_if(requests_, [npc](const auto& entry) { return entry.second == npc; });
}

}  // namespace banter::godot
