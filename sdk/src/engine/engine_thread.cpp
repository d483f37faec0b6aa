#include "engine/engine_thread.h"

#include <algorithm>

#include "engine/guard.h"

namespace banter::engine {
namespace {

/** With limits, the time from beginning to end of a step that rests between its layers: in shorter ones all weights would be
 *  read for few rows, in longer ones whoever comes would wait. */
constexpr uint64_t kRestingStepNs = 133'000'000;

}  // namespace

EngineThread::EngineThread(Channels& channels) : channels_(channels), loader_(channels.signal) {
  pace_.rest = [this] { return rest(); };
  budget_bytes_ = channels.config.memory_budget_bytes;
  generations_.resize(channels.slots.size());
  ended_.reserve(channels.slots.size());
  waiting_.reserve(channels.slots.size());
}

EngineThread::~EngineThread() = default;

void EngineThread::run() {
  configure_this_thread("banter-engine", channels_.config.affinity_mask, channels_.config.low_priority);
  while (!channels_.stop.load(std::memory_order_acquire)) {
    channels_.signal.reset();
    bool worked = false;
    const Result<void> ran = guarded([&]() -> Result<void> {
      worked = iterate();
      return {};
    });
    if (!ran) {
      // Memory ran out in between; what was left undone is done when there is some again.
      channels_.config.log.write(BANTER_LOG_ERROR, ran.error().message);
      channels_.signal.wait_for(10);
    } else if (!worked && !channels_.stop.load(std::memory_order_acquire)) {
      sleep();
    }
  }
  loader_.stop();
}

bool EngineThread::iterate() {
  channels_.free_spent_blobs();
  channels_.tracer.adopt([this] {
    for (const std::unique_ptr<Generation>& generation : generations_) {
      if (generation != nullptr && generation->terminal == 0) trace_life(channels_, *generation);
    }
  });
  read_controls();  // before the commands: what was set before them holds for them
  take_commands();
  look_for_cancels();
  look_after_loads();
  expire_requests();
  flush();
  wake_at_ = UINT64_MAX;
  bool worked = false;
  if (!channels_.controls.is_paused.load(std::memory_order_acquire)) {
    const uint64_t now = now_ns();
    const uint64_t allowance = pacer_.allowance(now);
    if (allowance > 0) {
      working_since_ = now;
      pace_.at_once_ns = allowance;
      pace_.resting_ns = pacer_.part_of(kRestingStepNs);
      worked = step_models();
      if (worked) settle();
    } else if (has_work()) {
      wake_at_ = pacer_.wake_at(now);
    }
  }
  look_after_losses();
  update_figures();
  if (worked) flush();
  return worked;
}

void EngineThread::read_controls() {
  const Controls& controls = channels_.controls;
  read_limits(now_ns());
  const uint64_t changes = controls.budget_changes.load(std::memory_order_acquire);
  if (changes != std::exchange(budget_changes_seen_, changes)) {
    budget_bytes_ = controls.budget_bytes.load(std::memory_order_relaxed);
    apply_budget();
  }
}

bool EngineThread::has_work() const {
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr && model->runner->has_work()) return true;
  }
  return false;
}

void EngineThread::expire_requests() {
  const uint64_t now = now_ns();
  if (queued_deadline_ <= now) expire_queued(now);
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->fallback != nullptr) expire_stranded(*model, now);
    ModelRunner* const runner = model->runner.get();
    if (runner == nullptr || runner->next_deadline() > now) continue;
    runner->expire(now);
    for (size_t i = 0; i < runner->ended().size(); ++i) finish(*runner->ended()[i]);
  }
}

void EngineThread::expire_queued(uint64_t now) {
  for (const std::unique_ptr<Generation>& generation : generations_) {
    if (generation == nullptr || !generation->is_queued() || !is_overdue(*generation, now)) continue;
    end_overdue(*generation);
    leave_queue(*generation);
    finish(*generation);
  }
  queued_deadline_ = earliest_queued();
}

uint64_t EngineThread::earliest_queued() const {
  uint64_t earliest = UINT64_MAX;
  for (const std::unique_ptr<Generation>& generation : generations_) {
    if (generation != nullptr && generation->is_queued()) earliest = std::min(earliest, generation->deadline_ns);
  }
  return earliest;
}

// ---------------------------------------------------------------- commands and notices

