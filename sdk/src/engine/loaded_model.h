// A model ready to talk: weights, KV pool and the written form of its conversations, and how it is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banter/types.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "dialogue/chat_format.h"
#include "engine/backend_loader.h"
#include "engine/draft_cache.h"
#include "formats/gguf.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "model/fingerprint.h"
#include "model/model.h"
#include "ops/backend.h"
#include "sampling/sampler.h"

namespace banter::engine {

/** Where a model comes from. */
struct LoadSource {
  std::string path;
  std::span<const std::byte> memory;  // instead of a path
  std::optional<banter_io> io;        // how `path` is read; none: the file system
  bool stays = true;                  // it can be read again as long as the engine lives
};

/** Opens the file, or the parts of a split one, and reads what stands before the tensors. Errors: as formats::Gguf::open(). */
Result<formats::Gguf> open_source(const LoadSource& source);

struct LoadSettings {
  banter_backend backend = BANTER_BACKEND_AUTO;
  CudaSettings cuda;
  Log log;
  ThreadPoolConfig threads;
  int32_t step_tokens = 256;
  int32_t max_sequences = 64;      // that want a token in one step
  int32_t context_tokens = 0;      // 0: the model's own, at most 8192
  uint64_t kv_budget_bytes = 0;    // 0: eight full conversations, at most 1 GiB
  uint64_t swap_budget_bytes = 0;  // host memory for KV pages that the pool has no room for
  uint64_t memory_left = 0;        // of the engine's budget; UINT64_MAX: no budget
  bool share_prefixes = true;
  banter_speculation speculation = BANTER_SPECULATION_NONE;
  std::string chat_template;           // instead of the model's
  std::optional<ops::KvType> kv_type;  // none: as model::LoadOptions chooses
};

/** Everything of one model. Its threads are its own, so that loading one model does not hold up another. Made by the
 *  loading thread, then used by the engine thread only (the tokenizer, immutable, by any). */
struct LoadedModel {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<dialogue::ChatFormat> format;
  std::unique_ptr<kv::PagePool> pool;
  std::unique_ptr<kv::PrefixIndex> prefixes;  // of the pool
  DraftCacheList draft_caches;                // other models' replies' in this pool
  std::shared_ptr<sampling::Workspace> workspace;
  std::vector<text::TokenId> unused_tokens;  // never sampled
  int32_t context_tokens = 0;                // longest conversation that model and pool hold
  int32_t chunk_tokens = 0;                  // rows of one step
  uint64_t kv_bytes = 0;
  uint32_t kv_bytes_per_token = 0;  // of the layers with full attention
  model::Fingerprint fingerprint;   // for snapshots
  bool is_cuda = false;
  std::string backend_reason;  // why it is this backend
  std::string warning;         // for the log and the model's facts, "" when all is well
  void warn(const std::string& sentence);
};

/** The longest conversation, at most `wanted` tokens, that the pool can hold. */
int32_t tokens_that_fit(const kv::PagePool& pool, int32_t wanted, int32_t chunk);

/** Loads; may take long. `progress` is called on this thread, see model::LoadProgress.
 *  Errors: those of Gguf::open, Model::load, PagePool::create and ChatFormat::create, BUDGET_EXCEEDED, and
 *  those of choose_backend(). With BANTER_BACKEND_AUTO a model that the card cannot take goes to the processor. */
Result<std::unique_ptr<LoadedModel>> load_model(const LoadSource& source, const LoadSettings& settings,
                                                const model::LoadProgress& progress);

}  // namespace banter::engine
