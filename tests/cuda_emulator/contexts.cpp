// Contexts beside the primary one, and the functions of the driver that make them current: served by their names, as the
// runtime finds them. A context has what was made while it was current; it ends with all of that.
#include <cstdlib>
#include <cstring>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

thread_local std::vector<CUctx_st*> stack;

constexpr unsigned long long kPrimaryId = 1;
unsigned long long last_id = kPrimaryId;

bool is_known(const CUctx_st* context) {
  for (const auto& each : card().contexts) {
    if (each.get() == context) return true;
  }
  return false;
}

CUctx_st* make_context(int device, bool in_graphics) {
  auto context = std::make_unique<CUctx_st>();
  context->device = device;
  context->id = ++last_id;
  context->in_graphics = in_graphics;
  card().contexts.push_back(std::move(context));
  return card().contexts.back().get();
}

/** Gives back one thing that is in an ending context. */
void release(const void* made) {
  Card& c = card();
  void* const pointer = const_cast<void*>(made);
  if (c.memory.contains(reinterpret_cast<uintptr_t>(made))) {
    c.memory.release(pointer);
  } else if (c.pinned.erase(reinterpret_cast<uintptr_t>(made)) != 0) {
    std::free(pointer);
  } else if (c.streams.erase(static_cast<CUstream_st*>(pointer)) != 0) {
    delete static_cast<CUstream_st*>(pointer);
  } else if (c.graph_execs.erase(static_cast<CUgraphExec_st*>(pointer)) != 0) {
    delete static_cast<CUgraphExec_st*>(pointer);
  } else {
    c.events.erase(static_cast<CUevent_st*>(pointer));
  }
}

void end_context(CUctx_st& context) {
  context.ended = true;
  auto& owners = card().owners;
  for (auto it = owners.begin(); it != owners.end();) {
    if (it->second != &context) {
      ++it;
      continue;
    }
    release(it->first);
    it = owners.erase(it);
  }
}

/** What the driver answers to a handle: it knows those that have ended. */
cudaError_t check_handle(const CUctx_st* context) {
  if (!is_known(context)) {
    report_host(FaultKind::kBadHandle, context, "no such context");
    return cudaErrorDeviceUninitialized;
  }
  return context->ended ? cudaErrorContextIsDestroyed : cudaSuccess;
}

// ---------------------------------------------------------------- the driver's functions; their errors have the same numbers

int context_push(CUctx_st* context) {
  Call call;
  if (call.failed()) return call.error();
  const cudaError_t known = check_handle(context);
  const bool enters = known == cudaSuccess || (known == cudaErrorContextIsDestroyed && card().config.ended_are_entered);
  if (enters) stack.push_back(context);
  return call.done(enters ? cudaSuccess : known);
}

int context_pop(CUctx_st** context) {
  Call call(Call::Kind::kRelease);
  if (stack.empty()) {
    report_host(FaultKind::kBadHandle, nullptr, "cuCtxPopCurrent of an empty stack");
    return call.done(cudaErrorDeviceUninitialized);
  }
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return call.done(cudaSuccess);
}

int context_device(int* device) {
  Call call;
  if (call.failed()) return call.error();
  if (stack.empty()) return call.done(cudaErrorDeviceUninitialized);
  *device = stack.back()->device;
  return call.done(cudaSuccess);
}

int context_id(CUctx_st* context, unsigned long long* id) {
  Call call;
  if (call.failed()) return call.error();
  if (context != nullptr || id == nullptr) return call.done(cudaErrorInvalidValue);  // nobody asks for others
  *id = stack.empty() ? kPrimaryId : stack.back()->id;
  return call.done(cudaSuccess);
}

int device_attribute(int* value, int attribute, int device) {
  Call call;
  if (call.failed()) return call.error();
  const Config& c = card().config;
  if (device < 0 || device >= c.devices) return call.done(cudaErrorInvalidDevice);
  constexpr int kD3d12 = 135, kVulkan = 138;  // CU_DEVICE_ATTRIBUTE_…_CIG_SUPPORTED
  if (attribute != kD3d12 && attribute != kVulkan) return call.done(cudaErrorInvalidValue);
  *value = attribute == kVulkan && c.vulkan_shares_graphics ? 1 : 0;
  return call.done(cudaSuccess);
}

int context_limit(size_t* value, int limit) {
  Call call;
  if (call.failed()) return call.error();
  if (stack.empty()) return call.done(cudaErrorDeviceUninitialized);
  constexpr int kShared = 7, kInGraphics = 8;  // CU_LIMIT_SHMEM_SIZE, CU_LIMIT_CIG_ENABLED
  if (limit != kShared && limit != kInGraphics) return call.done(cudaErrorInvalidValue);
  const bool in_graphics = stack.back()->in_graphics;
  *value = limit == kInGraphics ? in_graphics : in_graphics ? card().config.shared_in_graphics : 0;
  return call.done(cudaSuccess);
}