void EngineThread::take_commands() {
  // Read before the notices are taken: the object that a command below it names was announced before, and is among them.
  const uint64_t limit = channels_.commands.barrier();
  Notice** last = &notices_;
  while (*last != nullptr) last = &(*last)->next;
  *last = channels_.notices.take_all();
  channels_.commands.collect();
  while (notices_ != nullptr) {
    take_until(std::min(notices_->barrier, limit));
    if (!channels_.commands.reached(notices_->barrier)) return;
    Notice& notice = *notices_;
    notices_ = notice.next;
    apply(notice);
  }
  take_until(limit);
}

void EngineThread::take_until(uint64_t barrier) {
  while (const auto command = channels_.commands.take(barrier)) {
    if (command->kind == Command::kRequest) {
      on_request(command->index);
    } else {
      on_turn(command->index);
    }
  }
}

void EngineThread::apply(Notice& notice) {
  auto* const model = static_cast<ModelObject*>(notice.object);
  auto* const npc = static_cast<NpcObject*>(notice.object);
  switch (notice.kind) {
    case Notice::kModelCreated:
      return track(*model);
    case Notice::kModelReleased:
      return release(*model);
    case Notice::kModelUnused:
      return drop_reference(*model);
    case Notice::kNpcCreated:
      return track(*npc);
    case Notice::kNpcDestroyed:
      return end_npc(*npc);
    case Notice::kNpcUnused:
      return drop_reference(*npc);
  }
}

void EngineThread::on_request(uint32_t slot_index) {
  RequestSlot& slot = channels_.slots[slot_index];
  accept(slot);
  std::unique_ptr<Generation> generation;
  const Result<void> received = guarded([&]() -> Result<void> {
    generation = receive(channels_, slot_index);
    return {};
  });
  channels_.text.release(std::exchange(slot.chain, FreeList::kNone));
  if (!received) return refuse(slot_index, received.error());
  generation->arrival = ++arrivals_;
  Generation& placed = *generation;
  generations_[slot_index] = std::move(generation);
  if (slot.cancel_requested()) return end(placed, BANTER_EVENT_CANCELLED, BANTER_OK, {});
  const Result<void> routed = guarded([&]() -> Result<void> {
    route(placed);
    return {};
  });
  if (!routed && placed.terminal == 0) end(placed, BANTER_EVENT_FAILED, routed.error().code, routed.error().message);
}

/** The slot refers to its objects until it is free again. Counted here and not by the caller: a notice that an object goes
 *  takes effect after the commands before it, so the object is still there. */
void EngineThread::accept(RequestSlot& slot) {
  slot.model->references.fetch_add(1, std::memory_order_relaxed);
  if (slot.npc != nullptr) slot.npc->references.fetch_add(1, std::memory_order_relaxed);
  channels_.figures.submitted.fetch_add(1, std::memory_order_relaxed);
}

void EngineThread::refuse(uint32_t slot_index, const Error& error) {
  RequestSlot& slot = channels_.slots[slot_index];
  slot.terminal = BANTER_EVENT_FAILED;
  slot.code = error.code;
  slot.finish_reason = BANTER_FINISH_NONE;
  slot.tail_token_count = 0;
  slot.message_len = static_cast<uint32_t>(error.message.copy(slot.message, sizeof slot.message - 1));
  slot.message[slot.message_len] = '\0';
  channels_.figures.finished.fetch_add(1, std::memory_order_relaxed);
  slot.state.fetch_or(RequestSlot::kEnded, std::memory_order_acq_rel);
  channels_.events.push_terminal(slot_index);
}

void EngineThread::route(Generation& generation) {
  ModelObject& model = *generation.model;
  if (model.is_released) {
    return end(generation, BANTER_EVENT_FAILED, BANTER_ERROR_STATE, "The model has been released.");
  }
  if (model.status.load(std::memory_order_relaxed) == ModelObject::kFailed) {
    return end(generation, BANTER_EVENT_FAILED, BANTER_ERROR_STATE,
               "The model is not loaded: " + model.failure.message);
  }
  if (generation.npc == nullptr) {
    if (model.runner != nullptr) return begin(generation);
    waiting_.push_back(&generation);
    queued_deadline_ = std::min(queued_deadline_, generation.deadline_ns);
    return;
  }
  NpcObject& npc = *generation.npc;
  auto state = state_of(npc);
  if (!state) return end(generation, BANTER_EVENT_FAILED, state.error().code, state.error().message);
  NpcState::Item item;
  item.generation = &generation;
  (*state)->queue.push_back(std::move(item));
  advance(npc);
  if (generation.is_queued()) queued_deadline_ = std::min(queued_deadline_, generation.deadline_ns);
}

