#include "engine/model_runner.h"

#include <algorithm>

#include "engine/pacer.h"
#include "engine/snapshots.h"

namespace banter::engine {
namespace {

/** While replies stream, a step may take this many times what their own rows take: prefill chunks are cut to fit. */
constexpr double kStreamingSlowdown = 1.8;
/** The same where the prompt is more important than all that streams. */
constexpr double kUrgentStepNs = 100e6;
constexpr int32_t kLeastPrefillRows = 4;
constexpr int32_t kLeastRows = 4;
/** Tokens of one reply that are guessed in a step. */
constexpr int32_t kMostGuesses = 8, kTrialGuesses = 2;
/** Text of this size waiting for a poll pauses its generation. */
constexpr size_t kMostWaitingText = 4096;
constexpr int32_t kDefaultReserve = 256;
constexpr int32_t kLeastContext = 64;  // tokens of a conversation that every pool holds
constexpr const char* kDeadlinePassed = "The deadline passed before the reply could begin.";
/** A generation that could go on and does not rises by one level of priority in this time. */
constexpr uint64_t kAgeingNs = 2'000'000'000;
constexpr int32_t kHighestPriority = 7;

int32_t aged_priority(const Generation& generation) {
  const uint64_t levels = std::min<uint64_t>(generation.waited_ns / kAgeingNs, kHighestPriority);
  return std::min(kHighestPriority, generation.priority + static_cast<int32_t>(levels));
}

}  // namespace

ModelRunner::ModelRunner(Channels& channels, const ModelObject& object, std::unique_ptr<LoadedModel> loaded)
    : channels_(channels),
      loaded_(std::move(loaded)),
      allocator_(*loaded_->pool, *loaded_->prefixes, loaded_->chunk_tokens),
      object_(object) {
  const auto sequences = static_cast<size_t>(loaded_->model->max_logit_rows()) * 2;
  running_.reserve(sequences);
  ended_.reserve(sequences);
  candidates_.reserve(sequences);
  scratch_.reserve(sequences);
  ranked_.reserve(sequences);
  batch_.chunks.reserve(sequences);
  batch_generations_.reserve(sequences);
  banned_.reserve(loaded_->unused_tokens.size() + 256);
}

uint64_t ModelRunner::kv_bytes_used() const {
  const kv::PagePool& pool = *loaded_->pool;
  const int32_t held = pool.total_pages() - pool.free_pages() - loaded_->prefixes->cached_pages();
  return static_cast<uint64_t>(held) * pool.page_stride();
}

KvPages ModelRunner::kv_pages() {
  return allocator_.pages(running_);
}

size_t ModelRunner::turn_bytes_limit() const {
  // Hardly a token stands for more than 64 bytes, so what is beyond can never be part of a prompt.
  return std::max<size_t>(size_t{1} << 16, static_cast<size_t>(loaded_->context_tokens) * 64);
}

// ---------------------------------------------------------------- beginning and ending

int32_t ModelRunner::context_of(const Generation& generation) const {
  const int32_t model_limit = loaded_->context_tokens;
  const uint32_t wanted = generation.npc != nullptr ? generation.npc->context_tokens : 0;
  return wanted == 0 ? model_limit
                     : static_cast<int32_t>(std::min<uint32_t>(wanted, static_cast<uint32_t>(model_limit)));
}

void ModelRunner::begin(Generation& generation) {
  if (is_snapshot(generation.kind)) {
    generation.npc->state->last_used = step_;
    return run_snapshot(*loaded_, generation, context_of(generation), turn_bytes_limit());
  }
  if (Result<void> ready = prepare(generation); !ready) {
    end_with(generation, BANTER_EVENT_FAILED, ready.error().code, BANTER_FINISH_NONE, ready.error().message);
    return;
  }
  generation.state = Generation::State::kRunning;
  running_.push_back(&generation);
}

Result<void> ModelRunner::prepare(Generation& generation) {
  if (now_ns() >= generation.deadline_ns) return Error{BANTER_ERROR_DEADLINE, kDeadlinePassed};
  generation.limit = context_of(generation);
  if (Result<void> made = make_prompt(generation); !made) return made;
  generation.prompt_tokens = generation.tokens.size();
  generation.tokens.reserve(static_cast<size_t>(generation.limit) + 1);
  if ((generation.flags & BANTER_REQUEST_REPORT_PROMPT) != 0) {
    // The slot owns the copy: it lives as long as the event, whatever becomes of the generation.
    channels_.slots[generation.slot].prompt_copy = generation.tokens;
    generation.prompt_waiting = true;
  }
  generation.trimmed_waiting = generation.prompt.dropped_turns > 0;
  generation.trimmed_turns = generation.prompt.dropped_turns;
  generation.trimmed_tokens = generation.prompt.dropped_tokens;

  const int32_t vocabulary = loaded_->model->hyperparameters().vocabulary;
  auto sampler = sampling::Sampler::create(generation.params, vocabulary, generation.limit + 1, loaded_->workspace);
  if (!sampler) return sampler.error();
  generation.sampler = std::move(*sampler);
  for (const text::TokenId id : generation.tokens) generation.sampler->accept(id);

  const bool chat = generation.kind == RequestKind::kSay || generation.kind == RequestKind::kSummary;
  set_thinking(generation);
  auto reply = dialogue::Reply::create(loaded_->model->tokenizer(), chat ? loaded_->format.get() : nullptr,
                                       generation.reply_options);
  if (!reply) return reply.error();
  generation.reply.emplace(std::move(*reply));
  // Room for the whole reply, so that a token costs no allocation.
  size_t most = static_cast<size_t>(generation.limit) - generation.prompt_tokens + 1;
  if (generation.max_tokens != 0) most = std::min<size_t>(most, generation.max_tokens);
  generation.reply_tokens.reserve(most);
  generation.reply->expect_tokens(most);
  generation.out_text.reserve(256);
  take_cache(generation);
  return {};
}

void ModelRunner::set_thinking(Generation& generation) {
  const dialogue::ChatFormat& format = *loaded_->format;
  dialogue::ReplyOptions& options = generation.reply_options;
  if (generation.kind == RequestKind::kSay || generation.kind == RequestKind::kSummary) {
    options.tags = &format.thinking_tags();
    options.starts_in_thought = format.opens_thought(generation.tokens);
  } else if (generation.thinking == dialogue::Thinking::kOn) {
    options.tags = &format.thinking_tags();
    options.starts_in_thought =
        dialogue::ends_in_open_thought(loaded_->model->tokenizer(), *options.tags, generation.tokens);
  }
}

Result<void> ModelRunner::make_prompt(Generation& generation) {
  const text::Tokenizer& tokenizer = loaded_->model->tokenizer();
  if (generation.kind == RequestKind::kSay) {
    dialogue::ContextLimits limits;
    limits.context_tokens = generation.limit;
    const uint32_t asked = generation.npc->reply_reserve_tokens;
    const auto reserve = asked == 0 ? kDefaultReserve : static_cast<int32_t>(std::min<uint32_t>(asked, 1u << 30));
    limits.reply_reserve = std::min(reserve, generation.limit / 2);
    if (generation.max_tokens != 0) {
      limits.reply_reserve =
          static_cast<int32_t>(std::min<uint32_t>(generation.max_tokens, static_cast<uint32_t>(limits.reply_reserve)));
    }
    limits.reply_reserve = std::max(limits.reply_reserve, 1);
    auto prompt =
        generation.npc->state->conversation.prompt_for(*loaded_->format, limits, generation.text, generation.thinking);
    if (!prompt) return prompt.error();
    generation.prompt = std::move(*prompt);
    generation.tokens = std::move(generation.prompt.tokens);
  } else if (generation.kind == RequestKind::kSummary) {
    const dialogue::Turn task[] = {{dialogue::Role::kUser, generation.text}};
    auto tokens = loaded_->format->encode({}, task, dialogue::Thinking::kOff);
    if (!tokens) return tokens.error();
    generation.tokens = std::move(*tokens);
  } else if (generation.kind == RequestKind::kComplete) {
    tokenizer.encode(generation.text, (generation.flags & BANTER_REQUEST_PARSE_SPECIAL) != 0, generation.tokens);
    const std::vector<text::TokenId> begin = dialogue::begin_tokens(tokenizer);
    const bool begun = !begin.empty() && generation.tokens.size() >= begin.size() &&
                       std::equal(begin.begin(), begin.end(), generation.tokens.begin());
    if (!begun) generation.tokens.insert(generation.tokens.begin(), begin.begin(), begin.end());
  } else {
    generation.tokens = std::move(generation.input_tokens);
  }
  if (generation.tokens.empty()) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT,
                 "The prompt has no tokens, and this model has no begin-of-text token to start from; give some text."};
  }
  const int32_t vocabulary = loaded_->model->hyperparameters().vocabulary;
  for (size_t i = 0; i < generation.tokens.size(); ++i) {
    if (generation.tokens[i] >= 0 && generation.tokens[i] < vocabulary) continue;
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "Token " + std::to_string(generation.tokens[i]) + " at index " +
                                                    std::to_string(i) + " is not in the model's vocabulary of " +
                                                    std::to_string(vocabulary) + "."};
  }
  if (generation.tokens.size() >= static_cast<size_t>(generation.limit)) {
    return Error{BANTER_ERROR_PROMPT_TOO_LONG,
                 "The prompt has " + std::to_string(generation.tokens.size()) + " tokens, but the context holds " +
                     std::to_string(generation.limit) + ", reply included; shorten it or raise context_tokens."};
  }
  return {};
}

