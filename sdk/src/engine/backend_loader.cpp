#include "engine/backend_loader.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "backend_cpu/cpu_backend.h"
#include "base/shared_library.h"
#include "engine/plugin_backend.h"
#include "ops/reference.h"

namespace banter::engine {
namespace {

constexpr const char* kCudaLibrary = "libbanter_cuda.so";

/** Where the library should be; the file need not exist. */
Result<std::string> cuda_library_path(const CudaSettings& settings) {
  const char* const from_environment = secure_getenv("BANTER_CUDA_LIBRARY");
  if (from_environment != nullptr && *from_environment != '\0') return std::string(from_environment);
  if (!settings.library_path.empty()) return settings.library_path;
  auto here = locate_this_code();
  if (!here) return here.error();
  const std::string folder = here->path.substr(0, here->path.rfind('/') + 1);
  const std::string beside = folder + kCudaLibrary;
  // An installed program is in bin/, its libraries in lib/.
  const std::string in_lib = folder + "../lib/" + kCudaLibrary;
  const bool use_lib = here->is_program && access(beside.c_str(), F_OK) != 0 && access(in_lib.c_str(), F_OK) == 0;
  return use_lib ? in_lib : beside;
}

}  // namespace

Result<BackendChoice> create_cuda_backend(const CudaSettings& settings, ThreadPool& pool, uint64_t memory_budget_bytes,
                                          const Log& log) {
  auto path = cuda_library_path(settings);
  if (!path) return path.error();
  ops::BackendOptions options;
  options.device = settings.device;
  options.pool = &pool;
  options.memory_budget_bytes = memory_budget_bytes;
  options.context = settings.context ? &*settings.context : nullptr;
  auto made = create_plugin_backend(*path, options, log);
  if (!made) return made.error();
  BackendChoice choice;
  choice.backend = std::move(made->backend);
  choice.reason = std::move(made->device);
  choice.is_cuda = true;
  return choice;
}

Result<BackendChoice> create_cpu_backend(ThreadPool& pool, std::string reason) {
  auto backend = cpu::create_backend(pool, cpu::best_isa());
  if (!backend) return backend.error();
  BackendChoice choice;
  choice.backend = std::move(*backend);
  choice.reason = std::move(reason);
  return choice;
}

Result<BackendChoice> choose_backend(banter_backend wanted, const CudaSettings& settings, ThreadPool& pool,
                                     uint64_t memory_budget_bytes, const Log& log) {
  if (wanted == BANTER_BACKEND_CPU) return create_cpu_backend(pool, "The CPU was asked for.");
  if (wanted == BANTER_BACKEND_REFERENCE) {
    auto backend = ops::create_reference_backend(pool);
    if (!backend) return backend.error();
    BackendChoice choice;
    choice.backend = std::move(*backend);
    choice.reason = "The reference backend was asked for.";
    return choice;
  }
  auto cuda = create_cuda_backend(settings, pool, memory_budget_bytes, log);
  if (cuda) return cuda;
  std::string why_not = "CUDA is not used: " + cuda.error().message;
  if (wanted == BANTER_BACKEND_CUDA) {
    // What the caller asked for cannot be had: one class of error for all reasons but failures of the device itself.
    const banter_result kind = banter_result_class(cuda.error().code);
    const bool failed = kind == BANTER_ERROR_BACKEND || kind == BANTER_ERROR_OUT_OF_MEMORY;
    return Error{failed ? cuda.error().code : BANTER_ERROR_UNSUPPORTED, std::move(why_not)};
  }
  log.write(BANTER_LOG_INFO, why_not);
  return create_cpu_backend(pool, std::move(why_not));
}

}  // namespace banter::engine
