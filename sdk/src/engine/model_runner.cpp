#include "engine/model_runner.h"

#include <algorithm>

#include "engine/snapshots.h"

namespace banter::engine {
namespace {

/** How long a step may take while somebody's reply streams: prefill chunks are cut to fit. */
constexpr double kStreamingStepNs = 100e6;
constexpr int32_t kLeastPrefillRows = 16;
/** Text of this size waiting for a poll pauses its generation. */
constexpr size_t kMostWaitingText = 4096;
constexpr int32_t kDefaultReserve = 256;

}  // namespace

ModelRunner::ModelRunner(Channels& channels, std::unique_ptr<LoadedModel> loaded)
    : channels_(channels), loaded_(std::move(loaded)) {
  const auto sequences = static_cast<size_t>(loaded_->model->max_logit_rows()) * 2;
  running_.reserve(sequences);
  ended_.reserve(sequences);
  candidates_.reserve(sequences);
  scratch_.reserve(sequences);
  order_.reserve(sequences);
  batch_.chunks.reserve(sequences);
  batch_generations_.reserve(sequences);
  banned_.reserve(loaded_->unused_tokens.size() + 256);
}

ModelRunner::~ModelRunner() {
  // Pages go back to the pool before it goes.
  while (npcs_ != nullptr) forget(*npcs_);
}

void ModelRunner::remember(NpcObject& npc) {
  NpcState& state = *npc.state;
  state.previous = nullptr;
  state.next = npcs_;
  if (npcs_ != nullptr) npcs_->state->previous = &npc;
  npcs_ = &npc;
}

void ModelRunner::forget(NpcObject& npc) {
  NpcState& state = *npc.state;
  if (state.previous != nullptr) {
    state.previous->state->next = state.next;
  } else if (npcs_ == &npc) {
    npcs_ = state.next;
  }
  if (state.next != nullptr) state.next->state->previous = state.previous;
  state.previous = state.next = nullptr;
  state.cache.reset();
  state.cached.clear();
}

uint64_t ModelRunner::kv_bytes_used() const {
  const kv::PagePool& pool = *loaded_->pool;
  return static_cast<uint64_t>(pool.total_pages() - pool.free_pages()) * pool.page_stride();
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

  const int32_t vocabulary = loaded_->model->hyperparameters().vocabulary;
  auto sampler = sampling::Sampler::create(generation.params, vocabulary, generation.limit + 1, loaded_->workspace);
  if (!sampler) return sampler.error();
  generation.sampler = std::move(*sampler);
  for (const text::TokenId id : generation.tokens) generation.sampler->accept(id);

  const bool chat = generation.kind == RequestKind::kSay;
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
    auto prompt = generation.npc->state->conversation.prompt_for(*loaded_->format, limits, generation.text);
    if (!prompt) return prompt.error();
    generation.prompt = std::move(*prompt);
    generation.tokens = std::move(generation.prompt.tokens);
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

/** Finds what of the prompt is cached already. At least its last token is computed again: its logits are needed. */
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
  const int32_t kept = generation.cache->truncate(static_cast<int32_t>(same));
  state.cached.clear();
  generation.cached_tokens = static_cast<uint32_t>(kept);
}

void ModelRunner::retire(Generation& generation) {
  const auto at = std::find(running_.begin(), running_.end(), &generation);
  if (at != running_.end()) running_.erase(at);
  if (generation.cache == nullptr) return;
  // Pages first: what needs memory comes last, so that a failure leaves only the conversation behind.
  generation.cache->truncate(generation.cache->length());
  const auto computed = static_cast<size_t>(generation.cache->length());
  generation.cache = nullptr;
  generation.own_cache.reset();
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

bool ModelRunner::step() {
  ended_.clear();
  if (running_.empty()) return false;
  const uint64_t started = now_ns();
  collect_candidates();
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

void ModelRunner::collect_candidates() {
  candidates_.clear();
  bool streaming = false;
  for (Generation* generation : running_) {
    Candidate candidate;
    candidate.priority = generation->priority;
    candidate.arrival = generation->arrival;
    candidate.served_step = generation->served_step;
    candidate.decoding = !generation->reply_tokens.empty();
    // A reply that nobody fetches waits: its text must not pile up.
    if (generation->out_text.size() < kMostWaitingText) candidate.pending = generation->pending();
    streaming = streaming || (candidate.decoding && candidate.pending > 0);
    candidates_.push_back(candidate);
  }
  StepLimits limits;
  limits.rows = loaded_->chunk_tokens;
  limits.prefill_rows = limits.rows;
  if (streaming && row_ns_ > 0) {
    const auto rows = static_cast<int32_t>(std::min(kStreamingStepNs / row_ns_, 1e6));
    limits.prefill_rows = std::clamp(rows, std::min(kLeastPrefillRows, limits.rows), limits.rows);
  }
  limits.logit_rows = loaded_->model->max_logit_rows();
  limits.step = step_;
  plan_step(candidates_, limits, scratch_);
}

void ModelRunner::build_batch() {
  batch_.chunks.clear();
  batch_generations_.clear();
  order_.clear();
  for (uint32_t i = 0; i < candidates_.size(); ++i) order_.push_back(i);
  std::sort(order_.begin(), order_.end(),
            [&](uint32_t a, uint32_t b) { return candidates_[a].before(candidates_[b]); });
  int64_t promised = 0;  // pages that admitted generations of higher rank have yet to take
  for (const uint32_t index : order_) {
    Generation& generation = *running_[index];
    const Candidate& candidate = candidates_[index];
    if (candidate.pending <= 0 || !admit(generation, candidate, promised) || candidate.rows == 0) continue;
    // A preemption since the plan was made may have emptied the cache: then the step's rows are its first.
    const int32_t rows = std::min(candidate.rows, generation.pending());
    if (!reserve(generation, candidate, rows)) continue;
    model::Chunk chunk;
    chunk.cache = generation.cache;
    chunk.tokens = std::span<const text::TokenId>(generation.tokens)
                       .subspan(static_cast<size_t>(generation.cache->length()), static_cast<size_t>(rows));
    chunk.logits = rows == generation.pending() ? model::LogitRows::kLast : model::LogitRows::kNone;
    batch_.chunks.push_back(chunk);
    batch_generations_.push_back(&generation);
  }
}

bool ModelRunner::admit(Generation& generation, const Candidate& rank, int64_t& promised) {
  const kv::PagePool& pool = *loaded_->pool;
  const auto tokens = static_cast<int32_t>(generation.tokens.size());
  const int64_t need = std::max(0, pool.pages_for(tokens, loaded_->chunk_tokens) - generation.cache->held_pages());
  if (!generation.admitted) {
    int64_t available = pool.free_pages() + idle_pages() - promised;
    for (size_t i = 0; i < running_.size() && available < need; ++i) {
      if (rank.before(candidates_[i])) available += running_[i]->cache->held_pages();
    }
    if (available < need) return false;
    generation.admitted = true;
  }
  promised += need;
  return true;
}

bool ModelRunner::reserve(Generation& generation, const Candidate& rank, int32_t rows) {
  while (!generation.cache->reserve(rows)) {
    if (!evict_idle() && !preempt_behind(rank)) return false;
  }
  return true;
}

int64_t ModelRunner::idle_pages() const {
  int64_t pages = 0;
  for (const NpcObject* npc = npcs_; npc != nullptr; npc = npc->state->next) {
    if (npc->state->running == nullptr && npc->state->cache) pages += npc->state->cache->held_pages();
  }
  return pages;
}

bool ModelRunner::evict_idle() {
  NpcObject* oldest = nullptr;
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->state->next) {
    const NpcState& state = *npc->state;
    if (state.running != nullptr || !state.cache || state.cache->held_pages() == 0) continue;
    if (oldest == nullptr || state.last_used < oldest->state->last_used) oldest = npc;
  }
  if (oldest == nullptr) return false;
  oldest->state->cache->clear();
  oldest->state->cached.clear();
  return true;
}

bool ModelRunner::preempt_behind(const Candidate& rank) {
  size_t victim = running_.size();
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!rank.before(candidates_[i]) || running_[i]->cache->held_pages() == 0) continue;
    if (victim == running_.size() || candidates_[victim].before(candidates_[i])) victim = i;
  }
  if (victim == running_.size()) return false;
  running_[victim]->cache->clear();
  running_[victim]->admitted = false;
  candidates_[victim].rows = 0;  // its turn comes later in this order: not this step
  return true;
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
    (generation.reply_tokens.empty() || chunk.tokens.size() > 1 ? prefilled : decoded) += chunk.tokens.size();
    if (chunk.logits == model::LogitRows::kNone) continue;
    next_token(generation, logits.subspan(row * vocabulary, vocabulary), now);
    ++row;
    if (generation.state == Generation::State::kFinished) ended_.push_back(&generation);
  }
  if (prefilled >= static_cast<uint64_t>(kLeastPrefillRows)) {
    const double cost = static_cast<double>(now - started_ns) / static_cast<double>(prefilled + decoded);
    row_ns_ = row_ns_ == 0 ? cost : row_ns_ * 0.75 + cost * 0.25;
  }
  channels_.figures.prefill_tokens.fetch_add(prefilled, std::memory_order_relaxed);
  channels_.figures.decode_tokens.fetch_add(decoded, std::memory_order_relaxed);
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
  generation.sampler->accept(token);
  generation.tokens.push_back(token);
  generation.reply_tokens.push_back(token);
  act_on(generation, reply.push(token, generation.out_text), false);
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
  if (generation.tokens.size() >= static_cast<size_t>(generation.limit)) return done(BANTER_FINISH_CONTEXT);
}

void ModelRunner::roll_back(Generation& generation, int32_t count) {
  const auto n = std::min(static_cast<size_t>(count), generation.reply_tokens.size());
  generation.reply_tokens.resize(generation.reply_tokens.size() - n);
  generation.tokens.resize(generation.tokens.size() - n);
  generation.sampler->rollback(static_cast<int32_t>(n));
  // The newest token left is computed once more: its logits choose again.
  generation.cache->truncate(static_cast<int32_t>(generation.tokens.size()) - 1);
}

}  // namespace banter::engine