/** Keeps what the character's own cache has of the prompt. The prefix index is asked later, when the generation's turn
 *  comes: until then others may have computed what it needs. */
void ModelRunner::take_cache(Generation& generation) {
  if (generation.npc == nullptr) {
    generation.own_cache.emplace(*loaded_->pool, generation.limit);
    generation.cache = &*generation.own_cache;
    return;
  }
  NpcState& state = *generation.npc->state;
  if (!state.cache) state.cache.emplace(*loaded_->pool, generation.limit);
  generation.cache = &*state.cache;
  const size_t most = std::min(generation.tokens.size() - 1, state.cached.size());
  size_t same = 0;
  while (same < most && state.cached[same] == generation.tokens[same]) ++same;
  generation.cache->truncate(static_cast<int32_t>(same));
  state.cached.clear();
}

void ModelRunner::retire(Generation& generation) {
  const auto at = std::find(running_.begin(), running_.end(), &generation);
  if (at != running_.end()) running_.erase(at);
  if (generation.cache == nullptr) return;
  // Pages first: what needs memory comes last, so that a failure leaves only the conversation behind.
  generation.cache->truncate(generation.cache->length());
  loaded_->prefixes->insert(generation.tokens, *generation.cache, step_, true);
  const auto computed = static_cast<size_t>(generation.cache->length());
  generation.cache = nullptr;
  generation.own_cache.reset();
  generation.draft_cache.reset();
  generation.sampler.reset();
  if (generation.npc == nullptr || generation.npc->state == nullptr) return;
  NpcState& state = *generation.npc->state;
  state.cached = std::move(generation.tokens);
  state.cached.resize(computed);
  state.last_used = step_;
  const bool spoke = generation.reply && !generation.reply->text().empty();
  const bool keep =
      generation.terminal == BANTER_EVENT_DONE || (generation.terminal == BANTER_EVENT_CANCELLED && spoke);
  if (keep) state.conversation.commit(generation.prompt, generation.text, generation.reply->text());
}

