// The part of the engine thread that has the processor take over from a card that fails.
#include <algorithm>
#include <utility>

#include "engine/engine_thread.h"
#include "engine/guard.h"

namespace banter::engine {

void EngineThread::look_after_losses() {
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr && model->runner->lost()) fall_back(*model);
  }
}

/** The model is loaded again for the processor, before other models; what runs waits for it and goes on, its tokens kept, its
 *  pages computed anew. Until then everything is as while a model loads for the first time. */
void EngineThread::fall_back(ModelObject& model) {
  // What needs memory comes first: a failure leaves all as it is, for the next round.
  auto fallback = std::make_unique<Fallback>();
  fallback->reason = "CUDA is not used any more: " + model.runner->lost()->message;
  fallback->fingerprint = model.runner->loaded().fingerprint;
  load_queue_.push_front(&model);
  log(BANTER_LOG_WARNING, [&] {
    return fallback->reason + " " + model.facts.load(std::memory_order_relaxed)->name +
           " is loaded again for the processor, where its requests go on.";
  });
  model.runner->strand(*fallback);
  model.fallback = std::move(fallback);
  unload(model);
  channels_.signal.post();  // the loads are looked after in the next round
}

/** What began with the card goes on. */
void EngineThread::adopt_stranded(ModelObject& model) {
  std::vector<Generation*>& stranded = model.fallback->stranded;
  while (!stranded.empty()) {
    Generation& generation = *stranded.front();
    stranded.erase(stranded.begin());
    const Result<void> adopted = guarded([&]() -> Result<void> {
      model.runner->adopt(generation);
      return {};
    });
    if (!adopted && generation.terminal == 0) {
      end_with(generation, BANTER_EVENT_FAILED, adopted.error().code, BANTER_FINISH_NONE, adopted.error().message);
    }
    if (generation.terminal != 0) finish(generation);
  }
}

void EngineThread::expire_stranded(ModelObject& model, uint64_t now) {
  const std::vector<Generation*>& stranded = model.fallback->stranded;
  for (size_t i = 0; i < stranded.size();) {
    if (!is_overdue(*stranded[i], now)) {
      ++i;
      continue;
    }
    end_overdue(*stranded[i]);
    finish(*stranded[i]);  // takes it out
  }
}

}  // namespace banter::engine
