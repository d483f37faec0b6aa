// banter_engine_…, banter_poll and banter_wait.
#include "engine/engine.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

namespace {

constexpr uint32_t kKnownFlags = BANTER_ENGINE_NORMAL_PRIORITY | BANTER_ENGINE_VALIDATE;
constexpr uint64_t kLeastTextBytes = 4096, kMostTextBytes = uint64_t{1} << 30;
constexpr int32_t kMostThreads = 256;
constexpr uint32_t kLeastTraceEvents = 16, kMostTraceEvents = 1u << 24, kDefaultTraceEvents = 1u << 16;

template <class T>
banter_result check_range(const char* field, T value, T low, T high) noexcept {
  if (value == 0 || (value >= low && value <= high)) return BANTER_OK;
  return fail(BANTER_ERROR_INVALID_ARGUMENT,
              "banter_engine_config.%s is %lld; give 0 for the default, or %lld to %lld.", field,
              static_cast<long long>(value), static_cast<long long>(low), static_cast<long long>(high));
}

banter_result read_cuda_context(const banter_cuda_context& in, banter_cuda_context& c) noexcept {
  c = {};
  if (const banter_result code = banter::api::read_struct("banter_cuda_context", &in, c)) return code;
  if (c.kind < BANTER_CUDA_CONTEXT_EXISTING || c.kind > BANTER_CUDA_CONTEXT_VULKAN_DEVICE) {
    return fail(BANTER_ERROR_UNSUPPORTED, "banter_cuda_context.kind is %d; use a BANTER_CUDA_CONTEXT_… constant.",
                c.kind);
  }
  if (c.handle == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_cuda_context.handle is NULL.");
  const bool wants_vulkan = c.kind == BANTER_CUDA_CONTEXT_VULKAN_DEVICE;
  if ((c.vulkan_queue != nullptr) != wants_vulkan || (c.vulkan_get_device_proc_addr != nullptr) != wants_vulkan) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_cuda_context needs vulkan_queue and vulkan_get_device_proc_addr with VULKAN_DEVICE, and must "
                "have NULL there with other kinds.");
  }
  return BANTER_OK;
}

banter_result read_cuda(const banter_engine_config& c, banter::engine::CudaSettings& out) {
  if (c.reserved1 != 0) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_engine_config.reserved1 must be 0.");
  if (c.cuda_device < -1) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_engine_config.cuda_device is %d; give -1 for the best card, or CUDA's number of one.",
                c.cuda_device);
  }
  out.device = c.cuda_device;
  std::string_view path;
  if (const banter_result code = banter::api::read_text("banter_engine_config.cuda_library_path", c.cuda_library_path,
                                                        BANTER_ZERO_TERMINATED, path)) {
    return code;
  }
  out.library_path.assign(path);
  if (c.cuda_context == nullptr) return BANTER_OK;
  return read_cuda_context(*c.cuda_context, out.context.emplace());
}