// ---------------------------------------------------------------- steps

uint64_t ModelRunner::next_deadline() const {
  uint64_t earliest = UINT64_MAX;
  for (const Generation* generation : running_) {
    if (generation->reply_tokens.empty()) earliest = std::min(earliest, generation->deadline_ns);
  }
  return earliest;
}

void ModelRunner::expire(uint64_t now) {
  ended_.clear();
  for (Generation* generation : running_) {
    if (now < generation->deadline_ns || !generation->reply_tokens.empty()) continue;
    end_with(*generation, BANTER_EVENT_FAILED, BANTER_ERROR_DEADLINE, BANTER_FINISH_NONE, kDeadlinePassed);
    ended_.push_back(generation);
  }
}

bool ModelRunner::step(uint64_t allowance_ns) {
  ended_.clear();
  if (running_.empty()) return false;
  const uint64_t started = now_ns();
  collect_candidates(allowance_ns);
  if (object_.settings.speculation != BANTER_SPECULATION_NONE) guess();
  build_batch();
  if (batch_.chunks.empty()) return false;
  ++step_;
  auto logits = loaded_->model->forward(*loaded_->pool, batch_);
  channels_.figures.steps.fetch_add(1, std::memory_order_relaxed);
  if (!logits) {
    fail_batch(logits.error());
  } else {
    after_step(*logits, started);
  }
  channels_.figures.busy_ns.fetch_add(now_ns() - started, std::memory_order_relaxed);
  return true;
}

