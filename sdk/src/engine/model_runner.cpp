#include "engine/model_runner.h"

#include <algorithm>
#include <utility>

#include "engine/snapshots.h"

namespace banter::engine {
namespace {

constexpr int32_t kDefaultReserve = 256;
constexpr int32_t kLeastContext = 64;  // tokens of a conversation that every pool holds

/** What `text` is made of where other text stands before it: some tokenizers put a space before all else. */
std::vector<text::TokenId> tokens_within_text(const text::Tokenizer& tokenizer, const std::string& text) {
  const auto bytes_of = [&](text::TokenId id) { return tokenizer.token_bytes(id, true).size(); };
  std::vector<text::TokenId> alone, behind;
  tokenizer.encode(text, false, alone);
  size_t bytes = 0;
  for (const text::TokenId id : alone) bytes += bytes_of(id);
  if (bytes == text.size()) return alone;
  tokenizer.encode("\n" + text, false, behind);
  bytes = 0;
  size_t first = behind.size();
  while (first > 0 && bytes < text.size()) bytes += bytes_of(behind[--first]);
  if (bytes != text.size()) return alone;  // the newline is part of its first token
  behind.erase(behind.begin(), behind.begin() + static_cast<std::ptrdiff_t>(first));
  return behind;
}

}  // namespace

ModelRunner::ModelRunner(Channels& channels, const ModelObject& object, std::unique_ptr<LoadedModel> loaded)
    : channels_(channels),
      loaded_(std::move(loaded)),
      allocator_(*loaded_->pool, *loaded_->prefixes, loaded_->draft_caches, loaded_->chunk_tokens),
      object_(object) {
  const auto sequences = static_cast<size_t>(loaded_->model->max_logit_rows()) * 2;
  running_.reserve(sequences);
  ended_.reserve(sequences);
  candidates_.reserve(sequences);
  scratch_.reserve(sequences);
  ranked_.reserve(sequences);
  batch_.chunks.reserve(sequences);
  batch_generations_.reserve(sequences);
  if (loaded_->backend->is_host_memory()) batch_.between_layers = [this] { return rest(); };
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

int32_t ModelRunner::context_of(const NpcObject* npc) const {
  const int32_t model_limit = loaded_->context_tokens;
  const uint32_t wanted = npc != nullptr ? npc->context_tokens : 0;
  return wanted == 0 ? model_limit
                     : static_cast<int32_t>(std::min<uint32_t>(wanted, static_cast<uint32_t>(model_limit)));
}

void ModelRunner::begin(Generation& generation) {
  if (is_snapshot(generation.kind)) {
    generation.npc->state->last_used = step_;
    return run_snapshot(*loaded_, generation, context_of(generation.npc), turn_bytes_limit());
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
  generation.limit = context_of(generation.npc);
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

  if (generation.params.dry_multiplier > 0) {
    for (const std::string& breaker : generation.dry_breakers) {
      generation.params.dry_breakers.push_back(tokens_within_text(loaded_->model->tokenizer(), breaker));
    }
  }
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
  if (!state.cache || state.cache->max_tokens() < generation.limit) {  // the context may have grown with the pool
    state.cached.clear();
    state.cache.emplace(*loaded_->pool, generation.limit);
  }
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
  keep_reply(generation);
}

// ---------------------------------------------------------------- deadlines and memory

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
    if (!is_overdue(*generation, now)) continue;
    end_overdue(*generation);
    ended_.push_back(generation);
  }
}

void ModelRunner::drop_draft_caches() {
  for (Generation* generation : running_) generation->draft_cache.reset();
}

Result<void> ModelRunner::resize_pool(uint64_t bytes) {
  ended_.clear();
  std::sort(running_.begin(), running_.end(), [](const Generation* a, const Generation* b) {
    const int32_t first = aged_priority(a->priority, a->waited_ns);
    const int32_t second = aged_priority(b->priority, b->waited_ns);
    return first != second ? first > second : a->arrival < b->arrival;
  });
  const kv::PagePool& pool = *loaded_->pool;
  auto wanted = static_cast<size_t>(bytes);
  while (pool.pages_in(wanted) < pool.pages_for(kLeastContext, loaded_->chunk_tokens)) wanted += pool.page_stride();
  Result<void> resized = allocator_.resize(wanted, running_);
  loaded_->kv_bytes = static_cast<uint64_t>(pool.total_pages()) * pool.page_stride();
  loaded_->context_tokens = tokens_that_fit(pool, loaded_->model->context_length(), loaded_->chunk_tokens);
  for (Generation* generation : running_) {
    fit_context(*generation);
    if (generation->terminal != 0) ended_.push_back(generation);
  }
  return resized;
}

/** Ends it where the pool has become too small for it. */
void ModelRunner::fit_context(Generation& generation) const {
  generation.limit = std::min(generation.limit, loaded_->context_tokens);
  if (generation.tokens.size() < static_cast<size_t>(generation.limit)) return;
  if (generation.reply_tokens.empty()) {
    return end_with(generation, BANTER_EVENT_FAILED, BANTER_ERROR_KV_POOL_EXHAUSTED, BANTER_FINISH_NONE,
                    "The KV pool was made smaller than this prompt; raise the budget or shorten the conversation.");
  }
  generation.reply->finish(generation.out_text);
  end_with(generation, BANTER_EVENT_DONE, BANTER_OK, BANTER_FINISH_CONTEXT, {});
}

void ModelRunner::drop_draft() {
  for (Generation* generation : running_) generation->guesses.clear();
  drop_draft_caches();
  draft_.reset();
}

// ---------------------------------------------------------------- a card that fails

bool ModelRunner::lose(const Error& error) {
  const bool can_change = loaded_->is_cuda && object_.settings.backend == BANTER_BACKEND_AUTO && object_.source.stays &&
                          banter_result_class(error.code) == BANTER_ERROR_BACKEND;
  if (can_change) lost_ = error;
  return can_change;
}

void ModelRunner::strand(Fallback& to) {
  drop_draft();
  for (Generation* generation : running_) {
    generation->cache = nullptr;  // a character's goes with the allocator
    generation->own_cache.reset();
    generation->admitted = false;
    generation->served_step = 0;  // another runner counts anew
  }
  to.stranded = std::exchange(running_, {});
  to.tokenizer = loaded_->model->share_tokenizer();
  to.format = std::move(loaded_->format);
}

void ModelRunner::adopt(Generation& generation) {
  running_.push_back(&generation);
  generation.limit = std::min(generation.limit, loaded_->context_tokens);
  take_cache(generation);
  fit_context(generation);
}

}  // namespace banter::engine
