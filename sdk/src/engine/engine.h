// An engine as its host's threads see it: hands requests in and events out, never waits for the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>

#include "engine/channels.h"
#include "engine/engine_thread.h"
#include "engine/objects.h"
#include "engine/submission.h"

namespace banter::engine {

/** Everything of a character but what the host tells later. */
struct NpcSettings {
  std::string_view persona;
  uint32_t context_tokens = 0;
  uint32_t reply_reserve_tokens = 0;
  dialogue::ContextPolicy policy = dialogue::ContextPolicy::kTrim;
  bool has_sampling = false;
  SamplingSettings sampling;
  std::span<const int32_t> bias_tokens;
  std::span<const float> bias_values;
  std::span<const char* const> dry_breakers;
  void* user_data = nullptr;
  // From a profile:
  std::span<const dialogue::Turn> examples;
  std::span<const std::string> stop_strings;
  int32_t priority = kDefaultPriority;
};

/** One engine. submit(), turn(), cancel(), poll() and statistics() may be called by any threads at any time (poll() by one
 *  at a time); they take no lock, allocate nothing, and make no system call but one to wake the engine thread when it
 *  sleeps. Arguments are checked by the caller (api/). */
class Engine {
 public:
  ObjectMagic magic = ObjectMagic::kEngine;

  /** Starts the engine thread. Errors: OUT_OF_MEMORY. The engine lives in the host's memory. */
  static Result<Engine*> create(const EngineConfig& config);
  /** Ends the thread, frees everything, the engine itself included. */
  static void destroy(Engine* engine);

  const EngineConfig& config() const { return channels_.config; }

  Refusal submit(const Submission& submission, banter_request_id* out_request);
  /** @param reset  forget all turns; else add `text` as a turn of `role` */
  Refusal turn(NpcObject& npc, bool reset, dialogue::Role role, std::string_view text);
  bool cancel(banter_request_id request);
  void prefetch_for_submit() const;
  banter_result poll(banter_event* events, size_t stride, uint32_t capacity, uint32_t* out_count);
  // Controls: take effect with the next step.
  void set_frame_budget(uint64_t ns);
  void begin_frame();
  void set_share(float share);
  void set_paused(bool paused);
  void set_budget(uint64_t bytes);

  bool wait(uint32_t timeout_ms) { return channels_.events.wait(timeout_ms); }
  void statistics(banter_engine_statistics& out) const;

  // These wait for the step in progress and allocate.
  Result<void> trace_start(size_t records);
  /** @param sink  null: the recording is thrown away. Errors: STATE, IO (the sink refused), OUT_OF_MEMORY */
  Result<void> trace_stop(TraceSink sink, void* user_data);

  // These allocate.
  Result<ModelObject*> load(LoadSource source, LoadSettings settings, ModelObject* draft, void* user_data,
                            banter_request_id* out_request);
  void release(ModelObject& model);
  Result<NpcObject*> create_npc(ModelObject& model, const NpcSettings& settings);
  void destroy_npc(NpcObject& npc);

 private:
  Engine() = default;
  Refusal fill(RequestSlot& slot, const Submission& submission);
  void announce(Notice& notice, Notice::Kind kind, void* object);
  void free_slot_references(uint32_t slot);

  Channels channels_;
  std::unique_ptr<EngineThread> thread_state_;
  std::thread thread_;
};

}  // namespace banter::engine