void ModelRunner::collect_candidates(uint64_t allowance_ns) {
  candidates_.clear();
  ranked_.clear();
  for (Generation* generation : running_) {
    Candidate candidate;
    candidate.priority = aged_priority(*generation);
    candidate.deadline_ns = generation->reply_tokens.empty() ? generation->deadline_ns : UINT64_MAX;
    candidate.arrival = generation->arrival;
    candidate.served_step = generation->served_step;
    candidate.decoding = !generation->reply_tokens.empty();
    // A reply that nobody fetches waits: its text must not pile up.
    if (generation->out_text.size() < kMostWaitingText) {
      candidate.pending = static_cast<int32_t>(generation->tokens.size()) - allocator_.known_tokens(*generation);
    }
    candidates_.push_back(candidate);
  }
  limits_ = limits_of(allowance_ns);
  plan_step(candidates_, limits_, scratch_);
  for (size_t i = 0; i < running_.size(); ++i) ranked_.push_back({&candidates_[i], running_[i]});
  std::sort(ranked_.begin(), ranked_.end(),
            [](const Ranked& a, const Ranked& b) { return a.candidate->before(*b.candidate); });
}

StepLimits ModelRunner::limits_of(uint64_t allowance_ns) const {
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
  if (cost_.is_known() && allowance_ns != Pacer::kNoLimit) {
    // Where even one row takes longer than that, a few more cost little, and the pacer makes up for it.
    limits.rows = cost_.rows_within(static_cast<double>(allowance_ns), std::min(kLeastRows, limits.rows), limits.rows);
  }
  limits.prefill_rows = limits.rows;
  if (cost_.is_known() && streaming > 0) {
    double most = kStreamingSlowdown * cost_.of(streaming);
    if (prefill_priority > streaming_priority) most = std::max(most, kUrgentStepNs);
    const int32_t least = std::min(kLeastPrefillRows, limits.rows);
    limits.prefill_rows = std::clamp(cost_.rows_within(most, 1, limits.rows) - streaming, least, limits.rows);
  }
  return limits;
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
    if (waits_for_twin(generation)) continue;
    const auto guesses = static_cast<int32_t>(generation.guesses.size());
    if (guesses > 0 && !generation.cache->reserve(rows + guesses)) generation.guesses.clear();
    if (!allocator_.reserve(ranked_, i, rows)) continue;
    model::Chunk chunk;
    chunk.cache = generation.cache;
    if (!generation.guesses.empty()) {
      generation.checked.assign(1, generation.tokens.back());
      generation.checked.insert(generation.checked.end(), generation.guesses.begin(), generation.guesses.end());
      chunk.tokens = generation.checked;
      chunk.logits = model::LogitRows::kAll;
      batch_.chunks.push_back(chunk);
      batch_generations_.push_back(&generation);
      continue;
    }
    chunk.tokens = std::span<const text::TokenId>(generation.tokens)
                       .subspan(static_cast<size_t>(generation.cache->length()), static_cast<size_t>(rows));
    chunk.logits = rows == generation.pending() ? model::LogitRows::kLast : model::LogitRows::kNone;
    batch_.chunks.push_back(chunk);
    batch_generations_.push_back(&generation);
  }
}

