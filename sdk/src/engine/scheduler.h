// What one step computes: which sequences, and how many rows of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace banter::engine {

/** Most important of the priorities, which begin at 0. */
inline constexpr int32_t kHighestPriority = 7;

/** The priority of a sequence that could go on and was left standing for `waited_ns` in all: it rises by a level every two
 *  seconds, so that what is unimportant ends too. */
int32_t aged_priority(int32_t priority, uint64_t waited_ns);

/** A sequence that could go on. */
struct Candidate {
  int32_t priority = 0;               // higher goes first
  uint64_t arrival = 0;               // lower goes first among equals, deadlines apart
  int32_t pending = 0;                // tokens not computed yet, at least 1
  bool decoding = false;              // its reply has begun: `pending` is the newest token (more after a preemption)
  uint64_t served_step = 0;           // step that last computed something of it
  int32_t rows = 0;                   // [out] rows in this step, 0 = none
  uint64_t deadline_ns = UINT64_MAX;  // earlier goes first among equals in priority

  /** Order of who may take pages from whom, and who is prefilled first. */
  bool before(const Candidate& other) const {
    if (priority != other.priority) return priority > other.priority;
    return deadline_ns != other.deadline_ns ? deadline_ns < other.deadline_ns : arrival < other.arrival;
  }
};

struct StepLimits {
  int32_t rows = 1;          // token budget of a step
  int32_t prefill_rows = 1;  // of these for prefill while somebody decodes; 0: none in this step
  int32_t logit_rows = 1;    // sequences that can get a next token in one step
  uint64_t step = 0;         // number of this step
};

/** Fills in `rows` of every candidate: decode first (by priority, then who was served longest ago), then prefill in
 *  chunks (by priority, then arrival). Where prefill waits, it gets at least a quarter of the rows, and every other step
 *  when there is only one row. Every call serves somebody when there is a candidate. `scratch` keeps its memory. */
void plan_step(std::span<Candidate> candidates, const StepLimits& limits, std::vector<Candidate*>& scratch);

}  // namespace banter::engine
