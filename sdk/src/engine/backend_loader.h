// Which backend computes a model, and why it is that one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "banter/types.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/host.h"
#include "ops/backend.h"

namespace banter::engine {

/** Where the CUDA backend is and what it computes on. */
struct CudaSettings {
  std::string library_path;  // "": beside this library; the environment's BANTER_CUDA_LIBRARY goes before both
  int32_t device = -1;       // −1: the best
  std::optional<banter_cuda_context> context;
};

struct BackendChoice {
  std::unique_ptr<ops::Backend> backend;
  std::string reason;  // a sentence, for banter_model_info::backend_reason
  bool is_cuda = false;
};

/** The CUDA backend. `memory_budget_bytes` 0: no limit but the card's. Errors: those of create_plugin_backend(). */
Result<BackendChoice> create_cuda_backend(const CudaSettings& settings, ThreadPool& pool, uint64_t memory_budget_bytes,
                                          const Log& log);

/** The processor's, with the reason given. */
Result<BackendChoice> create_cpu_backend(ThreadPool& pool, std::string reason);

/** The backend asked for. AUTO: CUDA's, or the processor's with the reason why not that one, which is logged.
 *  Errors: those of the backend asked for; UNSUPPORTED with the reason where CUDA is asked for and cannot be had. */
Result<BackendChoice> choose_backend(banter_backend wanted, const CudaSettings& settings, ThreadPool& pool,
                                     uint64_t memory_budget_bytes, const Log& log);

}  // namespace banter::engine
