// What the host's handles point to.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dialogue/conversation.h"
#include "engine/channels.h"
#include "engine/loaded_model.h"
#include "engine/submission.h"

namespace banter::engine {

class Engine;
class ModelRunner;
struct Generation;

/** First member of every object behind a handle, so that a handle of another kind is noticed. */
enum class ObjectMagic : uint32_t { kEngine = 0xBA27E26E, kModel = 0xBA270DE1, kNpc = 0xBA27017C, kDead = 0xDEADBA27 };

/** What banter_model_info tells, with the strings it points to. Constant once published. */
struct ModelFacts {
  std::string name, architecture, backend, backend_reason, warning;
  banter_model_info info{};
};

/** Of a model whose card failed: it is loaded again, for the processor. Engine thread. */
struct Fallback {
  std::string reason;              // for banter_model_info::backend_reason
  model::Fingerprint fingerprint;  // of both loads
  // Of the first load, for what refers to them still: replies that began with it, and threads that tokenise.
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<const dialogue::ChatFormat> format;
  std::vector<Generation*> stranded;  // began before and wait for the second load, without caches
};

/** A model's handle. References: the host's handle, its characters, its requests' slots. The engine thread frees it. */
struct ModelObject {
  ObjectMagic magic = ObjectMagic::kModel;
  Engine* engine = nullptr;
  std::atomic<uint32_t> references{1};
  Notice created, released, unused;

  // Written before the load is posted.
  LoadSource source;
  LoadSettings settings;
  ModelObject* draft = nullptr;  // one of its references is ours
  void* user_data = nullptr;
  uint32_t load_slot = FreeList::kNone;

  enum Status : uint32_t { kLoading, kReady, kFailed };
  std::atomic<uint32_t> status{kLoading};
  // Written before status becomes kReady.
  std::atomic<const ModelFacts*> facts{nullptr};  // others follow when the backend changes
  const text::Tokenizer* tokenizer = nullptr;     // the first load's, constant

  // Engine thread:
  std::unique_ptr<ModelRunner> runner;  // while the model is ready
  bool is_released = false;
  Error failure;                                             // why kFailed
  std::vector<std::unique_ptr<const ModelFacts>> all_facts;  // callers may hold strings of earlier ones
  std::unique_ptr<Fallback> fallback;                        // from its card's failure on
  ModelObject* previous_tracked = nullptr;
  ModelObject* next_tracked = nullptr;
};

/** A character's engine-thread part. */
struct NpcState {
  NpcState(std::string persona, std::vector<dialogue::Turn> examples, dialogue::ContextPolicy policy)
      : conversation(std::move(persona), std::move(examples), policy) {}

  struct Item {
    Generation* generation = nullptr;  // else a turn
    uint32_t turn = FreeList::kNone;
    std::string text;
  };
  dialogue::Conversation conversation;
  std::vector<Item> queue;        // in the order of the calls; short
  Generation* running = nullptr;  // at most one
  Generation* summary = nullptr;  // being written; the next request waits for it
  bool advancing = false;         // its next request is being started
  std::optional<kv::SequenceCache> cache;
  std::vector<text::TokenId> cached;  // tokens in `cache`
  uint64_t last_used = 0;             // step
  NpcObject* previous = nullptr;      // in the runner's list of characters with a state
  NpcObject* next = nullptr;
};

/** A character's handle. References: the host's handle and its requests' slots. The engine thread frees it. */
struct NpcObject {
  ObjectMagic magic = ObjectMagic::kNpc;
  Engine* engine = nullptr;
  ModelObject* model = nullptr;
  void* user_data = nullptr;
  std::atomic<uint32_t> references{1};
  Notice created, destroyed, unused;

  std::string persona;
  std::vector<dialogue::Turn> examples;   // of its profile
  std::vector<std::string> stop_strings;  // beside each request's own
  int32_t priority = kDefaultPriority;    // of requests that give none
  uint32_t context_tokens = 0;
  uint32_t reply_reserve_tokens = 0;
  dialogue::ContextPolicy policy = dialogue::ContextPolicy::kTrim;
  bool has_sampling = false;
  SamplingSettings sampling;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> dry_breakers;

  // Engine thread:
  std::unique_ptr<NpcState> state;  // from its first request or turn
  bool is_destroyed = false;
  NpcObject* previous_tracked = nullptr;
  NpcObject* next_tracked = nullptr;
};

/** The library's sampling defaults. */
SamplingSettings default_sampling();

}  // namespace banter::engine