void EngineThread::on_turn(uint32_t turn_index) {
  TurnSlot& turn = channels_.turns[turn_index];
  NpcObject& npc = *turn.npc;
  NpcState::Item item;
  item.turn = turn_index;
  const Result<void> queued = guarded([&]() -> Result<void> {
    item.text.resize(turn.text_bytes);
    ChainCursor cursor(channels_.text, turn.chain);
    cursor.read(item.text.data(), item.text.size());
    auto state = state_of(npc);
    if (!state) return state.error();
    (*state)->queue.push_back(std::move(item));
    return {};
  });
  channels_.text.release(std::exchange(turn.chain, FreeList::kNone));
  if (!queued) {
    channels_.turn_free.release(turn_index);
    channels_.config.log.write(BANTER_LOG_ERROR, "A turn was lost for want of memory.");
    return;
  }
  advance(npc);
}

void EngineThread::look_for_cancels() {
  const uint64_t cancels = channels_.cancels.load(std::memory_order_acquire);
  if (cancels == cancels_seen_) return;
  cancels_seen_ = cancels;
  for (const std::unique_ptr<Generation>& generation : generations_) {
    if (generation == nullptr || generation->terminal != 0) continue;
    if (channels_.slots[generation->slot].cancel_requested()) cancel(*generation);
  }
}

// ---------------------------------------------------------------- characters

void EngineThread::track(NpcObject& npc) {
  npc.previous_tracked = nullptr;
  npc.next_tracked = npcs_;
  if (npcs_ != nullptr) npcs_->previous_tracked = &npc;
  npcs_ = &npc;
}

Result<NpcState*> EngineThread::state_of(NpcObject& npc) {
  if (npc.state == nullptr) {
    npc.state = std::make_unique<NpcState>(npc.persona, npc.examples, npc.policy);
    if (npc.model->runner != nullptr) npc.model->runner->remember(npc);
  }
  return npc.state.get();
}

void EngineThread::advance(NpcObject& npc) {
  NpcState* const state = npc.state.get();
  // A request that ends at once comes back here from inside; the loop below goes on, so that the stack does not grow.
  if (state == nullptr || state->advancing) return;
  struct Advancing {
    bool& flag;
    ~Advancing() { flag = false; }
  } const advancing{state->advancing = true};
  ModelRunner* const runner = npc.model->runner.get();
  // Turns need no model, but must not overtake the requests before them.
  while (state->running == nullptr && !state->queue.empty()) {
    if (state->queue.front().generation != nullptr && runner == nullptr) break;
    if (state->summary != nullptr) break;
    NpcState::Item item = std::move(state->queue.front());
    state->queue.erase(state->queue.begin());
    if (item.generation == nullptr) {
      apply_turn(npc, item);
      continue;
    }
    state->running = item.generation;
    begin(*item.generation);
  }
  // Whoever waits for the reply before, or for a summary, lends it its own urgency.
  Generation* const awaited = state->running != nullptr ? state->running : state->summary;
  if (awaited == nullptr) return;
  for (const NpcState::Item& item : state->queue) {
    if (item.generation != nullptr) awaited->priority = std::max(awaited->priority, item.generation->priority);
  }
}

void EngineThread::apply_turn(NpcObject& npc, NpcState::Item& item) {
  TurnSlot& turn = channels_.turns[item.turn];
  const bool reset = turn.reset;
  const dialogue::Role role = turn.role;
  channels_.turn_free.release(item.turn);
  if (reset) {
    npc.state->conversation.reset();
    return;
  }
  const ModelRunner* const runner = npc.model->runner.get();
  const size_t limit = runner != nullptr ? runner->turn_bytes_limit() : size_t{1} << 20;
  const Result<void> added = guarded([&]() -> Result<void> {
    npc.state->conversation.add(role, std::move(item.text), limit);
    return {};
  });
  if (!added) channels_.config.log.write(BANTER_LOG_ERROR, "A turn was lost for want of memory.");
  if (npc.state->conversation.wants_summary()) start_summary(npc);
}

