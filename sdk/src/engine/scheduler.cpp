#include "engine/scheduler.h"

#include <algorithm>

namespace banter::engine {

int32_t aged_priority(int32_t priority, uint64_t waited_ns) {
  constexpr uint64_t kLevelNs = 2'000'000'000;
  const auto levels = static_cast<int32_t>(std::min<uint64_t>(waited_ns / kLevelNs, kHighestPriority));
  return std::min(kHighestPriority, priority + levels);
}

void plan_step(std::span<Candidate> candidates, const StepLimits& limits, std::vector<Candidate*>& scratch) {
  const int32_t budget = std::max(1, limits.rows);
  int32_t logit_rows = std::max(1, limits.logit_rows);
  bool prefill_waits = false;
  scratch.clear();
  for (Candidate& c : candidates) {
    c.rows = 0;
    if (c.decoding && c.pending == 1) {
      scratch.push_back(&c);
    } else if (c.pending > 0) {
      prefill_waits = true;
    }
  }
  const bool decode_waits = !scratch.empty();

  int32_t reserved = prefill_waits ? std::max(1, budget / 4) : 0;
  if (budget == 1 && prefill_waits) reserved = decode_waits && limits.step % 2 == 0 ? 0 : 1;
  int32_t decode_rows = std::min(budget - reserved, logit_rows);
  // With one logit row decoders would take it every time, and no prompt could finish.
  if (prefill_waits && decode_rows == logit_rows && reserved > 0 && (logit_rows > 1 || limits.step % 2 == 1)) {
    --decode_rows;
  }
  std::sort(scratch.begin(), scratch.end(), [](const Candidate* a, const Candidate* b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->served_step != b->served_step) return a->served_step < b->served_step;
    return a->arrival < b->arrival;
  });
  int32_t used = 0;
  for (Candidate* c : scratch) {
    if (used >= decode_rows) break;
    c->rows = 1;
    ++used;
  }
  logit_rows -= used;

  int32_t prefill = budget - used;
  if (used > 0) prefill = std::min(prefill, std::max(0, limits.prefill_rows));
  scratch.clear();
  for (Candidate& c : candidates) {
    if (c.pending > 0 && !(c.decoding && c.pending == 1)) scratch.push_back(&c);
  }
  std::sort(scratch.begin(), scratch.end(), [](const Candidate* a, const Candidate* b) { return a->before(*b); });
  for (Candidate* c : scratch) {
    if (prefill <= 0) break;
    int32_t rows = std::min(c->pending, prefill);
    if (rows == c->pending) {
      // A prompt's last row wants logits.
      if (logit_rows <= 0) --rows;
      if (rows == 0) continue;
      if (rows == c->pending) --logit_rows;
    }
    c->rows = rows;
    prefill -= rows;
  }
}

}  // namespace banter::engine
