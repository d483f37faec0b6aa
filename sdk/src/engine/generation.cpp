#include "engine/generation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/utf8.h"

namespace banter::engine {
namespace {

std::vector<std::string> read_strings(ChainCursor& cursor, uint32_t count) {
  std::vector<std::string> strings(count);
  for (std::string& s : strings) {
    s.resize(cursor.read_value<uint32_t>());
    cursor.read(s.data(), s.size());
  }
  return strings;
}

sampling::SamplingParams params_of(const SamplingSettings& settings) {
  sampling::SamplingParams params;
  params.seed = settings.seed;
  params.temperature = settings.temperature;
  params.top_k = settings.top_k;
  params.top_p = settings.top_p;
  params.min_p = settings.min_p;
  params.typical_p = settings.typical_p;
  params.repetition_penalty = settings.repetition_penalty;
  params.presence_penalty = settings.presence_penalty;
  params.frequency_penalty = settings.frequency_penalty;
  params.penalty_last_n = settings.penalty_last_tokens;
  params.dry_multiplier = settings.dry_multiplier;
  params.dry_base = settings.dry_base;
  params.dry_allowed_length = settings.dry_allowed_length;
  params.dry_last_n = settings.dry_last_tokens;
  params.xtc_probability = settings.xtc_probability;
  params.xtc_threshold = settings.xtc_threshold;
  params.mirostat = settings.mirostat;
  params.mirostat_tau = settings.mirostat_tau;
  params.mirostat_eta = settings.mirostat_eta;
  return params;
}

void read_text(ChainCursor& cursor, const RequestSlot& slot, Generation& generation) {
  if (slot.kind == RequestKind::kCompleteTokens) {
    generation.input_tokens.resize(slot.text_bytes / sizeof(int32_t));
    cursor.read(generation.input_tokens.data(), slot.text_bytes);
  } else {
    generation.text.resize(slot.text_bytes);
    cursor.read(generation.text.data(), slot.text_bytes);
  }
}

EventBlock* block_for(Channels& channels, const Generation& generation, banter_event_kind kind) {
  EventBlock* block = channels.events.allocate();
  if (block == nullptr) return nullptr;
  block->kind = kind;
  block->slot = generation.slot;
  block->request = generation.id;
  block->model = generation.model;
  block->npc = generation.npc;
  block->user_data = generation.user_data;
  return block;
}

/** Tokens that may be told: none that a banned string may still take back. */
size_t settled_tokens(const Generation& generation) {
  const size_t revocable =
      generation.reply && generation.terminal == 0 ? static_cast<size_t>(generation.reply->revocable_tokens()) : 0;
  return generation.reply_tokens.size() - std::min(revocable, generation.reply_tokens.size());
}

/** The tokens of a thought are as hidden as its text. */
bool tells(const Generation& generation, size_t token) {
  return (generation.flags & BANTER_REQUEST_REPORT_THOUGHT) != 0 || !generation.reply ||
         !generation.reply->is_hidden(token);
}

/** Copies up to `room` tokens that may be told, from out_tokens_from on and below `until`, and passes over the others. */
uint32_t take_tokens(Generation& generation, size_t until, int32_t* to, size_t room) {
  uint32_t count = 0;
  for (; generation.out_tokens_from < until; ++generation.out_tokens_from) {
    if (!tells(generation, generation.out_tokens_from)) continue;
    if (count == room) break;
    to[count++] = generation.reply_tokens[generation.out_tokens_from];
  }
  return count;
}

bool deliver_text(Channels& channels, Generation& generation) {
  const size_t tokens_until = settled_tokens(generation);
  dialogue::Outgoing& out = generation.out_text;
  bool room = true;
  for (;;) {
    const std::string_view rest = out.front();
    while (generation.out_tokens_from < tokens_until && !tells(generation, generation.out_tokens_from)) {
      ++generation.out_tokens_from;
    }
    size_t tokens_left = 0;
    for (size_t i = generation.out_tokens_from; i < tokens_until && tokens_left <= kTailTokens; ++i) {
      tokens_left += tells(generation, i) ? 1 : 0;
    }
    // Tokens without text wait for the next text or for the end, which carries a few.
    if (rest.empty() && (generation.terminal == 0 || tokens_left <= kTailTokens)) break;
    EventBlock* block =
        block_for(channels, generation, out.front_is_thought() ? BANTER_EVENT_THOUGHT : BANTER_EVENT_TEXT);
    if (block == nullptr) {
      room = false;
      break;
    }
    const size_t bytes = text::utf8_prefix(rest, EventBlock::kDataBytes / 2).size();
    rest.copy(block->data, bytes);  // nothing to tell may be a null view, which memcpy may not get
    block->data[bytes] = '\0';
    block->text_len = static_cast<uint32_t>(bytes);
    const size_t token_room = (EventBlock::kDataBytes - (bytes + 1 + 3) / 4 * 4) / sizeof(int32_t);
    auto* const tokens = reinterpret_cast<int32_t*>(block->data + (bytes + 1 + 3) / 4 * 4);
    block->token_count = take_tokens(generation, tokens_until, tokens, token_room);
    out.drop(bytes);
    channels.events.push(block);
  }
  out.compact();
  return room;
}

bool deliver_notes(Channels& channels, Generation& generation) {
  if (generation.prompt_waiting) {
    EventBlock* block = block_for(channels, generation, BANTER_EVENT_PROMPT);
    if (block == nullptr) return false;
    const std::vector<int32_t>& copy = channels.slots[generation.slot].prompt_copy;
    block->far_tokens = copy.data();
    block->token_count = static_cast<uint32_t>(copy.size());
    generation.prompt_waiting = false;
    channels.events.push(block);
  }
  if (generation.trimmed_waiting) {
    EventBlock* block = block_for(channels, generation, BANTER_EVENT_CONTEXT_TRIMMED);
    if (block == nullptr) return false;
    block->dropped_turns = std::exchange(generation.trimmed_turns, 0);
    block->dropped_tokens = std::exchange(generation.trimmed_tokens, 0);
    generation.trimmed_waiting = false;
    channels.events.push(block);
  }
  return true;
}

double ms(uint64_t from_ns, uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e6 : 0.0;
}

void write_statistics(const Generation& generation, banter_request_statistics& out) {
  out = {};
  out.struct_size = sizeof out;
  out.prompt_tokens = static_cast<uint32_t>(generation.prompt_tokens);
  out.cached_tokens = generation.cached_tokens;
  out.generated_tokens = static_cast<uint32_t>(generation.reply_tokens.size());
  const uint64_t end = now_ns();
  const uint64_t started = generation.started_ns != 0 ? generation.started_ns : end;
  out.queue_ms = ms(generation.submitted_ns, started);
  if (generation.first_token_ns != 0) {
    out.ttft_ms = ms(generation.submitted_ns, generation.first_token_ns);
    out.prefill_ms = ms(started, generation.first_token_ns);
    out.decode_ms = ms(generation.first_token_ns, generation.last_token_ns);
  } else if (generation.started_ns != 0) {
    out.prefill_ms = ms(started, end);
  }
  out.itl_mean_ms = generation.latency.mean_ms();
  out.itl_p50_ms = generation.latency.quantile_ms(0.5);
  out.itl_p99_ms = generation.latency.quantile_ms(0.99);
  out.prefilled_tokens = generation.progress.prefilled;
  out.drafted_tokens = generation.drafted_tokens;
  out.accepted_tokens = generation.accepted_tokens;
  out.preemptions = generation.preemptions;
  out.recomputed_tokens = generation.progress.recomputed;
  if (generation.reply) out.thought_tokens = generation.reply->hidden_tokens();
}

void deliver_terminal(Channels& channels, Generation& generation) {
  RequestSlot& slot = channels.slots[generation.slot];
  slot.terminal = generation.terminal;
  slot.blob = std::move(generation.blob);
  slot.code = generation.code;
  slot.finish_reason = generation.reason;
  const size_t length = text::utf8_prefix(generation.message, sizeof slot.message - 1).size();
  std::memcpy(slot.message, generation.message.data(), length);
  slot.message[length] = '\0';
  slot.message_len = static_cast<uint32_t>(length);
  slot.tail_token_count = take_tokens(generation, generation.reply_tokens.size(), slot.tail_tokens, kTailTokens);
  write_statistics(generation, slot.statistics);
  channels.metrics.request_ended(generation.progress.started);
  channels.figures.finished.fetch_add(1, std::memory_order_relaxed);
  slot.state.fetch_or(RequestSlot::kEnded, std::memory_order_acq_rel);
  channels.events.push_terminal(generation.slot);
}

}  // namespace

std::unique_ptr<Generation> receive(Channels& channels, uint32_t slot_index) {
  RequestSlot& slot = channels.slots[slot_index];
  auto generation = std::make_unique<Generation>();
  generation->slot = slot_index;
  generation->id = channels.slots.id(slot_index);
  generation->kind = slot.kind;
  generation->model = slot.model;
  generation->npc = slot.npc;
  generation->user_data = slot.user_data;
  generation->flags = slot.flags;
  generation->max_tokens = slot.max_tokens;
  const int32_t own_priority = slot.npc != nullptr ? slot.npc->priority : kDefaultPriority;
  generation->priority = slot.priority == BANTER_PRIORITY_DEFAULT ? own_priority : slot.priority;
  generation->blob = std::move(slot.blob);
  generation->thinking = slot.thinking;
  generation->submitted_ns = slot.submitted_ns;
  if (slot.deadline_ms != 0) generation->deadline_ns = slot.submitted_ns + uint64_t{slot.deadline_ms} * 1'000'000;

  const bool npc_sampling = !slot.has_sampling && slot.npc != nullptr && slot.npc->has_sampling;
  generation->params = params_of(slot.has_sampling ? slot.sampling
                                 : npc_sampling    ? slot.npc->sampling
                                                   : default_sampling());
  if (npc_sampling) {
    generation->params.logit_bias = slot.npc->logit_bias;
    generation->dry_breakers = slot.npc->dry_breakers;
  }

  ChainCursor cursor = slot.chain != FreeList::kNone ? ChainCursor(channels.text, slot.chain)
                                                     : ChainCursor(slot.inline_payload, RequestSlot::kInlineBytes);
  read_text(cursor, slot, *generation);
  std::vector<int32_t> bias_tokens(slot.bias_count);
  std::vector<float> bias_values(slot.bias_count);
  cursor.read(bias_tokens.data(), bias_tokens.size() * sizeof(int32_t));
  cursor.read(bias_values.data(), bias_values.size() * sizeof(float));
  for (uint32_t i = 0; i < slot.bias_count; ++i) {
    generation->params.logit_bias.emplace_back(bias_tokens[i], bias_values[i]);
  }
  dialogue::ReplyOptions& options = generation->reply_options;
  options.stop_tokens.resize(slot.stop_token_count);
  cursor.read(options.stop_tokens.data(), options.stop_tokens.size() * sizeof(int32_t));
  options.stop_strings = read_strings(cursor, slot.stop_string_count);
  if (slot.npc != nullptr) {
    options.stop_strings.insert(options.stop_strings.end(), slot.npc->stop_strings.begin(),
                                slot.npc->stop_strings.end());
  }
  options.banned_strings = read_strings(cursor, slot.banned_string_count);
  if (slot.has_sampling) generation->dry_breakers = read_strings(cursor, slot.dry_breaker_count);
  options.ignore_end = (slot.flags & BANTER_REQUEST_IGNORE_END) != 0;
  options.special_text = (slot.flags & BANTER_REQUEST_SPECIAL_TEXT) != 0;
  options.report_thought = (slot.flags & BANTER_REQUEST_REPORT_THOUGHT) != 0;
  options.thought_budget = slot.thinking_budget_tokens;
  return generation;
}

void end_with(Generation& generation, banter_event_kind kind, banter_result code, banter_finish_reason reason,
              std::string message) {
  generation.terminal = kind;
  generation.code = code;
  generation.reason = reason;
  generation.message = std::move(message);
  generation.state = Generation::State::kFinished;
}

bool is_overdue(const Generation& generation, uint64_t now) {
  return now >= generation.deadline_ns && generation.reply_tokens.empty();
}

void end_overdue(Generation& generation) {
  end_with(generation, BANTER_EVENT_FAILED, BANTER_ERROR_DEADLINE, BANTER_FINISH_NONE, kDeadlinePassed);
}

void keep_reply(Generation& generation) {
  if (generation.npc == nullptr || generation.npc->state == nullptr) return;
  const bool spoke = generation.reply && !generation.reply->text().empty();
  const bool keep =
      generation.terminal == BANTER_EVENT_DONE || (generation.terminal == BANTER_EVENT_CANCELLED && spoke);
  if (!keep) return;
  generation.npc->state->conversation.commit(generation.prompt, generation.text, generation.reply->text());
}

void note_rows(Channels& channels, Generation& generation, uint32_t rows, uint64_t from_ns, uint64_t to_ns) {
  RequestProgress& progress = generation.progress;
  if (!progress.started) channels.metrics.request_started();
  const auto end = static_cast<uint32_t>(generation.cache->length());
  const uint32_t at = end - std::min(end, rows), before = progress.recomputed;
  progress.computed(at, rows, static_cast<uint32_t>(generation.prompt_tokens));
  const bool again = progress.recomputed != before;
  if (again) channels.metrics.recomputed(progress.recomputed - before);
  // A token at a time is not worth a record: the decode span shows it.
  if (again || at < generation.prompt_tokens) channels.tracer.chunk(generation.id, from_ns, to_ns, at, rows, again);
}

void note_preemptions(Channels& channels, Generation& generation) {
  for (uint32_t& told = generation.progress.preemptions_told; told < generation.preemptions; ++told) {
    channels.metrics.preempted();
    channels.tracer.preempted(generation.id);
  }
}

void trace_life(Channels& channels, Generation& generation) {
  note_preemptions(channels, generation);
  if (!channels.tracer.on()) return;
  TraceRequest life;
  life.id = generation.id;
  life.submitted_ns = generation.submitted_ns;
  life.started_ns = generation.started_ns;
  life.first_token_ns = generation.first_token_ns;
  life.last_token_ns = generation.last_token_ns;
  life.ended_ns = now_ns();
  life.terminal = generation.terminal;
  life.prompt_tokens = static_cast<uint32_t>(generation.prompt_tokens);
  life.cached_tokens = generation.cached_tokens;
  life.generated_tokens = static_cast<uint32_t>(generation.reply_tokens.size());
  life.is_load = generation.kind == RequestKind::kLoad;
  channels.tracer.request(life);
}

bool deliver(Channels& channels, Generation& generation) {
  const bool room = deliver_notes(channels, generation) && deliver_text(channels, generation);
  if (!room) {
    if (!generation.delayed) channels.figures.events_delayed.fetch_add(1, std::memory_order_relaxed);
    generation.delayed = true;
    return false;
  }
  generation.delayed = false;
  if (generation.terminal != 0) deliver_terminal(channels, generation);
  return true;
}

}  // namespace banter::engine
