// The part of the model runner that decides what a step computes, and computes it.
#include <algorithm>

#include "engine/model_runner.h"
#include "engine/pacer.h"

namespace banter::engine {
namespace {

/** While replies stream, a step may take so long where the prompt is more important than all that streams. */
constexpr double kUrgentStepNs = 100e6;
/** Where even one row takes longer than allowed, a few more cost little, and the pacer makes up for it. */
constexpr int32_t kLeastRows = 4;
/** And where it is not known what rows take. */
constexpr int32_t kTrialRows = 8;
/** Tokens of one reply that are guessed in a step. */
constexpr int32_t kMostGuesses = 8, kTrialGuesses = 2;
/** Text of this size waiting for a poll pauses its generation. */
constexpr size_t kMostWaitingText = 4096;

}  // namespace

bool ModelRunner::step(const StepPace& pace) {
  ended_.clear();
  if (running_.empty() || lost_) return false;
  const uint64_t started = now_ns();
  pace_ = &pace;
  rested_ns_ = 0;
  given_up_ = false;
  last_step_ns_ = 0;
  collect_candidates(batch_.between_layers ? pace.resting_ns : pace.at_once_ns);
  if (object_.settings.speculation != BANTER_SPECULATION_NONE) guess();
  build_batch();
  while (batch_.chunks.empty() && plan_without_refused()) build_batch();
  if (batch_.chunks.empty()) return false;
  ++step_;
  const Result<int32_t> ran = loaded_->model->forward_best(*loaded_->pool, batch_);
  if (ran && given_up_) return true;
  channels_.figures.steps.fetch_add(1, std::memory_order_relaxed);
  if (ran) {
    after_step(started);
  } else if (!lose(ran.error())) {
    fail_batch(ran.error());
  }
  return true;
}

const Standing& ModelRunner::look(bool has_others) {
  standing_ = {};
  if (!has_others) return standing_;
  int32_t streaming = 0;
  for (const Generation* generation : running_) {
    if (!can_go_on(*generation)) continue;
    const int32_t priority = aged_priority(generation->priority, generation->waited_ns);
    standing_.priority = std::max(standing_.priority, priority);
    if (generation->reply_tokens.empty() || pending_of(*generation) > 1) {
      standing_.prompts = 1;
      continue;
    }
    ++streaming;
    standing_.streaming_priority = std::max(standing_.streaming_priority, priority);
  }
  if (streaming > 0 && cost_.is_known()) standing_.streaming_ns = streams_alone_ns(streaming);
  return standing_;
}

void ModelRunner::wait(uint64_t ns) {
  for (Generation* generation : running_) {
    if (can_go_on(*generation)) generation->waited_ns += ns;
  }
}

bool ModelRunner::rest() {
  const Rest rest = pace_->rest();
  rested_ns_ += rest.ns;
  given_up_ = !rest.goes_on;
  return rest.goes_on;
}

/** A reply that nobody fetches waits: its text must not pile up. */
bool ModelRunner::can_go_on(const Generation& generation) {
  return generation.out_text.size() < kMostWaitingText && generation.pending() > 0;
}

/** Tokens that are neither computed nor found in the cache, at least one where it can go on; else 0. */
int32_t ModelRunner::pending_of(const Generation& generation) const {
  if (!can_go_on(generation)) return 0;
  return static_cast<int32_t>(generation.tokens.size()) - allocator_.known_tokens(generation);
}

/** What a step of `streaming` rows that decode takes, by those there were, or else by what steps cost in general. */
double ModelRunner::streams_alone_ns(int32_t streaming) const {
  const double known = streaming_cost_.alone(streaming);
  return known > 0 ? known : cost_.of(streaming);
}

void ModelRunner::collect_candidates(uint64_t allowance_ns) {
  candidates_.clear();
  ranked_.clear();
  for (Generation* generation : running_) {
    Candidate candidate;
    candidate.priority = aged_priority(generation->priority, generation->waited_ns);
    candidate.deadline_ns = generation->reply_tokens.empty() ? generation->deadline_ns : UINT64_MAX;
    candidate.arrival = generation->arrival;
    candidate.served_step = generation->served_step;
    candidate.decoding = !generation->reply_tokens.empty();
    candidate.pending = pending_of(*generation);
    candidates_.push_back(candidate);
  }
  limits_ = limits_of(allowance_ns);
  plan_step(candidates_, limits_, scratch_);
  for (size_t i = 0; i < running_.size(); ++i) ranked_.push_back({&candidates_[i], running_[i]});
  std::sort(ranked_.begin(), ranked_.end(),
            [](const Ranked& a, const Ranked& b) { return a.candidate->before(*b.candidate); });
}

StepLimits ModelRunner::limits_of(uint64_t allowance_ns) {
  StepLimits limits;
  limits.rows = loaded_->chunk_tokens;
  limits.logit_rows = loaded_->model->max_logit_rows();
  limits.step = step_;
  int32_t streaming = 0, streaming_priority = 0, prefill_priority = 0;
  for (const Candidate& c : candidates_) {
    if (c.pending <= 0) continue;
    if (c.decoding && c.pending == 1) {
      ++streaming;
      streaming_priority = std::max(streaming_priority, c.priority);
    } else {
      prefill_priority = std::max(prefill_priority, c.priority);
    }
  }
  if (allowance_ns != Pacer::kNoLimit) {
    limits.rows = cost_.is_known() ? cost_.rows_within(static_cast<double>(allowance_ns), kLeastRows, limits.rows)
                                   : std::min(limits.rows, kTrialRows);
  }
  limits.prefill_rows = limits.rows;
  limit_prefill(streaming, prefill_priority > std::max(streaming_priority, pace_->others.streaming_priority), limits);
  return limits;
}

/** What prompts may make of the time between the tokens of replies that stream, of this model or of others: stream_slowdown times
 *  what a round of steps takes without them, or the least that a step takes; models that have prompts share what is added. And who
 *  matters less than other models' requests does not keep them waiting for long. */
void ModelRunner::limit_prefill(int32_t streaming, bool is_urgent, StepLimits& limits) {
  const Standing& others = pace_->others;
  const bool streams = streaming > 0;
  wanted_ns_ = 0;
  if (!cost_.is_known()) {
    if (others.priority >= 0) limits.rows = limits.prefill_rows = std::min(limits.rows, kTrialRows);
    return;
  }
  if (others.priority > standing_.priority) {
    limits.rows = limits.prefill_rows = cost_.rows_within(kUrgentStepNs, kLeastRows, limits.rows);
  }
  if (!streams && others.streaming_ns <= 0) return;
  const double alone = streams ? streams_alone_ns(streaming) : cost_.of(1);
  const double slowdown = channels_.config.stream_slowdown;
  const double own = streams ? alone : 0, added = (slowdown - 1) * (others.streaming_ns + own);
  const double wanted = std::max(own + added / (1 + others.prompts), slowdown * alone);
  if (is_urgent && wanted < kUrgentStepNs) {
    // By the cost of prompts, which is what such a step mostly does.
    limits.prefill_rows = cost_.rows_within(kUrgentStepNs, kLeastRows, limits.rows);
  } else if (streams) {
    wanted_ns_ = wanted;
    limits.prefill_rows = streaming_cost_.rows(limits.rows);
  } else {
    limits.prefill_rows = cost_.rows_within(wanted, kLeastRows, limits.rows);
  }
  if (streams) return;
  // Prefill rows are limited beside rows that decode; here all of them are. What far more rows than ever cost is a guess.
  limits.rows = limits.prefill_rows = std::min(limits.prefill_rows, 2 * widest_step_);
}

/** Those that were to be computed found no pages: plans for the others. False: there is nobody else. */
bool ModelRunner::plan_without_refused() {
  bool refused = false, others = false;
  for (Candidate& c : candidates_) {
    if (c.rows > 0) {
      c.pending = 0;
      refused = true;
    }
    others = others || c.pending > 0;
  }
  if (!refused || !others) return false;
  limits_.prefill_rows = limits_.rows;
  plan_step(candidates_, limits_, scratch_);
  return true;
}

void ModelRunner::build_batch() {
  batch_.chunks.clear();
  batch_generations_.clear();
  allocator_.begin_step();
  for (size_t i = 0; i < ranked_.size(); ++i) {
    Generation& generation = *ranked_[i].generation;
    const Candidate& candidate = *ranked_[i].candidate;
    if (candidate.pending <= 0 || (candidate.rows == 0 && !generation.admitted) ||
        !allocator_.admit(ranked_, i, step_) || candidate.rows == 0) {
      allocator_.count(generation);
      continue;
    }
    // A preemption since the plan was made may have emptied the cache: then the step's rows are its first.
    const int32_t rows = std::min(candidate.rows, generation.pending());
    if (waits_for_twin(generation)) {
      generation.admitted = false;  // it looks again for what is cached then
      continue;
    }
    const auto guesses = static_cast<int32_t>(generation.guesses.size());
    const bool may_guess =
        generation.pending() == 1;  // nothing happened since that made them guesses of something else
    if (guesses > 0 && (!may_guess || !generation.cache->reserve(rows + guesses))) forget_guesses(generation);
    if (!allocator_.reserve(ranked_, i, rows)) continue;
    model::Chunk chunk;
    chunk.cache = generation.cache;
    if (!generation.guesses.empty()) {
      generation.checked.assign(1, generation.tokens.back());
      generation.checked.insert(generation.checked.end(), generation.guesses.begin(), generation.guesses.end());
      chunk.tokens = generation.checked;
      chunk.logits = model::LogitRows::kAll;
    } else {
      chunk.tokens = std::span<const text::TokenId>(generation.tokens)
                         .subspan(static_cast<size_t>(generation.cache->length()), static_cast<size_t>(rows));
      chunk.logits = rows == generation.pending() ? model::LogitRows::kLast : model::LogitRows::kNone;
    }
    batch_.chunks.push_back(chunk);
    batch_generations_.push_back(&generation);
  }
}

bool ModelRunner::find_draft() {
  if (draft_ != nullptr) return true;
  if (draft_refused_ || object_.draft == nullptr || object_.draft->runner == nullptr) return false;
  std::string why_not;
  draft_ = DraftModel::create(
      *object_.draft->runner->loaded_, *loaded_,
      [this] {
        const Rest rest = pace_->rest();
        rested_ns_ += rest.ns;
        return rest;
      },
      why_not);
  if (draft_ != nullptr) return true;
  draft_refused_ = true;
  channels_.config.log.write(BANTER_LOG_WARNING, "No speculation: " + why_not + ".");
  return false;
}

/** Guesses that nobody checks go, and what the draft model computed for them. */
void ModelRunner::forget_guesses(Generation& generation) {
  if (generation.guesses.empty()) return;
  generation.guesses.clear();
  if (generation.draft_cache) generation.draft_cache->truncate(static_cast<int32_t>(generation.tokens.size()));
}

/** Guesses for those that decode in this step, within what the step has room for and what is worth its cost. */
void ModelRunner::guess() {
  int32_t rows = 0, logit_rows = 0, decoding = 0;
  for (const Candidate& c : candidates_) {
    rows += c.rows;
    if (c.rows == 0 || c.rows < c.pending) continue;
    ++logit_rows;
    if (c.decoding && c.pending == 1) ++decoding;
  }
  for (Generation* generation : running_) forget_guesses(*generation);
  const bool by_draft = object_.settings.speculation == BANTER_SPECULATION_DRAFT;
  if (decoding == 0 || (by_draft && !find_draft())) return;
  int32_t left = std::min(limits_.rows - rows, limits_.logit_rows - logit_rows);
  const double row_cost = cost_.slope() + (by_draft ? draft_->guess_ns() : 0);
  wanted_.clear();
  for (const Ranked& ranked : ranked_) {
    Generation& generation = *ranked.generation;
    const Candidate& c = *ranked.candidate;
    if (!c.decoding || c.pending != 1 || c.rows != 1) continue;
    int32_t most =
        std::min({kMostGuesses, left, generation.limit - static_cast<int32_t>(generation.tokens.size()) - 1});
    if (generation.max_tokens != 0) {
      most = std::min(most, static_cast<int32_t>(generation.max_tokens - generation.reply_tokens.size()) - 1);
    }
    // A few are tried where it is not known yet what rows cost.
    most = cost_.knows_slope() ? generation.acceptance.worthwhile(cost_.of(rows), decoding, row_cost, most)
                               : std::min(most, kTrialGuesses);
    // Trying tokens and taking them back must not push a full history's oldest ones out.
    const bool fits_history = generation.prompt_tokens + generation.reply_tokens.size() + 2 * kMostGuesses <
                              static_cast<size_t>(generation.limit);
    if (most <= 0 || (by_draft && !fits_history)) continue;
    if (by_draft) {
      wanted_.push_back({&generation, most});
      left -= most;
    } else {
      find_repetition(generation.tokens, most, generation.guesses);
      left -= static_cast<int32_t>(generation.guesses.size());
    }
  }
  if (wanted_.empty()) return;
  if (Result<void> guessed = draft_->guess(wanted_); !guessed) (void)object_.draft->runner->lose(guessed.error());
}

/** True when this step computes, for another, tokens that this one needs next: from the next step on it can share them. */
bool ModelRunner::waits_for_twin(const Generation& generation) const {
  const auto start = static_cast<size_t>(generation.cache->length());
  if (generation.pending() < kv::PrefixIndex::kUnit) return false;
  for (size_t i = 0; i < batch_.chunks.size(); ++i) {
    const Generation& other = *batch_generations_[i];
    const auto from = static_cast<size_t>(other.cache->length()), end = from + batch_.chunks[i].tokens.size();
    const size_t common = std::min(end, generation.tokens.size() - 1);
    // Worth a step's wait only where at least a unit of the index comes of it.
    if (from > start || common < start + kv::PrefixIndex::kUnit) continue;
    const size_t wanted = start + kv::PrefixIndex::kUnit;
    if (std::equal(other.tokens.begin(), other.tokens.begin() + static_cast<std::ptrdiff_t>(wanted),
                   generation.tokens.begin())) {
      return true;
    }
  }
  return false;
}

void ModelRunner::fail_batch(const Error& error) {
  for (Generation* generation : batch_generations_) {
    generation->cache->clear();
    end_with(*generation, BANTER_EVENT_FAILED, error.code, BANTER_FINISH_NONE, error.message);
    ended_.push_back(generation);
  }
}

void ModelRunner::after_step(uint64_t started_ns) {
  const uint64_t now = now_ns();
  uint64_t prefilled = 0, decoded = 0, rejected = 0;
  int32_t row = 0;
  for (size_t i = 0; i < batch_generations_.size(); ++i) {
    Generation& generation = *batch_generations_[i];
    const model::Chunk& chunk = batch_.chunks[i];
    generation.served_step = step_;
    if (generation.started_ns == 0) generation.started_ns = started_ns;
    note_rows(channels_, generation, static_cast<uint32_t>(chunk.tokens.size()), started_ns, now);
    const bool begins = generation.reply_tokens.empty() && chunk.logits != model::LogitRows::kNone;
    loaded_->prefixes->insert(generation.tokens, *generation.cache, step_, begins);
    const bool is_checking = chunk.logits == model::LogitRows::kAll;
    const bool decodes = !generation.reply_tokens.empty() && (chunk.tokens.size() == 1 || is_checking);
    (decodes ? decoded : prefilled) += chunk.tokens.size();
    if (chunk.logits == model::LogitRows::kNone) continue;
    if (is_checking) {
      const uint32_t accepted = generation.accepted_tokens;
      check_guesses(generation, chunk, row, now);
      row += static_cast<int32_t>(chunk.tokens.size());
      rejected += chunk.tokens.size() - 1 - (generation.accepted_tokens - accepted);
    } else {
      next_token(generation, row++, now);
    }
    if (generation.state == Generation::State::kFinished) ended_.push_back(&generation);
  }
  const auto ns = static_cast<double>(now - started_ns - rested_ns_);
  last_step_ns_ = ns;
  widest_step_ = std::max(widest_step_, static_cast<int32_t>(prefilled + decoded));
  cost_.add(static_cast<int32_t>(prefilled + decoded), ns);
  if (wanted_ns_ > 0 || prefilled == 0) {
    streaming_cost_.add(static_cast<int32_t>(decoded), static_cast<int32_t>(prefilled), ns, wanted_ns_);
  }
  loaded_->prefixes->set_recompute_cost(cost_.slope());
  for (const Ranked& ranked : ranked_) {
    const bool stood_still = ranked.candidate->pending > 0 && ranked.generation->served_step != step_;
    if (stood_still) ranked.generation->waited_ns += now - started_ns;
  }
  decoded -= rejected;  // figures tell of tokens, not of guesses
  channels_.figures.prefill_tokens.fetch_add(prefilled, std::memory_order_relaxed);
  channels_.figures.decode_tokens.fetch_add(decoded, std::memory_order_relaxed);
  note_step({started_ns, now_ns(), rested_ns_, static_cast<uint32_t>(prefilled), static_cast<uint32_t>(decoded),
             static_cast<uint32_t>(batch_generations_.size())});
}

void ModelRunner::note_step(const StepFigures& step) {
  channels_.metrics.step(step);
  for (Generation* generation : running_) note_preemptions(channels_, *generation);
  if (!channels_.tracer.on()) return;
  const Figures& figures = channels_.figures;
  const uint64_t active =
      figures.submitted.load(std::memory_order_relaxed) - figures.finished.load(std::memory_order_relaxed);
  const uint64_t running = channels_.metrics.requests_running();
  channels_.tracer.step(step, kv_pages(), active - std::min(active, running), running);
}

}  // namespace banter::engine
