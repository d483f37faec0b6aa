// One engine of Banter with its model, shared by a BanterEngine node and the BanterNPC nodes that talk through it.
#pragma once

#include <banter/banter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "pending.h"

namespace banter::godot {

class BanterNPC;

/** What an engine is created with. */
struct EngineSettings {
  banter_backend backend = BANTER_BACKEND_AUTO;
  int32_t thread_count = 0;
  uint64_t memory_budget_bytes = 0;
  uint64_t swap_budget_bytes = 0;
  bool operator==(const EngineSettings&) const = default;
};

/** What a model is loaded with. */
struct ModelSettings {
  std::string path;
  std::string draft_path;  // where speculation is that of a draft model
  std::string chat_template;
  uint32_t context_tokens = 0;
  uint64_t kv_budget_bytes = 0;
  banter_kv_type kv_type = BANTER_KV_AUTO;
  banter_speculation speculation = BANTER_SPECULATION_NONE;
};

/** Owns the engine. Main thread only. Lives as long as anyone holds it; closed when its node goes or makes another. */
class EngineHost {
 public:
  enum class ModelState { kNone, kLoading, kReady, kFailed };

  /** nullptr where the engine cannot be created: banter_last_error_message() says why. */
  static std::shared_ptr<EngineHost> create(ObjectId node, const EngineSettings& settings, banter_result& code);
  ~EngineHost() { close(); }

  const EngineSettings& settings() const { return settings_; }
  banter_engine* engine() const { return engine_; }  // nullptr once closed
  banter_model* model() const { return model_; }     // nullptr where none was asked for, or it failed
  /** Another number for each load: characters made with an earlier model have to be made again. */
  uint64_t generation() const { return generation_; }
  ModelState model_state() const { return state_; }
  float progress() const { return progress_; }

  /** Loads in the background; a model that is there, or on its way, gives place to it. */
  banter_result load(const ModelSettings& settings);
  void unload(Emissions& emissions);
  void cancel_load();
  /** Takes what the engine has to tell, and has waiting characters go on. */
  void poll(Emissions& emissions);
  /** Ends all requests and the engine. */
  void close();

  void attach(BanterNPC* npc) { npcs_.insert(npc); }
  void detach(BanterNPC* npc);
  void expect(banter_request_id request, BanterNPC* npc) { requests_[request] = npc; }

 private:
  banter_result load_file(const std::string& path, banter_model_config& config, banter_model** model,
                          banter_request_id* request);
  void release_model();
  void release_draft();
  void handle_load(const banter_event& event, Emissions& emissions);

  ObjectId node_ = 0;
  EngineSettings settings_;
  banter_engine* engine_ = nullptr;
  banter_model* model_ = nullptr;
  banter_model* draft_ = nullptr;
  banter_request_id load_ = 0, draft_load_ = 0;
  ModelState state_ = ModelState::kNone;
  uint64_t generation_ = 0;
  float progress_ = 0;
  std::unordered_set<BanterNPC*> npcs_;
  std::unordered_map<banter_request_id, BanterNPC*> requests_;
};

}  // namespace banter::godot