bool ModelRunner::find_draft() {
  if (draft_ != nullptr) return true;
  if (draft_refused_ || object_.draft == nullptr || object_.draft->runner == nullptr) return false;
  std::string why_not;
  draft_ = DraftModel::create(*object_.draft->runner->loaded_, *loaded_, why_not);
  if (draft_ != nullptr) return true;
  draft_refused_ = true;
  channels_.config.log.write(BANTER_LOG_WARNING, "No speculation: " + why_not + ".");
  return false;
}

void ModelRunner::drop_draft_caches() {
  for (Generation* generation : running_) generation->draft_cache.reset();
}

Result<void> ModelRunner::resize_pool(uint64_t bytes) {
  ended_.clear();
  std::sort(running_.begin(), running_.end(), [](const Generation* a, const Generation* b) {
    const int32_t first = aged_priority(*a), second = aged_priority(*b);
    return first != second ? first > second : a->arrival < b->arrival;
  });
  const kv::PagePool& pool = *loaded_->pool;
  const auto least = static_cast<uint64_t>(pool.pages_for(kLeastContext, loaded_->chunk_tokens)) * pool.page_stride();
  Result<void> resized = allocator_.resize(static_cast<size_t>(std::max(bytes, least)), running_);
  loaded_->kv_bytes = static_cast<uint64_t>(pool.total_pages()) * pool.page_stride();
  loaded_->context_tokens = tokens_that_fit(pool, loaded_->model->context_length(), loaded_->chunk_tokens);
  for (Generation* generation : running_) {
    generation->limit = std::min(generation->limit, loaded_->context_tokens);
    if (generation->tokens.size() < static_cast<size_t>(generation->limit)) continue;
    if (generation->reply_tokens.empty()) {
      end_with(*generation, BANTER_EVENT_FAILED, BANTER_ERROR_KV_POOL_EXHAUSTED, BANTER_FINISH_NONE,
               "The KV pool was made smaller than this prompt; raise the budget or shorten the conversation.");
    } else {
      generation->reply->finish(generation->out_text);
      end_with(*generation, BANTER_EVENT_DONE, BANTER_OK, BANTER_FINISH_CONTEXT, {});
    }
    ended_.push_back(generation);
  }
  return resized;
}

