// The part of the engine thread that leaves time to the game: limits, rests in the middle of steps, sleep.
#include <algorithm>
#include <utility>

#include "engine/engine_thread.h"

namespace banter::engine {

void EngineThread::read_limits(uint64_t now) {
  const Controls& controls = channels_.controls;
  const uint64_t budget = controls.frame_budget_ns.load(std::memory_order_relaxed);
  if (budget != std::exchange(frame_budget_ns_, budget)) pacer_.set_frame_budget(budget, now);
  const float share = controls.share.load(std::memory_order_relaxed);
  if (share != std::exchange(share_, share)) pacer_.set_share(static_cast<double>(share), now);
  const uint64_t frames = controls.frames.load(std::memory_order_acquire);
  if (frames != frames_seen_) pacer_.frames(frames - std::exchange(frames_seen_, frames), now);
}

/** What was computed since the last time is spent. Returns the time. */
uint64_t EngineThread::settle() {
  const uint64_t now = now_ns();
  pacer_.spend(now - working_since_);
  channels_.figures.busy_ns.fetch_add(now - working_since_, std::memory_order_relaxed);
  working_since_ = now;
  return now;
}

Rest EngineThread::rest() {
  const uint64_t began = settle();
  for (uint64_t now = began;; now = now_ns()) {
    working_since_ = now;
    read_limits(now);
    if (pacer_.allowance(now) > 0) return {now - began, true};
    if (is_waited_for(now)) {
      gave_up_ = true;
      return {now - began, false};
    }
    // A signal of something else wakes it too, and is not lost: after a step everything is looked at.
    // Deadlines that pass meanwhile end it, unless a step was given up just now.
    sleep_until(gave_up_before_ ? pacer_.wake_at(now) : std::min(pacer_.wake_at(now), next_deadline()));
  }
}

/** Somebody waits for what is done between steps, and would long have been served if none was being computed. After a step
 *  that was given up the next one goes on nevertheless: whoever cancels all the time must not keep everybody silent. */
bool EngineThread::is_waited_for(uint64_t now) {
  if (channels_.stop.load(std::memory_order_acquire)) return true;
  if (gave_up_before_) return false;
  if (queued_deadline_ <= now) queued_deadline_ = earliest_queued();  // who had it may have begun since
  return channels_.cancels.load(std::memory_order_acquire) != cancels_seen_ || next_deadline() <= now ||
         channels_.tracer.is_awaited();
}

/** Until a signal, until the pacer lets a step begin, or until a deadline passes. */
void EngineThread::sleep() {
  const uint64_t until = std::min(wake_at_, next_deadline());
  if (until == UINT64_MAX) return channels_.signal.wait();
  sleep_until(until);
}

/** Of the requests that have not begun; UINT64_MAX: there is none. */
uint64_t EngineThread::next_deadline() const {
  uint64_t until = queued_deadline_;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) until = std::min(until, model->runner->next_deadline());
    if (model->fallback == nullptr) continue;
    for (const Generation* generation : model->fallback->stranded) {
      if (generation->reply_tokens.empty()) until = std::min(until, generation->deadline_ns);
    }
  }
  return until;
}

void EngineThread::sleep_until(uint64_t until) {
  const uint64_t now = now_ns();
  const uint64_t ms = until > now ? (until - now + 999'999) / 1'000'000 : 0;
  if (ms > 0) channels_.signal.wait_for(static_cast<uint32_t>(std::min<uint64_t>(ms, 60'000)));
}

}  // namespace banter::engine
