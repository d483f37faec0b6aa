// The one function that libbanter_cuda exports: the backend as a plugin.
#include <banter_build/backend_fingerprint.h>

#include <cstdio>
#include <string>
#include <utility>

#include "backend_cuda/cuda_backend.h"
#include "backend_cuda/guard.h"
#include "ops/backend_plugin.h"

namespace banter::cuda {
namespace {

void tell(char* reason, size_t bytes, const char* text) {
  if (reason != nullptr && bytes > 0) std::snprintf(reason, bytes, "%s", text);
}

uint64_t score(const ops::BackendOptions* options, char* reason, size_t reason_bytes) noexcept {
  return guarded(
      [&]() -> uint64_t {
        const Result<DeviceChoice> choice = choose_device(options->device, options->context);
        if (!choice) {
          tell(reason, reason_bytes, choice.error().message.c_str());
          return 0;
        }
        const std::string text = choice->name + ", compute capability " +
                                 std::to_string(choice->compute_capability / 10) + "." +
                                 std::to_string(choice->compute_capability % 10) + ", " +
                                 std::to_string(choice->memory_bytes >> 20) + " MiB.";
        tell(reason, reason_bytes, text.c_str());
        return choice->score > 0 ? choice->score : 1;
      },
      [&](banter_result, const char* why) -> uint64_t {
        tell(reason, reason_bytes, why);
        return 0;
      });
}

ops::Backend* create(const ops::BackendOptions* options, banter_result* code, char* reason,
                     size_t reason_bytes) noexcept {
  const auto failed = [&](banter_result result, const char* why) -> ops::Backend* {
    *code = result;
    tell(reason, reason_bytes, why);
    return nullptr;
  };
  return guarded(
      [&]() -> ops::Backend* {
        Result<std::unique_ptr<ops::Backend>> backend =
            create_backend(*options->pool, options->device, options->context);
        if (!backend) return failed(backend.error().code, backend.error().message.c_str());
        *code = BANTER_OK;
        return backend->release();
      },
      failed);
}

void release_text(std::string* text) noexcept {
  std::string().swap(*text);
}

constexpr ops::BackendPlugin kPlugin = {
    sizeof(ops::BackendPlugin), ops::kPluginVersion, BANTER_BACKEND_FINGERPRINT, "cuda", score, create, release_text};

}  // namespace
}  // namespace banter::cuda

extern "C" __attribute__((visibility("default"))) const banter::ops::BackendPlugin* banter_backend_plugin_v1();
extern "C" const banter::ops::BackendPlugin* banter_backend_plugin_v1() {
  return &banter::cuda::kPlugin;
}