void EngineThread::end_npc(NpcObject& npc) {
  npc.is_destroyed = true;
  if (NpcState* const state = npc.state.get()) {
    // Ending the running one starts the next, so the queue goes first.
    std::vector<NpcState::Item> queue = std::exchange(state->queue, {});
    if (state->running != nullptr) end(*state->running, BANTER_EVENT_CANCELLED, BANTER_OK, {});
    for (NpcState::Item& item : queue) {
      if (item.generation != nullptr) {
        end(*item.generation, BANTER_EVENT_CANCELLED, BANTER_OK, {});
      } else {
        channels_.turn_free.release(item.turn);
      }
    }
    drop_summary(npc);
    if (npc.model->runner != nullptr) npc.model->runner->forget(npc);
    npc.state.reset();
  }
  if (npc.references.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_reference(npc);
}

/** Nobody refers to the character any more. */
void EngineThread::drop_reference(NpcObject& npc) {
  if (npc.previous_tracked != nullptr) npc.previous_tracked->next_tracked = npc.next_tracked;
  if (npc.next_tracked != nullptr) npc.next_tracked->previous_tracked = npc.previous_tracked;
  if (npcs_ == &npc) npcs_ = npc.next_tracked;
  ModelObject& model = *npc.model;
  npc.magic = ObjectMagic::kDead;
  channels_.config.host.destroy(&npc);
  if (model.references.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_reference(model);
}

// ---------------------------------------------------------------- generations

void EngineThread::begin(Generation& generation) {
  const Result<void> begun = guarded([&]() -> Result<void> {
    generation.model->runner->begin(generation);
    return {};
  });
  if (!begun && generation.terminal == 0) {
    end_with(generation, BANTER_EVENT_FAILED, begun.error().code, BANTER_FINISH_NONE, begun.error().message);
  }
  if (generation.terminal != 0) finish(generation);
}

void EngineThread::end(Generation& generation, banter_event_kind kind, banter_result code, std::string message) {
  if (generation.terminal != 0) return;
  end_with(generation, kind, code, BANTER_FINISH_NONE, std::move(message));
  finish(generation);
}

void EngineThread::cancel(Generation& generation) {
  if (generation.kind == RequestKind::kLoad) {
    ModelObject& model = *generation.model;
    if (loading_ == &model) return loader_.cancel();  // ends when the loader has let go of the file
    const auto at = std::find(load_queue_.begin(), load_queue_.end(), &model);
    if (at != load_queue_.end()) load_queue_.erase(at);
    return end_load(model, Error{BANTER_ERROR_CANCELLED, {}});
  }
  leave_queue(generation);
  end(generation, BANTER_EVENT_CANCELLED, BANTER_OK, {});
}

/** Its character's, where it waits there. */
void EngineThread::leave_queue(const Generation& generation) {
  if (generation.npc == nullptr || generation.npc->state == nullptr) return;
  std::erase_if(generation.npc->state->queue,
                [&](const NpcState::Item& item) { return item.generation == &generation; });
}

void EngineThread::finish(Generation& generation) {
  if (generation.kind == RequestKind::kSummary) return end_summary(generation);
  const auto waits = std::find(waiting_.begin(), waiting_.end(), &generation);
  if (waits != waiting_.end()) waiting_.erase(waits);
  if (generation.kind != RequestKind::kLoad && !retire(generation)) {
    channels_.config.log.write(BANTER_LOG_ERROR, "A reply was not remembered for want of memory.");
  }
  trace_life(channels_, generation);
  ended_.push_back(&generation);  // never grows: reserved for all slots
  NpcObject* const npc = generation.npc;
  if (npc == nullptr || npc->state == nullptr || npc->state->running != &generation) return;
  npc->state->running = nullptr;
  if (npc->is_destroyed) return;
  if (npc->state->conversation.wants_summary()) start_summary(*npc);
  advance(*npc);
}

/** Takes it out of where it runs or waits. Errors: OUT_OF_MEMORY, its conversation then lacks the reply. */
Result<void> EngineThread::retire(Generation& generation) {
  ModelObject& model = *generation.model;
  return guarded([&]() -> Result<void> {
    if (model.runner != nullptr) {
      model.runner->retire(generation);
    } else if (model.fallback != nullptr && std::erase(model.fallback->stranded, &generation) > 0) {
      keep_reply(generation);
    }
    return {};
  });
}

void EngineThread::flush() {
  size_t told = 0;
  for (; told < ended_.size(); ++told) {
    Generation& generation = *ended_[told];
    const uint32_t slot = generation.slot;
    if (!deliver(channels_, generation)) break;
    generations_[slot].reset();
  }
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(told));
  // Those that ended come first: a character's next reply must not overtake the end of the one before.
  if (!ended_.empty()) return;
  const auto tell = [&](const std::vector<Generation*>& generations) {
    for (Generation* generation : generations) {
      if (generation->kind == RequestKind::kSummary) {
        generation->out_text.clear();
      } else {
        (void)deliver(channels_, *generation);
      }
    }
  };
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) tell(model->runner->running());
    if (model->fallback != nullptr) tell(model->fallback->stranded);
  }
}

}  // namespace banter::engine
