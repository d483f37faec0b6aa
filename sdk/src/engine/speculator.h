// Guesses the next tokens of a reply, for the model to check in one step instead of several.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/generation.h"
#include "engine/loaded_model.h"
#include "engine/pacer.h"
#include "kv/page_pool.h"
#include "model/batch.h"

namespace banter::engine {

/** The tokens that followed the latest earlier occurrence of the longest ending of `tokens` (at least two, at most eight
 *  tokens) that occurs earlier: prompt lookup (Saxena 2023). At most `most`; appended to `out`. */
void find_repetition(std::span<const text::TokenId> tokens, int32_t most, std::vector<text::TokenId>& out);

/** Guesses of another, smaller model of the same vocabulary. It keeps a KV cache of its own for every reply.
 *
 *  It chooses with the request's own sampler and the same random numbers as the model that checks: where the two models
 *  agree they then choose alike, sampled or greedy. Engine thread only. */
class DraftModel {
 public:
  struct Wanted {
    Generation* generation = nullptr;
    int32_t most = 0;
  };
  /** Null when the models' vocabularies differ; `why_not` then says where. Both models must outlive it.
   *  @param rest  called between layers where the draft's backend can; where it does not go on, no guess is begun any more */
  static std::unique_ptr<DraftModel> create(LoadedModel& draft, const LoadedModel& target, std::function<Rest()> rest,
                                            std::string& why_not);

  /** Fills in Generation::guesses, up to `most` for each; fewer, or none, while the reply's earlier tokens are not
   *  computed yet or pages are missing. Errors: of the backend, no (further) guesses then. */
  Result<void> guess(std::span<Wanted> wanted);
  /** Nanoseconds that one guess takes, measured; 0: none was made yet. */
  double guess_ns() const { return guess_ns_; }

 private:
  DraftModel(LoadedModel& draft, const LoadedModel& target, std::function<Rest()> rest);
  bool prepare(Wanted& wanted);
  bool add_chunk(kv::SequenceCache& cache, std::span<const text::TokenId> tokens, bool wants_logits);
  /** Adds the token that the draft's row leads to; false: none. */
  bool choose(Generation& generation, int32_t row);

  LoadedModel& draft_;
  const LoadedModel& target_;
  model::Batch batch_;
  std::vector<Wanted*> in_batch_;
  std::vector<text::TokenId> sequence_;
  const std::function<Rest()> rest_;
  uint64_t rested_ns_ = 0;
  bool given_up_ = false;
  double guess_ns_ = 0;
  uint64_t uses_ = 0;  // clock of the draft's prefix index
};

}  // namespace banter::engine