void ModelRunner::drop_draft() {
  drop_draft_caches();
  draft_.reset();
  draft_refused_ = true;
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
  const bool by_draft = object_.settings.speculation == BANTER_SPECULATION_DRAFT;
  if (decoding == 0 || (by_draft && !find_draft())) return;
  int32_t left = std::min(limits_.rows - rows, limits_.logit_rows - logit_rows);
  const double row_cost = cost_.slope() + (by_draft ? draft_->guess_ns() : 0);
  wanted_.clear();
  for (const Ranked& ranked : ranked_) {
    Generation& generation = *ranked.generation;
    generation.guesses.clear();
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
    if (most <= 0) continue;
    if (by_draft) {
      wanted_.push_back({&generation, most});
      left -= most;
    } else {
      find_repetition(generation.tokens, most, generation.guesses);
      left -= static_cast<int32_t>(generation.guesses.size());
    }
  }
  if (!wanted_.empty()) draft_->guess(wanted_);
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

void ModelRunner::after_step(std::span<float> logits, uint64_t started_ns) {
  const uint64_t now = now_ns();
  const auto vocabulary = static_cast<size_t>(loaded_->model->hyperparameters().vocabulary);
  uint64_t prefilled = 0, decoded = 0;
  size_t row = 0;
  for (size_t i = 0; i < batch_generations_.size(); ++i) {
    Generation& generation = *batch_generations_[i];
    const model::Chunk& chunk = batch_.chunks[i];
    generation.served_step = step_;
    if (generation.started_ns == 0) generation.started_ns = started_ns;
    note_rows(channels_, generation, static_cast<uint32_t>(chunk.tokens.size()), started_ns, now);
    const bool begins = generation.reply_tokens.empty() && chunk.logits != model::LogitRows::kNone;
    loaded_->prefixes->insert(generation.tokens, *generation.cache, step_, begins);
    (generation.reply_tokens.empty() || chunk.tokens.size() > 1 ? prefilled : decoded) += chunk.tokens.size();
    if (chunk.logits == model::LogitRows::kNone) continue;
    if (chunk.logits == model::LogitRows::kAll) {
      check_guesses(generation, chunk, logits.subspan(row * vocabulary, chunk.tokens.size() * vocabulary), now);
      row += chunk.tokens.size();
    } else {
      next_token(generation, logits.subspan(row * vocabulary, vocabulary), now);
      ++row;
    }
    if (generation.state == Generation::State::kFinished) ended_.push_back(&generation);
  }
  cost_.add(static_cast<int32_t>(prefilled + decoded), static_cast<double>(now - started_ns));
  loaded_->prefixes->set_recompute_cost(cost_.slope());
  for (const Ranked& ranked : ranked_) {
    const bool stood_still = ranked.candidate->pending > 0 && ranked.generation->served_step != step_;
    if (stood_still) ranked.generation->waited_ns += now - started_ns;
  }
  channels_.figures.prefill_tokens.fetch_add(prefilled, std::memory_order_relaxed);
  channels_.figures.decode_tokens.fetch_add(decoded, std::memory_order_relaxed);
  note_step({started_ns, now_ns(), static_cast<uint32_t>(prefilled), static_cast<uint32_t>(decoded),
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

void ModelRunner::next_token(Generation& generation, std::span<float> logits, uint64_t now) {
  dialogue::Reply& reply = *generation.reply;
  std::span<const text::TokenId> banned = loaded_->unused_tokens;
  if (const auto now_banned = reply.banned_tokens(); !now_banned.empty()) {
    banned_.assign(banned.begin(), banned.end());
    banned_.insert(banned_.end(), now_banned.begin(), now_banned.end());
    banned = banned_;
  }
  const uint64_t position = sampling::draw_position(generation.reply_tokens.size(), reply.rollbacks());
  const text::TokenId token = generation.sampler->sample(logits, banned, position);
  if (token < 0) return act_on(generation, reply.dead_end(generation.out_text), true);

  if (generation.first_token_ns == 0) {
    generation.first_token_ns = now;
  } else {
    generation.latency.add(now - generation.last_token_ns);
  }
  generation.last_token_ns = now;
  append(generation, token);
  // A thought that has used up its budget is ended by tokens that nobody chose; they are computed with the next step.
  const std::span<const text::TokenId> forced = reply.forced_tokens();
  for (size_t i = 0; i < forced.size() && generation.state == Generation::State::kRunning; ++i) {
    append(generation, forced[i]);
  }
}

void ModelRunner::append(Generation& generation, text::TokenId token) {
  generation.sampler->accept(token);
  generation.tokens.push_back(token);
  generation.reply_tokens.push_back(token);
  act_on(generation, generation.reply->push(token, generation.out_text), false);
}

/** Row i of `logits` tells what comes after the chunk's first i + 1 tokens. Tokens are chosen as ever; as long as each is
 *  what was guessed, the next row counts too. */
void ModelRunner::check_guesses(Generation& generation, const model::Chunk& chunk, std::span<float> logits,
                                uint64_t now) {
  const size_t rows = chunk.tokens.size(), vocabulary = logits.size() / rows;
  const size_t before = generation.reply_tokens.size(), size = generation.tokens.size();
  const int32_t start = generation.cache->length() - static_cast<int32_t>(rows);
  int32_t right = 0;
  for (size_t i = 0; i < rows; ++i) {
    next_token(generation, logits.subspan(i * vocabulary, vocabulary), now);
    const bool went_on = generation.terminal == 0 && generation.reply_tokens.size() == before + i + 1 &&
                         generation.tokens.size() == size + i + 1;
    if (!went_on || i + 1 == rows || generation.tokens.back() != chunk.tokens[i + 1]) break;
    ++right;
  }
  const auto guessed = static_cast<int32_t>(rows) - 1;
  channels_.metrics.speculated(static_cast<uint32_t>(guessed), static_cast<uint32_t>(right));
  generation.acceptance.learn(guessed, right);
  generation.drafted_tokens += static_cast<uint32_t>(guessed);
  generation.accepted_tokens += static_cast<uint32_t>(right);
  const auto known = static_cast<int32_t>(generation.tokens.size()) - 1;
  // Of the chunk's rows those count that were right; what was forced behind them is not computed yet.
  generation.cache->truncate(std::min({generation.cache->length(), known, start + 1 + right}));
  generation.progress.truncated(static_cast<uint32_t>(generation.cache->length()));
}

void ModelRunner::act_on(Generation& generation, const dialogue::Verdict& verdict, bool nothing_to_choose) {
  const auto done = [&](banter_finish_reason reason) {
    generation.reply->finish(generation.out_text);
    end_with(generation, BANTER_EVENT_DONE, BANTER_OK, reason, {});
  };
  using dialogue::Verdict;
  switch (verdict.kind) {
    case Verdict::kEnd:
      return done(BANTER_FINISH_END);
    case Verdict::kStopString:
      return done(BANTER_FINISH_STOP_STRING);
    case Verdict::kStopToken:
      return done(BANTER_FINISH_STOP_TOKEN);
    case Verdict::kRollBack:
      return roll_back(generation, verdict.tokens);
    case Verdict::kExhausted:
      if (nothing_to_choose && generation.reply->rollbacks() == 0) {
        return end_with(generation, BANTER_EVENT_FAILED, BANTER_ERROR_BACKEND, BANTER_FINISH_NONE,
                        "No token could be chosen: the model's scores are not numbers, or everything is banned.");
      }
      roll_back(generation, verdict.tokens);
      return done(BANTER_FINISH_STOP_STRING);
    case Verdict::kGoOn:
      break;
  }
  if (generation.max_tokens != 0 && generation.reply_tokens.size() >= generation.max_tokens) {
    return done(BANTER_FINISH_LENGTH);
  }
  if (generation.tokens.size() >= static_cast<size_t>(generation.limit) && !slide(generation)) {
    return done(BANTER_FINISH_CONTEXT);
  }
}

/** The context is full: a reply of a sliding conversation goes on without the older half of what follows the persona.
 *  What stays is computed again, so the reply is what a prompt of just these tokens gives. False: it must end. */
bool ModelRunner::slide(Generation& generation) {
  if (generation.npc == nullptr || generation.npc->state->conversation.policy() != dialogue::ContextPolicy::kSlide) {
    return false;
  }
  // Without a limit of its own the reply ends when it has filled a context by itself.
  const bool endless = generation.max_tokens == 0;
  if (endless && generation.reply_tokens.size() >= static_cast<size_t>(generation.limit)) return false;
  size_t kept_whole = 32;  // what a banned string may still take back
  for (const std::string& banned : generation.reply_options.banned_strings) {
    kept_whole = std::max(kept_whole, banned.size() + 1);
  }
  const auto pinned = static_cast<size_t>(generation.prompt.pinned_tokens);
  const size_t sliding = generation.tokens.size() - pinned, dropped = sliding / 2;
  if (sliding - dropped < kept_whole) return false;
  const auto first = generation.tokens.begin() + static_cast<std::ptrdiff_t>(pinned);
  generation.tokens.erase(first, first + static_cast<std::ptrdiff_t>(dropped));
  generation.cache->truncate(std::min(generation.cache->length(), static_cast<int32_t>(pinned)));
  generation.draft_cache.reset();
  generation.trimmed_tokens += static_cast<uint32_t>(dropped);
  generation.trimmed_waiting = true;
  return true;
}

void ModelRunner::roll_back(Generation& generation, int32_t count) {
  const auto n = std::min(static_cast<size_t>(count), generation.reply_tokens.size());
  generation.reply_tokens.resize(generation.reply_tokens.size() - n);
  generation.tokens.resize(generation.tokens.size() - n);
  generation.sampler->rollback(static_cast<int32_t>(n));
  // The newest token left is computed once more: its logits choose again.
  generation.cache->truncate(static_cast<int32_t>(generation.tokens.size()) - 1);
  generation.progress.truncated(static_cast<uint32_t>(generation.cache->length()));
}

}  // namespace banter::engine