banter_result read_config(const banter_engine_config* in, banter::engine::EngineConfig& out) {
  banter_engine_config c;
  banter_engine_config_init(&c, sizeof c);
  if (in != nullptr) {
    if (const banter_result code = banter::api::read_struct("banter_engine_config", in, c)) return code;
  }
  if ((c.flags & ~kKnownFlags) != 0) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_engine_config.flags has unknown bits (0x%x).",
                c.flags & ~kKnownFlags);
  }
  if (c.backend < BANTER_BACKEND_AUTO || c.backend > BANTER_BACKEND_CUDA) {
    return fail(BANTER_ERROR_UNSUPPORTED,
                "banter_engine_config.backend is %d; there are AUTO (0), CPU (1), REFERENCE (2) and CUDA (3).",
                c.backend);
  }
  if (const auto code = check_range("thread_count", c.thread_count, 1, kMostThreads)) return code;
  if (const auto code = check_range("max_requests", c.max_requests, 1u, 65536u)) return code;
  if (const auto code = check_range("max_events", c.max_events, 16u, 1048576u)) return code;
  if (const auto code = check_range("text_buffer_bytes", c.text_buffer_bytes, kLeastTextBytes, kMostTextBytes))
    return code;
  if (const auto code = check_range("step_tokens", c.step_tokens, 1, 4096)) return code;
  if (!(c.stream_slowdown == 0 || (c.stream_slowdown >= 1 && c.stream_slowdown <= 1000))) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_engine_config.stream_slowdown is %g; give 0 for the default, or 1 to 1000.",
                static_cast<double>(c.stream_slowdown));
  }
  if ((c.alloc == nullptr) != (c.free == nullptr)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_engine_config needs both alloc and free, or neither.");
  }
  if (const banter_result code = read_cuda(c, out.cuda)) return code;
  out.backend = c.backend;
  out.thread_count = c.thread_count;
  out.affinity_mask = c.affinity_mask;
  out.low_priority = (c.flags & BANTER_ENGINE_NORMAL_PRIORITY) == 0;
  out.validate = (c.flags & BANTER_ENGINE_VALIDATE) != 0;
  out.memory_budget_bytes = c.memory_budget_bytes;
  if (c.max_requests != 0) out.max_requests = c.max_requests;
  if (c.max_events != 0) out.max_events = c.max_events;
  if (c.text_buffer_bytes != 0) out.text_buffer_bytes = c.text_buffer_bytes;
  if (c.step_tokens != 0) out.step_tokens = c.step_tokens;
  if (c.stream_slowdown != 0) out.stream_slowdown = static_cast<double>(c.stream_slowdown);
  out.swap_budget_bytes = c.swap_budget_bytes;
  if (c.alloc != nullptr) out.host = banter::engine::HostAllocator(c.alloc, c.free, c.alloc_user_data);
  out.log = banter::engine::Log(c.log, c.log_user_data);
  return BANTER_OK;
}

}  // namespace

extern "C" {

void BANTER_CALL banter_engine_config_init(banter_engine_config* config, size_t struct_size) {
  banter_engine_config defaults = {};
  defaults.cuda_device = -1;
  banter::api::write_defaults(defaults, config, struct_size);
}

banter_result BANTER_CALL banter_engine_create(uint32_t api_version, const banter_engine_config* config,
                                               banter_engine** out_engine) {
  return guard("banter_engine_create", [&](Caller&) -> banter_result {
    if (out_engine == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_engine is NULL.");
    *out_engine = nullptr;
    if (api_version >> 16 != BANTER_API_VERSION >> 16) {
      return fail(
          BANTER_ERROR_VERSION,
          "The caller was compiled with interface version %u.%u, this library has %u.%u; use header and library "
          "of one release.",
          api_version >> 16, api_version & 0xFFFF, BANTER_API_VERSION >> 16, BANTER_API_VERSION & 0xFFFF);
    }
    banter::engine::EngineConfig checked;
    if (const banter_result code = read_config(config, checked)) {
      return code;
    }
    auto engine = banter::engine::Engine::create(checked);
    if (!engine) return fail(engine.error());
    *out_engine = reinterpret_cast<banter_engine*>(*engine);
    return BANTER_OK;
  });
}

void BANTER_CALL banter_engine_destroy(banter_engine* handle) {
  if (handle == nullptr) return;
  (void)guard("banter_engine_destroy", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    banter::engine::Engine::destroy(engine);
    return BANTER_OK;
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_poll(banter_engine* handle, banter_event* events, size_t stride,
                                                         uint32_t capacity, uint32_t* out_count) {
  return guard("banter_poll", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (out_count != nullptr) *out_count = 0;
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (out_count == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_count is NULL.");
    if (capacity > 0 && events == nullptr) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "events is NULL, but capacity is %u.", capacity);
    }
    constexpr size_t kFirstEvent = offsetof(banter_event, bytes);  // of a caller compiled against 0.1.0
    if (capacity > 0 && (stride < kFirstEvent || stride > 65536)) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "stride is %zu; give sizeof(banter_event), which is %zu here.", stride,
                  sizeof(banter_event));
    }
    const banter_result code = engine->poll(events, stride, capacity, out_count);
    if (code == BANTER_ERROR_BUSY) return fail(code, "Another thread is polling this engine.");
    return code;
  });
}

