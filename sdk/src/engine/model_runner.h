// Runs one model's requests: prompts, steps, tokens, and who may hold KV pages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/channels.h"
#include "engine/generation.h"
#include "engine/kv_allocator.h"
#include "engine/loaded_model.h"
#include "engine/objects.h"
#include "engine/scheduler.h"
#include "engine/speculator.h"
#include "engine/step_cost.h"
#include "engine/streaming_cost.h"
#include "model/batch.h"

namespace banter::engine {

/** What the requests of one model, or of several, are to those of another that waits for the same processor. */
struct Standing {
  int32_t priority = -1;            // highest of a request that could go on; -1: there is none
  int32_t streaming_priority = -1;  // of one whose reply streams
  double streaming_ns = 0;          // what those replies take together in a round of steps
  int32_t prompts = 0;              // models that have prompts to compute

  bool only_prompts() const { return prompts > 0 && streaming_priority < 0; }
};

/** How long a step may take. */
struct StepPace {
  uint64_t at_once_ns = UINT64_MAX;  // of a backend whose steps cannot be interrupted
  uint64_t resting_ns = UINT64_MAX;  // of one whose steps can: `rest` is called between their layers
  std::function<Rest()> rest;
  Standing others;  // of the other models whose steps take turns with this one
};

/** Engine thread only. Generations and characters belong to the caller, and are taken out (retire(), forget()) before
 *  they go. Who may hold KV pages: kv_allocator.h. */
class ModelRunner {
 public:
  ModelRunner(Channels& channels, const ModelObject& object, std::unique_ptr<LoadedModel> loaded);

  /** Makes the prompt and everything else the generation needs; it runs then, or has ended (FAILED). */
  void begin(Generation& generation);
  /** Computes one step that keeps to `pace`; false when there was nothing to compute. Ended generations are in ended(). A
   *  step that was given up is computed anew. */
  bool step(const StepPace& pace);
  /** Where this model stands in the next round of steps; nowhere, where there are no others to stand among. */
  const Standing& look(bool has_others);
  const Standing& standing() const { return standing_; }
  /** Other models computed for `ns`, and this one had no part in it. */
  void wait(uint64_t ns);
  /** What the step computed, without rests; 0: there was none, or it was given up. */
  double last_step_ns() const { return last_step_ns_; }
  /** Number of its last turn among models that stand back, or that have only prompts. */
  uint64_t turn = 0;
  /** Ends requests whose deadline has passed before their first token; they are in ended(). */
  void expire(uint64_t now_ns);
  /** The earliest deadline of those without a first token; UINT64_MAX: none. */
  uint64_t next_deadline() const;
  /** Generations that ended in step(), each to be retired; cleared by the next step(). */
  const std::vector<Generation*>& ended() const { return ended_; }
  /** Takes a generation that has ended (or is to end) out: its conversation keeps the reply where it should, its pages go
   *  back to its character or the pool. */
  void retire(Generation& generation);

  /** A character with a state, which keeps its pages here. */
  void remember(NpcObject& npc) { allocator_.remember(npc); }
  void forget(NpcObject& npc) { allocator_.forget(npc); }

  bool has_work() const { return !running_.empty(); }
  const std::vector<Generation*>& running() const { return running_; }
  const LoadedModel& loaded() const { return *loaded_; }
  /** Changes the KV pool to about `bytes`, at least a short conversation; see KvAllocator::resize(). What no longer fits
   *  has ended, and is in ended(). */
  Result<void> resize_pool(uint64_t bytes);
  /** Caches that other models' replies have in this one's pool go: it is about to change. */
  void drop_draft_caches();
  /** The draft model goes: no more guesses by it, until there is another. */
  void drop_draft();
  /** A step of this model ended with `error`. True: its card is lost, and the processor is to take over; nothing is computed
   *  any more. False: it is as with any backend. */
  bool lose(const Error& error);
  const std::optional<Error>& lost() const { return lost_; }
  /** Before a lost runner goes: what runs, and what that refers to, moves to `to`. Nothing here can fail. */
  void strand(Fallback& to);
  /** Goes on with what another runner of the same model began: computes it again. It may have ended. */
  void adopt(Generation& generation);
  uint64_t kv_bytes_used() const;
  /** Whose pages those of the pool are; idle characters' count as cached. */
  KvPages kv_pages();
  /** Most bytes of turns that a conversation keeps. */
  size_t turn_bytes_limit() const;
  /** Most tokens of a character's conversation; null: of any other request. */
  int32_t context_of(const NpcObject* npc) const;

 private:
  Result<void> prepare(Generation& generation);
  Result<void> make_prompt(Generation& generation);
  void set_thinking(Generation& generation);
  void take_cache(Generation& generation);
  void fit_context(Generation& generation) const;

  static bool can_go_on(const Generation& generation);
  int32_t pending_of(const Generation& generation) const;
  double streams_alone_ns(int32_t streaming) const;
  void collect_candidates(uint64_t allowance_ns);
  StepLimits limits_of(uint64_t allowance_ns);
  void limit_prefill(int32_t streaming, bool is_urgent, StepLimits& limits);
  /** Admits and reserves in rank order; fills batch_ and batch_generations_. */
  void build_batch();
  bool plan_without_refused();
  void guess();
  static void forget_guesses(Generation& generation);
  bool find_draft();
  void check_guesses(Generation& generation, const model::Chunk& chunk, int32_t first_row, uint64_t now);
  bool waits_for_twin(const Generation& generation) const;
  void fail_batch(const Error& error);
  /** Between layers; false: the step is given up. */
  bool rest();
  void after_step(uint64_t started_ns);
  void note_step(const StepFigures& step);
  void next_token(Generation& generation, int32_t row, uint64_t now);
  /** The reply's next token is known, and what it means is done. */
  void append(Generation& generation, text::TokenId token);
  void act_on(Generation& generation, const dialogue::Verdict& verdict, bool nothing_to_choose);
  void roll_back(Generation& generation, int32_t count);
  bool slide(Generation& generation);

  Channels& channels_;
  std::unique_ptr<LoadedModel> loaded_;
  KvAllocator allocator_;
  std::vector<Generation*> running_;
  std::vector<Generation*> ended_;
  uint64_t step_ = 0;
  const StepPace* pace_ = nullptr;  // of this step
  uint64_t rested_ns_ = 0;
  bool given_up_ = false;
  StepCost cost_;
  StreamingCost streaming_cost_;
  double wanted_ns_ = 0;  // what this step should take for those that stream; 0: no matter
  Standing standing_;
  double last_step_ns_ = 0;
  int32_t widest_step_ = 1;  // rows
  StepLimits limits_;
  const ModelObject& object_;
  std::unique_ptr<DraftModel> draft_;
  bool draft_refused_ = false;
  std::optional<Error> lost_;  // why the card cannot go on

  // Memory kept from step to step.
  std::vector<Candidate> candidates_;  // one for each of running_
  std::vector<Candidate*> scratch_;
  std::vector<Ranked> ranked_;  // running_, in rank order
  model::Batch batch_;
  std::vector<Generation*> batch_generations_;
  std::vector<text::TokenId> banned_;
  std::vector<DraftModel::Wanted> wanted_;
};

}  // namespace banter::engine
