#include "engine/engine.h"

#include <algorithm>
#include <cstddef>

#include "engine/guard.h"

namespace banter::engine {
namespace {

constexpr Refusal kBusyProducers{BANTER_ERROR_BUSY,
                                 "Too many threads are calling the engine at this moment; try again."};
constexpr Refusal kBusySlots{
    BANTER_ERROR_BUSY,
    "As many requests as max_requests are queued, running or not yet polled to their end; poll, "
    "then try again."};
constexpr Refusal kBusyTurns{BANTER_ERROR_BUSY, "Too many turns wait for the engine; try again next frame."};
constexpr Refusal kBusyText{BANTER_ERROR_BUSY,
                            "The buffer for request text is full until the engine has read it; try again next frame."};
constexpr Refusal kTextTooLong{BANTER_ERROR_INVALID_ARGUMENT,
                               "The text with its options is larger than the whole buffer for request text; raise "
                               "text_buffer_bytes in banter_engine_config."};

size_t strings_bytes(std::span<const char* const> strings) {
  size_t bytes = 0;
  for (const char* s : strings) bytes += sizeof(uint32_t) + std::char_traits<char>::length(s);
  return bytes;
}

void write_strings(ChainCursor& cursor, std::span<const char* const> strings) {
  for (const char* s : strings) {
    const auto length = static_cast<uint32_t>(std::char_traits<char>::length(s));
    cursor.write_value(length);
    cursor.write(s, length);
  }
}

BANTER_GAME_THREAD size_t payload_bytes(const Submission& s) {
  return s.text.size() + s.tokens.size_bytes() + s.bias_tokens.size_bytes() + s.bias_values.size_bytes() +
         s.stop_tokens.size_bytes() + strings_bytes(s.stop_strings) + strings_bytes(s.banned_strings) +
         strings_bytes(s.dry_breakers);
}

BANTER_GAME_THREAD void write_payload(ChainCursor cursor, const Submission& s, size_t bytes) {
  cursor.write(s.text.data(), s.text.size());
  if (bytes == s.text.size()) return;  // as most requests are
  cursor.write(s.tokens.data(), s.tokens.size_bytes());
  cursor.write(s.bias_tokens.data(), s.bias_tokens.size_bytes());
  cursor.write(s.bias_values.data(), s.bias_values.size_bytes());
  cursor.write(s.stop_tokens.data(), s.stop_tokens.size_bytes());
  write_strings(cursor, s.stop_strings);
  write_strings(cursor, s.banned_strings);
  write_strings(cursor, s.dry_breakers);
}

}  // namespace

SamplingSettings default_sampling() {
  SamplingSettings s;
  s.temperature = 0.7f;
  s.top_k = 40;
  s.top_p = 0.95f;
  s.min_p = 0.05f;
  s.typical_p = 1.0f;
  s.repetition_penalty = 1.0f;
  s.penalty_last_tokens = 64;
  s.dry_base = 1.75f;
  s.dry_allowed_length = 2;
  s.dry_last_tokens = -1;
  s.xtc_threshold = 0.1f;
  s.mirostat_tau = 5.0f;
  s.mirostat_eta = 0.1f;
  return s;
}

// ---------------------------------------------------------------- birth and death

Result<Engine*> Engine::create(const EngineConfig& config) {
  void* const memory = config.host.allocate(sizeof(Engine), alignof(Engine));
  if (memory == nullptr) return Error{BANTER_ERROR_OUT_OF_MEMORY, "No memory for an engine."};
  auto* const engine = ::new (memory) Engine();
  const Result<void> started = guarded([&]() -> Result<void> {
    if (Result<void> made = engine->channels_.create(config); !made) return made;
    engine->thread_state_ = std::make_unique<EngineThread>(engine->channels_);
    engine->thread_ = std::thread([engine] { engine->thread_state_->run(); });
    return {};
  });
  if (started) return engine;
  engine->channels_.config.host = config.host;
  destroy(engine);
  return started.error();
}

void Engine::destroy(Engine* engine) {
  if (engine == nullptr) return;
  Channels& channels = engine->channels_;
  if (engine->thread_.joinable()) {
    channels.stop.store(true, std::memory_order_release);
    channels.signal.post();
    engine->thread_.join();
    engine->thread_state_->destroy_objects();
  }
  const HostAllocator host = channels.config.host;
  engine->magic = ObjectMagic::kDead;
  engine->~Engine();
  host.deallocate(engine, sizeof(Engine), alignof(Engine));
}

// ---------------------------------------------------------------- requests

BANTER_GAME_THREAD Refusal Engine::submit(const Submission& submission, banter_request_id* out_request) {
  CommandQueue::Lease lease;
  channels_.commands.prefetch(lease);
  channels_.slots.prefetch();
  prefetch_for_write(&channels_.signal, 1);
  const size_t bytes = payload_bytes(submission);
  if (bytes > channels_.text.capacity_bytes()) return kTextTooLong;
  if (!channels_.commands.claim(lease)) return kBusyProducers;
  const uint32_t index = channels_.slots.acquire();
  if (index == SlotTable::kNone) return kBusySlots;
  RequestSlot& slot = channels_.slots[index];
  prefetch_for_write(&slot, std::min(bytes, RequestSlot::kInlineBytes) + offsetof(RequestSlot, inline_payload));
  slot.chain = FreeList::kNone;
  if (bytes > RequestSlot::kInlineBytes) {
    slot.chain = channels_.text.acquire(bytes);
    if (slot.chain == FreeList::kNone) {
      channels_.slots.release(index);
      return kBusyText;
    }
    write_payload(ChainCursor(channels_.text, slot.chain), submission, bytes);
  } else {
    write_payload(ChainCursor(slot.inline_payload, RequestSlot::kInlineBytes), submission, bytes);
  }
  slot.kind = submission.kind;
  slot.model = submission.model;
  slot.npc = submission.npc;
  slot.user_data = submission.user_data;
  slot.flags = submission.flags;
  slot.max_tokens = submission.max_tokens;
  slot.deadline_ms = submission.deadline_ms;
  slot.thinking = submission.thinking;
  slot.thinking_budget_tokens = submission.thinking_budget_tokens;
  slot.priority = static_cast<int8_t>(submission.priority);
  slot.has_sampling = submission.has_sampling;
  if (submission.has_sampling) slot.sampling = submission.sampling;
  slot.text_bytes = submission.text.size() + submission.tokens.size_bytes();
  slot.bias_count = static_cast<uint32_t>(submission.bias_tokens.size());
  slot.stop_token_count = static_cast<uint8_t>(submission.stop_tokens.size());
  slot.stop_string_count = static_cast<uint8_t>(submission.stop_strings.size());
  slot.banned_string_count = static_cast<uint8_t>(submission.banned_strings.size());
  slot.dry_breaker_count = static_cast<uint8_t>(submission.dry_breakers.size());
  slot.blob.reset(submission.blob);  // was empty: its last holder took it
  slot.submitted_ns = now_ns();

  // Before posting: afterwards the request may end, and its slot be another's, at any moment.
  *out_request = channels_.slots.id(index);
  channels_.commands.post(lease, {Command::kRequest, index});
  channels_.signal.post();
  return {};
}

BANTER_GAME_THREAD Refusal Engine::turn(NpcObject& npc, bool reset, dialogue::Role role, std::string_view text) {
  if (text.size() > channels_.text.capacity_bytes()) return kTextTooLong;
  CommandQueue::Lease lease;
  if (!channels_.commands.claim(lease)) return kBusyProducers;
  const uint32_t index = channels_.turn_free.acquire();
  if (index == FreeList::kNone) return kBusyTurns;
  TurnSlot& turn = channels_.turns[index];
  turn.chain = FreeList::kNone;
  if (!text.empty()) {
    turn.chain = channels_.text.acquire(text.size());
    if (turn.chain == FreeList::kNone) {
      channels_.turn_free.release(index);
      return kBusyText;
    }
    ChainCursor(channels_.text, turn.chain).write(text.data(), text.size());
  }
  turn.npc = &npc;
  turn.reset = reset;
  turn.role = role;
  turn.text_bytes = text.size();
  channels_.commands.post(lease, {Command::kTurn, index});
  channels_.signal.post();
  return {};
}

BANTER_GAME_THREAD bool Engine::cancel(banter_request_id request) {
  if (!channels_.slots.cancel(request)) return false;
  channels_.cancels.fetch_add(1, std::memory_order_acq_rel);
  channels_.signal.post();
  return true;
}

BANTER_GAME_THREAD void Engine::free_slot_references(uint32_t index) {
  RequestSlot& slot = channels_.slots[index];
  if (slot.blob != nullptr) {
    channels_.spent_blobs.push(slot.blob.release());
    channels_.signal.post();
  }
  NpcObject* const npc = std::exchange(slot.npc, nullptr);
  ModelObject* const model = std::exchange(slot.model, nullptr);
  // Freeing memory is the engine thread's work; it may take its time.
  if (npc != nullptr && npc->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    announce(npc->unused, Notice::kNpcUnused, npc);
  }
  if (model != nullptr && model->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    announce(model->unused, Notice::kModelUnused, model);
  }
}

/** What a submission will write to, asked for when the game polls, as it does once a frame before it says something. */
BANTER_GAME_THREAD void Engine::prefetch_for_submit() const {
  const CommandQueue::Lease lease;
  channels_.commands.prefetch(lease);
  channels_.slots.prefetch_next();
  prefetch_for_write(&channels_.signal, 1);
}

BANTER_GAME_THREAD banter_result Engine::poll(banter_event* events, size_t stride, uint32_t capacity,
                                              uint32_t* out_count) {
  const auto polled = channels_.events.poll(reinterpret_cast<std::byte*>(events), stride, capacity,
                                            [this](uint32_t slot) { free_slot_references(slot); });
  *out_count = polled.count;
  prefetch_for_submit();
  if (polled.wake_engine) channels_.signal.post();
  return polled.code;
}

void Engine::set_frame_budget(uint64_t ns) {
  channels_.controls.frame_budget_ns.store(ns, std::memory_order_relaxed);
  channels_.signal.post();
}

BANTER_GAME_THREAD void Engine::begin_frame() {
  channels_.controls.frames.fetch_add(1, std::memory_order_release);
  channels_.signal.post();
}

void Engine::set_share(float share) {
  channels_.controls.share.store(share, std::memory_order_relaxed);
  channels_.signal.post();
}

void Engine::set_budget(uint64_t bytes) {
  channels_.controls.budget_bytes.store(bytes, std::memory_order_relaxed);
  channels_.controls.budget_changes.fetch_add(1, std::memory_order_release);
  channels_.signal.post();
}

void Engine::set_paused(bool paused) {
  channels_.controls.is_paused.store(paused, std::memory_order_release);
  channels_.signal.post();
}

void Engine::statistics(banter_engine_statistics& out) const {
  const Figures& figures = channels_.figures;
  const auto get = [](const auto& figure) { return figure.load(std::memory_order_relaxed); };
  out.steps = get(figures.steps);
  out.prefill_tokens = get(figures.prefill_tokens);
  out.decode_tokens = get(figures.decode_tokens);
  out.requests_finished = get(figures.finished);
  out.requests_submitted = std::max(get(figures.submitted), out.requests_finished);
  out.requests_active = static_cast<uint32_t>(out.requests_submitted - out.requests_finished);
  out.models_loaded = get(figures.models_loaded);
  out.weight_bytes = get(figures.weight_bytes);
  out.kv_bytes_total = get(figures.kv_bytes_total);
  out.kv_bytes_used = get(figures.kv_bytes_used);
  out.busy_microseconds = get(figures.busy_ns) / 1000;
  out.events_delayed = get(figures.events_delayed);
  channels_.metrics.read(now_ns(), out);
}

Result<void> Engine::trace_start(size_t records) {
  return channels_.tracer.start(channels_.config.host, records, channels_.signal);
}

Result<void> Engine::trace_stop(TraceSink sink, void* user_data) {
  auto ring = channels_.tracer.stop(channels_.signal);
  if (!ring) return ring.error();
  if (sink != nullptr && !write_trace(**ring, sink, user_data)) {
    return Error{BANTER_ERROR_IO, "The trace's writer refused a piece of it; the recording is gone."};
  }
  return {};
}

// ---------------------------------------------------------------- objects

void Engine::announce(Notice& notice, Notice::Kind kind, void* object) {
  notice.kind = kind;
  notice.object = object;
  notice.barrier = channels_.commands.barrier();
  channels_.notices.push(&notice);
}

Result<ModelObject*> Engine::load(LoadSource source, LoadSettings settings, ModelObject* draft, void* user_data,
                                  banter_request_id* out_request) {
  auto* const model = channels_.config.host.make<ModelObject>();
  if (model == nullptr) return Error{BANTER_ERROR_OUT_OF_MEMORY, "No memory for a model's handle."};
  const uint32_t index = channels_.slots.acquire();
  if (index == SlotTable::kNone) {
    channels_.config.host.destroy(model);
    return Error{kBusySlots.code, kBusySlots.message};
  }
  model->engine = this;
  model->source = std::move(source);
  model->settings = std::move(settings);
  model->draft = draft;
  if (draft != nullptr) draft->references.fetch_add(1, std::memory_order_relaxed);
  model->user_data = user_data;
  model->load_slot = index;
  RequestSlot& slot = channels_.slots[index];
  slot.kind = RequestKind::kLoad;
  slot.model = model;
  slot.npc = nullptr;
  slot.user_data = user_data;
  slot.flags = slot.max_tokens = slot.deadline_ms = 0;
  slot.priority = 0;
  slot.has_sampling = false;
  slot.chain = FreeList::kNone;
  slot.text_bytes = 0;
  slot.bias_count = slot.stop_token_count = slot.stop_string_count = slot.banned_string_count = 0;
  slot.submitted_ns = now_ns();
  *out_request = channels_.slots.id(index);
  announce(model->created, Notice::kModelCreated, model);
  channels_.signal.post();
  return model;
}

void Engine::release(ModelObject& model) {
  announce(model.released, Notice::kModelReleased, &model);
  channels_.cancels.fetch_add(1, std::memory_order_acq_rel);
  channels_.signal.post();
}

Result<NpcObject*> Engine::create_npc(ModelObject& model, const NpcSettings& settings) {
  auto* const npc = channels_.config.host.make<NpcObject>();
  if (npc == nullptr) return Error{BANTER_ERROR_OUT_OF_MEMORY, "No memory for a character."};
  const Result<void> filled = guarded([&]() -> Result<void> {
    npc->persona.assign(settings.persona);
    npc->examples.assign(settings.examples.begin(), settings.examples.end());
    npc->stop_strings.assign(settings.stop_strings.begin(), settings.stop_strings.end());
    for (size_t i = 0; i < settings.bias_tokens.size(); ++i) {
      npc->logit_bias.emplace_back(settings.bias_tokens[i], settings.bias_values[i]);
    }
    npc->dry_breakers.assign(settings.dry_breakers.begin(), settings.dry_breakers.end());
    return {};
  });
  if (!filled) {
    channels_.config.host.destroy(npc);
    return filled.error();
  }
  npc->engine = this;
  npc->model = &model;
  npc->context_tokens = settings.context_tokens;
  npc->reply_reserve_tokens = settings.reply_reserve_tokens;
  npc->policy = settings.policy;
  npc->has_sampling = settings.has_sampling;
  npc->sampling = settings.sampling;
  npc->priority = settings.priority;
  npc->user_data = settings.user_data;
  model.references.fetch_add(1, std::memory_order_relaxed);
  announce(npc->created, Notice::kNpcCreated, npc);
  return npc;
}

void Engine::destroy_npc(NpcObject& npc) {
  announce(npc.destroyed, Notice::kNpcDestroyed, &npc);
  channels_.cancels.fetch_add(1, std::memory_order_acq_rel);
  channels_.signal.post();
}

}  // namespace banter::engine