banter_result BANTER_CALL banter_wait(banter_engine* handle, uint32_t timeout_ms) {
  return guard("banter_wait", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (engine->wait(timeout_ms)) return BANTER_OK;
    return fail(BANTER_ERROR_NOT_FOUND, "No event came within %u ms.", timeout_ms);
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_engine_get_statistics(banter_engine* handle,
                                                                          banter_engine_statistics* out_statistics) {
  return guard("banter_engine_get_statistics", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (out_statistics == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_statistics is NULL.");
    banter_engine_statistics statistics = {};
    engine->statistics(statistics);
    return banter::api::write_struct("banter_engine_statistics", statistics, out_statistics);
  });
}

banter_result BANTER_CALL banter_engine_set_frame_budget(banter_engine* handle, float milliseconds) {
  return guard("banter_engine_set_frame_budget", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (!(milliseconds >= 0 && milliseconds <= 1000)) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "milliseconds is %g; give a value in [0, 1000].",
                  static_cast<double>(milliseconds));
    }
    engine->set_frame_budget(static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6));
    return BANTER_OK;
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_engine_begin_frame(banter_engine* handle) {
  return guard("banter_engine_begin_frame", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    engine->begin_frame();
    return BANTER_OK;
  });
}

banter_result BANTER_CALL banter_engine_set_cpu_share(banter_engine* handle, float share) {
  return guard("banter_engine_set_cpu_share", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (!(share > 0 && share <= 1)) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "share is %g; give a value in (0, 1].", static_cast<double>(share));
    }
    engine->set_share(share);
    return BANTER_OK;
  });
}

banter_result BANTER_CALL banter_engine_set_paused(banter_engine* handle, uint32_t paused) {
  return guard("banter_engine_set_paused", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (paused > 1) return fail(BANTER_ERROR_INVALID_ARGUMENT, "paused is %u; give 0 or 1.", paused);
    engine->set_paused(paused == 1);
    return BANTER_OK;
  });
}

banter_result BANTER_CALL banter_engine_get_metrics_json(banter_engine* handle, char* buffer, size_t capacity,
                                                         size_t* out_length) {
  return guard("banter_engine_get_metrics_json", [&](Caller& caller) -> banter_result {
    if (out_length != nullptr) *out_length = 0;
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (out_length == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_length is NULL.");
    if (capacity > 0 && buffer == nullptr) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "buffer is NULL, but capacity is %zu.", capacity);
    }
    banter_engine_statistics statistics = {};
    engine->statistics(statistics);
    const size_t room = capacity > 0 ? capacity - 1 : 0;
    const size_t length = banter::engine::to_json(statistics, std::span(buffer, room));
    if (capacity > 0) buffer[std::min(length, room)] = '\0';
    *out_length = length;
    return BANTER_OK;
  });
}

banter_result BANTER_CALL banter_engine_trace_start(banter_engine* handle, uint32_t max_events) {
  return guard("banter_engine_trace_start", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (max_events != 0 && (max_events < kLeastTraceEvents || max_events > kMostTraceEvents)) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "max_events is %u; give 0 for the default, or %u to %u.", max_events,
                  kLeastTraceEvents, kMostTraceEvents);
    }
    const auto started = engine->trace_start(max_events != 0 ? max_events : kDefaultTraceEvents);
    return started ? BANTER_OK : fail(started.error());
  });
}

banter_result BANTER_CALL banter_engine_trace_stop(banter_engine* handle, banter_write_fn write, void* user_data) {
  return guard("banter_engine_trace_stop", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    struct Target {
      banter_write_fn write;
      void* user_data;
    } target{write, user_data};
    const banter::engine::TraceSink sink = [](const char* bytes, size_t size, void* to) {
      const auto* const t = static_cast<const Target*>(to);
      return t->write(bytes, size, t->user_data) == BANTER_OK;
    };
    const auto stopped = engine->trace_stop(write != nullptr ? sink : nullptr, &target);
    return stopped ? BANTER_OK : fail(stopped.error());
  });
}

banter_result BANTER_CALL banter_engine_set_budget(banter_engine* handle, uint64_t bytes) {
  return guard("banter_engine_set_budget", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    engine->set_budget(bytes);
    return BANTER_OK;
  });
}

}  // extern "C"
