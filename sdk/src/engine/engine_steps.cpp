// The part of the engine thread that lets models compute: a step of each in turn, as far as its requests matter.
#include <algorithm>
#include <utility>

#include "engine/engine_thread.h"
#include "engine/guard.h"

namespace banter::engine {

namespace {

/** What models with less important requests get, together, for each nanosecond of the others. */
constexpr double kLowerShare = 1.0 / 3;
/** Most that is kept for them while they cannot go on. */
constexpr double kMostCreditNs = 100e6;

/** Of the models that `is_meant`, the one whose last turn is longest ago; null: there is none. */
template <class F>
ModelRunner* longest_waiting(ModelObject* models, F&& is_meant) {
  ModelRunner* next = nullptr;
  for (ModelObject* model = models; model != nullptr; model = model->next_tracked) {
    ModelRunner* const runner = model->runner.get();
    if (runner == nullptr || !is_meant(*runner)) continue;
    if (next == nullptr || runner->turn < next->turn) next = runner;
  }
  return next;
}

}  // namespace

bool EngineThread::step_models() {
  gave_up_before_ = std::exchange(gave_up_, false);
  const uint64_t began = now_ns(), first_turn = turns_ + 1;
  const int32_t highest = look_at_models();
  const bool streams = others_of(nullptr).streaming_priority >= std::max(highest, 0);
  bool worked = false, prompts = false;
  size_t lower = 0;
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    ModelRunner* const runner = model->runner.get();
    if (runner == nullptr || !runner->has_work()) continue;
    if (runner->standing().priority < highest) {
      lower += runner->standing().priority >= 0;
      continue;
    }
    if (streams && runner->standing().only_prompts()) {
      prompts = true;
      continue;
    }
    if (!may_go_on(worked)) return true;
    worked = step(*runner) || worked;
    lower_credit_ns_ += kLowerShare * runner->last_step_ns();
  }
  if (prompts) worked = step_prompts(highest, first_turn, worked);
  if (lower == 0) {
    lower_credit_ns_ = 0;  // what was before somebody stood back is nobody's debt
    return worked;
  }
  worked = step_lower(highest, lower, worked);
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    ModelRunner* const runner = model->runner.get();
    const bool stood_back = runner != nullptr && runner->standing().priority < highest && runner->turn < first_turn;
    if (stood_back) runner->wait(now_ns() - began);
  }
  return worked;
}

/** Returns the highest priority of a request that could go on, where several models have some; else -1. */
int32_t EngineThread::look_at_models() {
  size_t active = 0;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr && model->runner->has_work()) ++active;
  }
  int32_t highest = -1;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) highest = std::max(highest, model->runner->look(active > 1).priority);
  }
  return highest;
}

/** A step of one model that has only prompts to compute, where replies that matter as much stream: each such step reads a whole
 *  model, and in a round of all of them the replies would wait for as many. Who waited longest comes first. */
bool EngineThread::step_prompts(int32_t highest, uint64_t first_turn, bool worked) {
  for (bool stepped = false; !stepped && may_go_on(worked);) {
    ModelRunner* const next = longest_waiting(models_, [&](const ModelRunner& runner) {
      const Standing& s = runner.standing();
      return s.priority >= highest && s.only_prompts() && runner.turn < first_turn;
    });
    if (next == nullptr) break;
    next->turn = ++turns_;
    stepped = step(*next);
    worked = stepped || worked;
    lower_credit_ns_ += kLowerShare * next->last_step_ns();
  }
  return worked;
}

/** Steps of the models whose requests are less important, as far as their share of the time goes, or where nobody else can go
 *  on (they wait for pages, say). Who waited longest comes first. */
bool EngineThread::step_lower(int32_t highest, size_t count, bool worked) {
  const bool is_shared = worked;  // else all the time is theirs
  lower_credit_ns_ = std::min(lower_credit_ns_, kMostCreditNs);
  for (size_t left = count; left > 0 && (lower_credit_ns_ > 0 || !worked);) {
    ModelRunner* const next = longest_waiting(models_, [&](const ModelRunner& runner) {
      return runner.standing().priority >= 0 && runner.standing().priority < highest;
    });
    if (next == nullptr || !may_go_on(worked)) break;
    next->turn = ++turns_;
    if (!step(*next)) {
      --left;
      continue;
    }
    worked = true;
    left = count;
    if (!is_shared || next->last_step_ns() <= 0) break;  // by the latter: given up, or failed
    lower_credit_ns_ -= next->last_step_ns();
  }
  return worked;
}

/** Before a step. Where others went before in this round, their words need not wait for it, nor does who cancels, or whose time is
 *  up; and it begins when the limits allow. */
bool EngineThread::may_go_on(bool worked) {
  if (!worked) return true;
  const bool is_over = round_is_over();  // asked before cancels are seen to: objects that go are announced likewise
  look_for_cancels();
  expire_requests();
  flush();
  if (is_over || !rest().goes_on || round_is_over()) return false;
  pace_.at_once_ns = pacer_.allowance(now_ns());
  return true;
}

/** What is done between rounds ends this one, unless it ended the one before. */
bool EngineThread::round_is_over() {
  const Controls& controls = channels_.controls;
  const bool is_waited_for = channels_.cancels.load(std::memory_order_acquire) != cancels_seen_ ||
                             controls.budget_changes.load(std::memory_order_acquire) != budget_changes_seen_ ||
                             channels_.tracer.is_awaited();
  if (is_waited_for && !gave_up_before_) gave_up_ = true;
  return gave_up_ || channels_.stop.load(std::memory_order_acquire) ||
         controls.is_paused.load(std::memory_order_acquire);
}

Standing EngineThread::others_of(const ModelRunner* runner) const {
  Standing sum;
  bool one_has_only_prompts = false;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner == nullptr || model->runner.get() == runner) continue;
    const Standing& one = model->runner->standing();
    sum.priority = std::max(sum.priority, one.priority);
    sum.streaming_priority = std::max(sum.streaming_priority, one.streaming_priority);
    sum.streaming_ns += one.streaming_ns;
    if (runner == nullptr || one.priority < runner->standing().priority) continue;
    if (one.only_prompts()) {
      one_has_only_prompts = !runner->standing().only_prompts();  // they take turns
    } else {
      sum.prompts += one.prompts;
    }
  }
  if (one_has_only_prompts) ++sum.prompts;
  return sum;
}

bool EngineThread::step(ModelRunner& runner) {
  bool worked = false;
  pace_.others = others_of(&runner);
  const Result<void> stepped = guarded([&]() -> Result<void> {
    worked = runner.step(pace_);
    return {};
  });
  if (!stepped) {
    // No memory in the middle of a step: whoever took part cannot go on.
    for (size_t left = runner.running().size(); left > 0; --left) {
      Generation& generation = *runner.running().front();          // finish() takes it out, new ones come in behind
      if (generation.cache != nullptr) generation.cache->clear();  // nobody knows what of it is right
      if (generation.terminal == 0) {
        end_with(generation, BANTER_EVENT_FAILED, stepped.error().code, BANTER_FINISH_NONE, stepped.error().message);
      }
      finish(generation);
    }
    return true;
  }
  // finish() may start the next request of a character, which may fail at once and be finished in turn; ended() is of
  // this step only.
  for (size_t i = 0; i < runner.ended().size(); ++i) finish(*runner.ended()[i]);
  return worked;
}

}  // namespace banter::engine
