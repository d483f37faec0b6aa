// A language model: hyper-parameters, tokenizer, weights on a backend, and the forward pass as a sequence of ops.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "kv/page_pool.h"
#include "model/batch.h"
#include "model/hyperparameters.h"
#include "model/load_progress.h"
#include "ops/backend.h"
#include "sampling/sampler.h"
#include "text/tokenizer.h"

namespace banter::model {

struct LoadOptions {
  int32_t context_length = 0;   // most tokens of one sequence; 0 = the model's own, at most kDefaultContextLimit
  int32_t max_rows = 512;       // rows of one batch, [1, 65536]
  int32_t max_logit_rows = 64;  // rows of one batch that want logits, [1, max_rows]
  /** How keys and values are kept; none: F32 where the weights are, else the backend's own. */
  std::optional<ops::KvType> kv_type = std::nullopt;
};

/** What one token's forward pass multiplies with, and the bytes that occupies on the backend: decode streams all of it. */
struct TokenWork {
  uint64_t layer_elements = 0, layer_bytes = 0;
  uint64_t head_elements = 0, head_bytes = 0;  // only for rows that want logits
};

/** Weights, tokenizer and forward pass. Owned and called by the engine thread; getters are immutable after load. */
class Model {
 public:
  /** Loads everything from `file` onto `backend`, which must outlive the model; `file` may be closed afterwards.
   *  All metadata and shapes are checked, and the memory estimated, before anything large is allocated.
   *  Errors: UNSUPPORTED_ARCHITECTURE, UNSUPPORTED, UNSUPPORTED_TYPE, UNSUPPORTED_TOKENIZER, MISSING_TENSOR, CORRUPT (each
   *  naming what), OUT_OF_MEMORY, CANCELLED, INVALID_ARGUMENT (options). */
  static Result<std::unique_ptr<Model>> load(const formats::Gguf& file, ops::Backend& backend,
                                             const LoadOptions& options, const LoadProgress& progress);
  ~Model();

  const Hyperparameters& hyperparameters() const;
  const text::Tokenizer& tokenizer() const;
  /** For what needs it longer than the model. */
  std::shared_ptr<const text::Tokenizer> share_tokenizer() const;
  /** The model's Jinja chat template; empty when it has none. */
  const std::string& chat_template() const;
  const std::string& display_name() const;  // general.name, or the architecture
  int32_t context_length() const;
  int32_t max_rows() const;
  int32_t max_logit_rows() const;
  /** Bytes the weights occupy on the backend. */
  size_t weight_bytes() const;
  TokenWork token_work() const;
  /** How keys and values are kept: LoadOptions::kv_type, else the backend's default page format, or float32 where all
   *  weights are float32 and the backend can, because whoever runs such a file wants the exact answer. */
  ops::KvType kv_type() const;
  /** How this model's layers cache, for PagePool::create. */
  std::vector<kv::GroupSpec> kv_groups() const;
  ops::Backend& backend() const;

  /** Runs one step and advances each chunk's cache. Returns host logits [logit rows][vocabulary], in chunk order,
   *  valid until the next call. A sequence stands in at most one chunk. No allocation in the steady state.
   *  After an error, or when Batch::between_layers gave the step up, no cache has advanced.
   *  Errors: INVALID_ARGUMENT (too many rows, token out of range, cache not reserved), CONTEXT_FULL, BACKEND. */
  Result<std::span<float>> forward(const kv::PagePool& pool, const Batch& batch);
  /** The same for samplers: logits of a device stay there, but for the best. @returns the number of logit rows */
  Result<int32_t> forward_best(const kv::PagePool& pool, const Batch& batch);
  /** Row `row` of the last forward_best(), valid until the next call of either. */
  sampling::LogitRow logit_row(int32_t row);
  /** Why a row of it could not be brought from its device; null: none was asked for in vain. */
  const Error* logit_error() const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banter::model
