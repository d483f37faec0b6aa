// What the game's threads and the engine thread share: queues, stores and figures. Everything here is lock-free.
#pragma once

#include <atomic>
#include <cstdint>

#include "banter/types.h"
#include "dialogue/turn.h"
#include "engine/backend_loader.h"
#include "engine/blob.h"
#include "engine/command_queue.h"
#include "engine/event_queue.h"
#include "engine/free_list.h"
#include "engine/host.h"
#include "engine/metrics.h"
#include "engine/signal.h"
#include "engine/slots.h"
#include "engine/text_pool.h"
#include "engine/trace.h"

namespace banter::engine {

/** Checked, with defaults filled in. */
struct EngineConfig {
  banter_backend backend = BANTER_BACKEND_AUTO;
  int32_t thread_count = 0;
  uint64_t affinity_mask = 0;
  bool low_priority = true;
  bool validate = false;
  uint64_t memory_budget_bytes = 0;
  uint32_t max_requests = 256;
  uint32_t max_events = 4096;
  uint64_t text_buffer_bytes = 1 << 20;
  int32_t step_tokens = 256;
  double stream_slowdown = 1.5;  // of steps with prompt tokens while replies stream
  uint64_t swap_budget_bytes = 0;
  CudaSettings cuda;
  HostAllocator host;
  Log log;
};

/** Life and death of an object, told to the engine thread. Part of the object, so that telling needs no memory. */
struct Notice {
  enum Kind : uint8_t { kNpcCreated, kNpcDestroyed, kNpcUnused, kModelCreated, kModelReleased, kModelUnused };
  Notice* next = nullptr;
  Kind kind = kNpcCreated;
  void* object = nullptr;
  uint64_t barrier = 0;  // takes effect after the commands posted before it
};

/** A turn (or reset) on its way to a conversation. */
struct TurnSlot {
  NpcObject* npc = nullptr;
  bool reset = false;
  dialogue::Role role = dialogue::Role::kUser;
  uint32_t chain = FreeList::kNone;
  uint64_t text_bytes = 0;
};

/** Figures that any thread may read. Written by the engine thread. */
struct Figures {
  std::atomic<uint64_t> steps{0}, prefill_tokens{0}, decode_tokens{0};
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> finished{0};
  std::atomic<uint32_t> models_loaded{0};
  std::atomic<uint64_t> weight_bytes{0}, kv_bytes_total{0}, kv_bytes_used{0};
  std::atomic<uint64_t> busy_ns{0}, events_delayed{0};
};

/** What the host changes while the engine runs. Written by any thread, read by the engine thread. */
struct Controls {
  std::atomic<uint64_t> frame_budget_ns{0};
  std::atomic<float> share{1.0f};
  std::atomic<bool> is_paused{false};
  std::atomic<uint64_t> frames{0};  // begun since the engine's creation
  std::atomic<uint64_t> budget_bytes{0}, budget_changes{0};
};

struct Channels {
  EngineConfig config;
  SlotTable slots;
  FreeList turn_free;
  HostArray<TurnSlot> turns;
  TextPool text;
  CommandQueue commands;
  EventQueue events;
  PushList<Notice, &Notice::next> notices;
  PushList<Blob, &Blob::next> spent_blobs;  // for the engine thread to free
  Signal signal;                            // wakes the engine thread
  std::atomic<uint64_t> cancels{0};         // changes with whatever ends requests
  std::atomic<bool> stop{false};
  Controls controls;
  Figures figures;
  Metrics metrics;
  Tracer tracer;

  ~Channels() { free_spent_blobs(); }
  void free_spent_blobs() {
    for (Blob* blob = spent_blobs.empty() ? nullptr : spent_blobs.take_all(); blob != nullptr;) {
      const std::unique_ptr<Blob> spent(std::exchange(blob, blob->next));
    }
  }

  Result<void> create(const EngineConfig& engine_config) {
    config = engine_config;
    const uint32_t turn_count = std::max<uint32_t>(256, config.max_requests);
    if (Result<void> made = slots.create(config.host, config.max_requests); !made) return made;
    if (Result<void> made = turns.create(config.host, turn_count); !made) return made;
    if (Result<void> made = turn_free.create(config.host, turn_count); !made) return made;
    if (Result<void> made = text.create(config.host, config.text_buffer_bytes); !made) return made;
    if (Result<void> made = commands.create(config.host, config.max_requests + turn_count); !made) return made;
    return events.create(config.host, config.max_events, slots);
  }
};

}  // namespace banter::engine