struct GraphicsParams {  // CUctxCigParam
  int kind;
  void* data;
};
struct ContextParams {  // CUctxCreateParams
  void* affinity;
  int affinities;
  GraphicsParams* graphics;
};

int context_create(CUctx_st** context, ContextParams* params, unsigned flags, int device) {
  Call call(Call::Kind::kAllocate);
  if (call.failed()) return call.error();
  const Config& c = card().config;
  if (device < 0 || device >= c.devices) return call.done(cudaErrorInvalidDevice);
  if (context == nullptr || flags != 0 || params == nullptr || params->affinity != nullptr ||
      params->graphics == nullptr) {
    return call.done(cudaErrorInvalidValue);
  }
  constexpr int kBlobOfVulkan = 2;
  if (params->graphics->kind != kBlobOfVulkan || !c.vulkan_shares_graphics) return call.done(cudaErrorNotSupported);
  if (params->graphics->data == nullptr || std::memcmp(params->graphics->data, kQueueData, sizeof kQueueData) != 0) {
    return call.done(cudaErrorInvalidValue);
  }
  *context = make_context(device, true);
  stack.push_back(*context);
  return call.done(cudaSuccess);
}

int context_destroy(CUctx_st* context) {
  Call call(Call::Kind::kRelease);
  const cudaError_t known = check_handle(context);
  if (known == cudaSuccess) end_context(*context);
  return call.done(known);
}

struct DriverFunction {
  const char* name;
  unsigned since;  // the version of CUDA that this form of it came with
  void* address;
};
const DriverFunction kDriverFunctions[] = {
    {"cuCtxPushCurrent", 4000, reinterpret_cast<void*>(context_push)},
    {"cuCtxPopCurrent", 4000, reinterpret_cast<void*>(context_pop)},
    {"cuCtxGetDevice", 2000, reinterpret_cast<void*>(context_device)},
    {"cuCtxGetId", 12000, reinterpret_cast<void*>(context_id)},
    {"cuDeviceGetAttribute", 2000, reinterpret_cast<void*>(device_attribute)},
    {"cuCtxGetLimit", 3010, reinterpret_cast<void*>(context_limit)},
    {"cuCtxCreate", 12050, reinterpret_cast<void*>(context_create)},
    {"cuCtxDestroy", 4000, reinterpret_cast<void*>(context_destroy)},
};

}  // namespace

void own(const void* made) {
  if (CUctx_st* const context = current_context(); context != nullptr) {
    card().owners[made] = context;
  } else {
    card().primary_used = true;
  }
}

bool is_of_current(const void* made, const char* what) {
  const auto it = card().owners.find(made);
  const CUctx_st* const owner = it == card().owners.end() ? nullptr : it->second;
  if (owner == current_context()) return true;
  report_host(FaultKind::kBadHandle, made, std::string(what) + " of a context that is not current");
  return false;
}

// ---------------------------------------------------------------- control.h

CUctx_st* create_context(int device) {
  const std::lock_guard lock(card().mutex);
  return make_context(device, false);
}
void destroy_context(CUctx_st* context) {
  const std::lock_guard lock(card().mutex);
  end_context(*context);
}
void renew_context(CUctx_st* context) {
  const std::lock_guard lock(card().mutex);
  end_context(*context);
  context->ended = false;
  context->id = ++last_id;
}
void push_context(CUctx_st* context) {
  stack.push_back(context);
}
void pop_context() {
  stack.pop_back();
}
CUctx_st* current_context() {
  return stack.empty() ? nullptr : stack.back();
}

}  // namespace banter::cuda_emulator

using namespace banter::cuda_emulator;

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  Call call;
  if (call.failed()) return call.error();
  const Config& c = card().config;
  *function = nullptr;
  *status = cudaDriverEntryPointSymbolNotFound;
  for (const DriverFunction& each : kDriverFunctions) {
    if (std::strcmp(each.name, symbol) != 0 || std::strcmp(c.missing_in_driver, symbol) == 0) continue;
    const bool is_new_enough = each.since <= version && each.since <= static_cast<unsigned>(c.driver_version);
    *status = is_new_enough ? cudaDriverEntryPointSuccess : cudaDriverEntryPointVersionNotSufficent;
    if (is_new_enough) *function = each.address;
  }
  return call.done(cudaSuccess);
}
