// The part of the engine thread that lets models compute: a step of each in turn, as far as its requests matter.
#include <algorithm>
#include <utility>

#include "engine/engine_thread.h"
#include "engine/guard.h"

namespace banter::engine {

bool EngineThread::step_models() {
  gave_up_before_ = std::exchange(gave_up_, false);
  size_t active = 0;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr && model->runner->has_work()) ++active;
  }
  int32_t highest = -1;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) highest = std::max(highest, model->runner->look(active > 1).priority);
  }
  // Where those that matter more cannot go on after all (they wait for pages, say), the others can.
  return step_round(highest) || (!gave_up_ && step_round(-1));
}

/** A step of each model whose requests have `highest` priority, or that has stood back for long enough. */
bool EngineThread::step_round(int32_t highest) {
  bool worked = false;
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    ModelRunner* const runner = model->runner.get();
    if (runner == nullptr || !runner->has_work() || !runner->takes_part(highest)) continue;
    if (worked) {
      // Of the models before: their words need not wait for this one, which begins when the limits allow.
      flush();
      if (gave_up_ || !rest().goes_on) break;
      pace_.at_once_ns = pacer_.allowance(now_ns());
    }
    pace_.others = others_of(*runner);
    const uint64_t began = now_ns();
    if (!step(*runner)) continue;
    worked = true;
    const uint64_t taken = now_ns() - began;
    for (ModelObject* other = models_; other != nullptr; other = other->next_tracked) {
      if (other->runner == nullptr || other->runner->takes_part(highest)) continue;
      other->runner->stand_back(taken, runner->last_step_ns());
    }
  }
  return worked;
}

Standing EngineThread::others_of(const ModelRunner& runner) const {
  Standing sum;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner == nullptr || model->runner.get() == &runner) continue;
    const Standing& one = model->runner->standing();
    sum.priority = std::max(sum.priority, one.priority);
    sum.streaming_priority = std::max(sum.streaming_priority, one.streaming_priority);
    sum.streaming_ns += one.streaming_ns;
  }
  return sum;
}

bool EngineThread::step(ModelRunner& runner) {
  bool worked = false;
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
