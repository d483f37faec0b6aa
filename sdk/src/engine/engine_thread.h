// The engine thread: takes commands, loads and unloads models, runs their steps, tells events, sleeps.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/channels.h"
#include "engine/generation.h"
#include "engine/guard.h"
#include "engine/loader.h"
#include "engine/model_runner.h"
#include "engine/objects.h"
#include "engine/pacer.h"

namespace banter::engine {

/** Everything that only the engine thread touches. run() returns when Channels::stop is set; destroy() then frees all
 *  objects that are left. A failure of memory ends the request it happened for, never the thread. */
class EngineThread {
 public:
  explicit EngineThread(Channels& channels);
  ~EngineThread();

  void run();
  /** After run() has returned, by whoever joined it. */
  void destroy_objects();

 private:
  /** True: look again at once. False: sleep until a signal, or until wake_at_. */
  bool iterate();
  void read_controls();
  /** Frames, budget and share: the part of the controls that may change in the middle of a step. */
  void read_limits(uint64_t now);
  uint64_t settle();
  /** In the middle of a step: once the limits are reached, sleeps until they let it go on, or it is given up. */
  Rest rest();

  // Commands and notices.
  void take_commands();
  void take_until(uint64_t barrier);
  void apply(Notice& notice);
  void on_request(uint32_t slot);
  void accept(RequestSlot& slot);
  void on_turn(uint32_t turn);
  /** Fails a request for which not even a Generation could be made. */
  void refuse(uint32_t slot_index, const Error& error);
  void look_for_cancels();

  // Models.
  void track(ModelObject& model);
  void look_after_loads();
  void start_load(ModelObject& model);
  void end_load(ModelObject& model, Result<std::unique_ptr<LoadedModel>> outcome);
  void model_ready(ModelObject& model, std::unique_ptr<LoadedModel> loaded);
  void tell_progress(ModelObject& model);
  void start_waiting(ModelObject& model);
  void end_requests(ModelObject& model, banter_event_kind kind, banter_result code, const std::string& message);
  void release(ModelObject& model);
  void unload(ModelObject& model);
  // A card that fails: the processor takes over.
  void look_after_losses();
  void fall_back(ModelObject& model);
  void adopt_stranded(ModelObject& model);
  void expire_stranded(ModelObject& model, uint64_t now);
  void drop_reference(ModelObject& model);
  void update_figures();
  void make_room();
  void share_budget();
  Result<void> fits_budget(uint64_t weight_bytes) const;
  double budget_factor() const;
  void apply_budget();
  void resize_pools(double factor);
  uint64_t memory_left() const;
  /** Logs what `make` returns, if there is memory for it. */
  template <class F>
  void log(banter_log_level level, F&& make) {
    (void)guarded([&]() -> Result<void> {
      channels_.config.log.write(level, make());
      return {};
    });
  }

  // Characters.
  void track(NpcObject& npc);
  Result<NpcState*> state_of(NpcObject& npc);
  /** Starts what is next in the character's queue, as far as possible. */
  void advance(NpcObject& npc);
  void apply_turn(NpcObject& npc, NpcState::Item& item);
  void end_npc(NpcObject& npc);
  // Summaries of what characters' conversations dropped.
  void start_summary(NpcObject& npc);
  void end_summary(Generation& job);
  void drop_summary(NpcObject& npc);
  void drop_reference(NpcObject& npc);

  // Generations.
  void route(Generation& generation);
  void begin(Generation& generation);
  void end(Generation& generation, banter_event_kind kind, banter_result code, std::string message);
  void cancel(Generation& generation);
  void leave_queue(const Generation& generation);
  /** The generation has its terminal event: retires it and hands it to flush(). */
  void finish(Generation& generation);
  Result<void> retire(Generation& generation);
  void flush();
  bool step_models();
  int32_t look_at_models();
  bool step_prompts(int32_t highest, uint64_t first_turn, bool worked);
  bool step_lower(int32_t highest, size_t count, bool worked);
  bool may_go_on(bool worked);
  bool round_is_over();
  /** What the models together are, without `runner` where one is named. */
  Standing others_of(const ModelRunner* runner) const;
  bool step(ModelRunner& runner);
  void expire_requests();
  void expire_queued(uint64_t now);
  uint64_t earliest_queued() const;
  bool has_work() const;
  void sleep();
  void sleep_until(uint64_t ns);
  uint64_t next_deadline() const;
  bool is_waited_for(uint64_t now);
  Generation* load_generation(ModelObject& model);

  Channels& channels_;
  Loader loader_;
  ModelObject* loading_ = nullptr;
  float progress_told_ = -1;
  bool made_room_ = false;  // for what loads
  std::deque<ModelObject*> load_queue_;
  std::vector<std::unique_ptr<Generation>> generations_;  // by slot
  std::vector<std::unique_ptr<Generation>> summaries_;    // being written
  std::vector<Generation*> ended_;                        // wait to be told, in order
  std::vector<Generation*> waiting_;                      // completions whose model loads
  uint64_t queued_deadline_ = UINT64_MAX;                 // of those that wait for character or model; may be too early
  ModelObject* models_ = nullptr;                         // all, tracked
  NpcObject* npcs_ = nullptr;
  Notice* notices_ = nullptr;  // taken, not applied yet: their barrier is not reached
  Pacer pacer_;
  uint64_t frame_budget_ns_ = 0, frames_seen_ = 0;
  float share_ = 1;
  uint64_t budget_bytes_ = 0, budget_changes_seen_ = 0;
  uint64_t wake_at_ = UINT64_MAX;
  uint64_t working_since_ = 0;  // what a step computes from here on is not spent yet
  StepPace pace_;
  bool gave_up_ = false, gave_up_before_ = false;  // a step in this iteration; in the one before
  double lower_credit_ns_ = 0;                     // of models that stand back, all together
  uint64_t turns_ = 0;                             // of these, and of models that have only prompts
  uint64_t arrivals_ = 0;
  uint64_t cancels_seen_ = 0;
};

}  // namespace banter::engine
