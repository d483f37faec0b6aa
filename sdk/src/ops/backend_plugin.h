// How a backend comes from a shared library that is opened at run time: one exported C function, kPluginEntry, which returns
// a table. What the table hands over are C++ objects of ops/backend.h; so host and plugin must be of one build, which the
// fingerprint (<banter_build/backend_fingerprint.h>) tells. It is looked at before anything is called.
//
// Both sides may allocate differently: a plugin has the C++ library inside, a host may replace operator new. So memory of
// a C++ object is freed by the side that allocated it:
//   - objects with virtual destructors (Backend, Weight, Rope) free themselves;
//   - the text of an Error that a backend returns goes back through release_text();
//   - a backend copies what it is given by value or reference (RopeSpec's numbers) and moves nothing out of it.
// No exception may leave a plugin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "banter/types.h"

namespace banter {
class ThreadPool;
}

namespace banter::ops {

class Backend;

/** What a backend is made with. Everything that is pointed to outlives the backend, `context` excepted. */
struct BackendOptions {
  int32_t device = -1;               // the backend's number of a device; −1: the best one
  ThreadPool* pool = nullptr;        // packs weights; run() by one thread at a time
  uint64_t memory_budget_bytes = 0;  // for weights and KV pools together; 0: no limit but the device's
  const banter_cuda_context* context =
      nullptr;  // where to compute; null: in a context of its own. Borrowed for the call
  void (*log)(void* user_data, banter_log_level level, const char* message) = nullptr;  // any thread; may be null
  void* log_user_data = nullptr;
};

/** Version of BackendPlugin; with it changes the entry's name. */
inline constexpr uint32_t kPluginVersion = 1;
inline constexpr const char* kPluginEntry = "banter_backend_plugin_v1";

/** The table. Functions may be called by any thread, several at once for different models. `reason` receives a
 *  zero-terminated sentence, cut to `reason_bytes`. */
struct BackendPlugin {
  uint32_t struct_size;
  uint32_t version;         // kPluginVersion
  const char* fingerprint;  // BANTER_BACKEND_FINGERPRINT of its build
  const char* name;         // "cuda"

  /** How well the device suits: higher is faster, 0 = it cannot compute. `reason` says why it cannot, or what the device
   *  is. Quick; allocates nothing that stays on the device. */
  uint64_t (*score)(const BackendOptions* options, char* reason, size_t reason_bytes) noexcept;
  /** A new backend, to be deleted; or null, with code and reason. */
  Backend* (*create)(const BackendOptions* options, banter_result* code, char* reason, size_t reason_bytes) noexcept;
  /** Empties a string that this plugin's code filled. */
  void (*release_text)(std::string* text) noexcept;
};

/** The entry's type. */
using BackendPluginEntry = const BackendPlugin*();

}  // namespace banter::ops
