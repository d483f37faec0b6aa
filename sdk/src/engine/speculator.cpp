#include "engine/speculator.h"

#include <algorithm>

#include "engine/host.h"

namespace banter::engine {

namespace {

constexpr int32_t kLeastMatch = 2, kMostMatch = 8;

}  // namespace

void find_repetition(std::span<const text::TokenId> tokens, int32_t most, std::vector<text::TokenId>& out) {
  const auto size = static_cast<int32_t>(tokens.size());
  int32_t best = kLeastMatch - 1, after = 0;
  for (int32_t end = size - 1; end >= kLeastMatch && best < kMostMatch; --end) {
    // tokens[..end) against tokens[..size), from the back.
    int32_t same = 0;
    const int32_t limit = std::min(end, kMostMatch);
    while (same < limit &&
           tokens[static_cast<size_t>(end - 1 - same)] == tokens[static_cast<size_t>(size - 1 - same)]) {
      ++same;
    }
    if (same <= best) continue;
    best = same;
    after = end;
  }
  if (best < kLeastMatch) return;
  const int32_t count = std::min(most, size - after);
  for (int32_t i = 0; i < count; ++i) out.push_back(tokens[static_cast<size_t>(after + i)]);
}

// ---------------------------------------------------------------- draft model

DraftModel::DraftModel(LoadedModel& draft, const LoadedModel& target, std::function<Rest()> rest)
    : draft_(draft), target_(target), rest_(std::move(rest)) {
  if (!draft_.backend->is_host_memory()) return;
  batch_.between_layers = [this] {
    const Rest rest = rest_();
    rested_ns_ += rest.ns;
    given_up_ = given_up_ || !rest.goes_on;
    return true;  // one step of a small model is soon over
  };
}

std::unique_ptr<DraftModel> DraftModel::create(LoadedModel& draft, const LoadedModel& target,
                                               std::function<Rest()> rest, std::string& why_not) {
  const text::Tokenizer& a = draft.model->tokenizer();
  const text::Tokenizer& b = target.model->tokenizer();
  const size_t count = std::min(a.size(), b.size());
  // Padding at the end of a vocabulary may differ.
  constexpr size_t kMostPadding = 256;
  if (std::max(a.size(), b.size()) - count > kMostPadding) {
    why_not = "the draft model's vocabulary has " + std::to_string(a.size()) + " tokens, the model's " +
              std::to_string(b.size());
    return nullptr;
  }
  for (size_t id = 0; id < count; ++id) {
    const auto token = static_cast<text::TokenId>(id);
    if (a.token_bytes(token, true) == b.token_bytes(token, true)) continue;
    why_not = "token " + std::to_string(id) + " means something else to the draft model";
    return nullptr;
  }
  if (draft.model->hyperparameters().vocabulary < target.model->hyperparameters().vocabulary) {
    why_not = "the draft model scores fewer tokens than the model";
    return nullptr;
  }
  return std::unique_ptr<DraftModel>(new DraftModel(draft, target, std::move(rest)));  // the constructor is private
}

/** Brings the draft's cache to what the reply has become. False: no guesses now. */
bool DraftModel::prepare(Wanted& wanted) {
  Generation& generation = *wanted.generation;
  const auto size = static_cast<int32_t>(generation.tokens.size());
  if (!generation.draft_cache) {
    generation.draft_cache.emplace(draft_.draft_caches, *draft_.pool,
                                   std::min(draft_.context_tokens, generation.limit + 64));
  }
  kv::SequenceCache& cache = generation.draft_cache->use();
  if (cache.length() == 0) draft_.prefixes->attach(generation.tokens, size - 1, cache, ++uses_);
  // What was guessed wrong last time goes: the newest token always, it is computed anew.
  cache.truncate(size - 1);
  wanted.most = std::min(wanted.most, cache.max_tokens() - size);
  return wanted.most > 0;
}

bool DraftModel::add_chunk(kv::SequenceCache& cache, std::span<const text::TokenId> tokens, bool wants_logits) {
  while (!cache.reserve(static_cast<int32_t>(tokens.size()))) {
    if (!draft_.prefixes->evict()) return false;
  }
  batch_.chunks.push_back({&cache, tokens, wants_logits ? model::LogitRows::kLast : model::LogitRows::kNone});
  return true;
}

Result<void> DraftModel::guess(std::span<Wanted> wanted) {
  int32_t rounds = 0;
  given_up_ = false;
  for (Wanted& w : wanted) {
    if (!prepare(w)) w.most = 0;
    rounds = std::max(rounds, w.most);
  }
  for (int32_t round = 0; round < rounds && !given_up_; ++round) {
    const uint64_t start = now_ns();
    rested_ns_ = 0;
    batch_.chunks.clear();
    in_batch_.clear();
    int32_t left = draft_.model->max_rows(), logits_left = draft_.model->max_logit_rows();
    for (Wanted& w : wanted) {
      Generation& generation = *w.generation;
      if (left == 0 || logits_left == 0) w.most = 0;  // no room: no (further) guesses in this step
      if (round >= w.most) continue;
      kv::SequenceCache& cache = generation.draft_cache->use();
      // In the first round everything that the cache lacks, then the guess before.
      std::span<const text::TokenId> missing =
          round == 0 ? std::span<const text::TokenId>(generation.tokens).subspan(static_cast<size_t>(cache.length()))
                     : std::span<const text::TokenId>(generation.guesses).last(1);
      const bool whole = missing.size() <= static_cast<size_t>(left);
      if (!whole) missing = missing.first(static_cast<size_t>(left));
      if (!add_chunk(cache, missing, whole)) {
        w.most = 0;
        continue;
      }
      left -= static_cast<int32_t>(missing.size());
      in_batch_.push_back(&w);
      if (whole) {
        --logits_left;
      } else {
        w.most = 0;  // its prompt goes on in the next step
      }
    }
    if (batch_.chunks.empty()) return {};
    if (auto ran = draft_.model->forward_best(*draft_.pool, batch_); !ran) return ran.error();
    int32_t row = 0;
    for (size_t i = 0; i < in_batch_.size(); ++i) {
      if (batch_.chunks[i].logits == model::LogitRows::kNone) continue;
      Generation& generation = *in_batch_[i]->generation;
      if (round == 0) draft_.prefixes->insert(generation.tokens, generation.draft_cache->use(), ++uses_, true);
      if (!choose(generation, row++)) in_batch_[i]->most = 0;
    }
    if (round > 0 && !in_batch_.empty()) {
      const double ns = static_cast<double>(now_ns() - start - rested_ns_) / static_cast<double>(in_batch_.size());
      guess_ns_ = guess_ns_ == 0 ? ns : guess_ns_ * 0.9 + ns * 0.1;
    }
  }
  return {};
}

bool DraftModel::choose(Generation& generation, int32_t row) {
  const size_t index = generation.reply_tokens.size() + generation.guesses.size();
  for (const text::TokenId guess : generation.guesses) generation.sampler->accept(guess);
  // The sampler leaves aside what the draft's vocabulary has beyond the target's.
  const text::TokenId token = generation.sampler->sample(draft_.model->logit_row(row), target_.unused_tokens,
                                                         sampling::draw_position(index, generation.reply->rollbacks()));
  generation.sampler->rollback(static_cast<int32_t>(generation.guesses.size()));
  if (token >= 0) generation.guesses.push_back(token);
  return token >= 0;
}

}  // namespace banter::engine
