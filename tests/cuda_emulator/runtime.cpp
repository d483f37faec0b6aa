// The card's description, and launches.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

bool report_limits(const void* kernel, const char* text) {
  Fault fault;
  fault.kind = FaultKind::kLaunchLimits;
  fault.kernel = symbol_of(kernel);
  fault.message = text;
  report(std::move(fault));
  return false;
}

}  // namespace

bool within_limits(const cudaLaunchConfig_t& config, const void* kernel, size_t argument_bytes) {
  const Card& c = card();
  const dim3 b = config.blockDim, g = config.gridDim;
  char text[160];
  if (b.x == 0 || b.y == 0 || b.z == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 ||
      static_cast<uint64_t>(b.x) * b.y * b.z > static_cast<uint64_t>(c.config.threads_per_block)) {
    std::snprintf(text, sizeof text, "a block of %u x %u x %u threads", b.x, b.y, b.z);
    return report_limits(kernel, text);
  }
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7FFFFFFFu || g.y > 65535 || g.z > 65535) {
    std::snprintf(text, sizeof text, "a grid of %u x %u x %u blocks", g.x, g.y, g.z);
    return report_limits(kernel, text);
  }
  const auto raised = c.shared_limits.find(kernel);
  const size_t limit =
      raised != c.shared_limits.end() ? std::max(raised->second, c.config.shared_per_block) : c.config.shared_per_block;
  if (config.dynamicSmemBytes > limit) {
    std::snprintf(text, sizeof text, "%zu bytes of shared memory, the limit is %zu", config.dynamicSmemBytes, limit);
    return report_limits(kernel, text);
  }
  if (argument_bytes > 4096) {
    std::snprintf(text, sizeof text, "%zu bytes of arguments, the limit is 4096", argument_bytes);
    return report_limits(kernel, text);
  }
  return true;
}

int32_t code_capability() {
  const Config& c = card().config;
  return c.compiled_for == 0 ? c.compute_capability : c.compiled_for;
}

cudaError_t queue_launch(const cudaLaunchConfig_t& config, KernelCall kernel, size_t argument_bytes) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(config.stream);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (!within_limits(config, kernel.kernel, argument_bytes)) return call.done(cudaErrorInvalidConfiguration);
  ++card().launches;
  Operation operation = {};
  operation.kind = Operation::Kind::kLaunch;
  operation.launch = {std::move(kernel), argument_bytes, config.gridDim, config.blockDim, config.dynamicSmemBytes};
  card().launched[operation.launch.call.kernel] = operation.launch;
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Call call;
  if (call.failed()) return call.error();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return call.done(cudaSuccess);
  Card& c = card();
  const size_t limit = std::min(c.config.shared_per_block_optin, kSharedCapacity);
  if (value < 0 || static_cast<size_t>(value) > limit) return call.done(cudaErrorInvalidValue);
  c.shared_limits[kernel] = static_cast<size_t>(value);
  return call.done(cudaSuccess);
}

cudaError_t get_function_attributes(cudaFuncAttributes* attributes, const void* kernel) {
  Call call;
  if (call.failed()) return call.error();
  Card& c = card();
  if (c.config.kernels_error != cudaSuccess) return call.done(c.config.kernels_error);
  *attributes = {};
  attributes->maxThreadsPerBlock = c.config.threads_per_block;
  attributes->numRegs = 64;
  attributes->binaryVersion = c.config.compute_capability;
  attributes->ptxVersion = code_capability();
  const auto raised = c.shared_limits.find(kernel);
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(raised != c.shared_limits.end() ? raised->second : c.config.shared_per_block);
  return call.done(cudaSuccess);
}

cudaError_t occupancy(int* blocks, const void* /*kernel*/, int block_size, size_t shared_bytes) {
  Call call;
  if (call.failed()) return call.error();
  if (blocks == nullptr || block_size <= 0) return call.done(cudaErrorInvalidValue);
  const int by_threads = 1024 / std::min(block_size, 1024);
  const int by_shared = shared_bytes == 0 ? 16 : static_cast<int>(64 * 1024 / shared_bytes);
  *blocks = std::min({by_threads, by_shared, 16});
  return call.done(cudaSuccess);
}

}  // namespace banter::cuda_emulator

using namespace banter::cuda_emulator;

#define BANTER_ERRORS(X)                                                                                            \
  X(cudaSuccess, "no error")                                                                                        \
  X(cudaErrorInvalidValue, "invalid argument")                                                                      \
  X(cudaErrorMemoryAllocation, "out of memory")                                                                     \
  X(cudaErrorInitializationError, "initialization error")                                                           \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                \
  X(cudaErrorInvalidDevicePointer, "invalid device pointer")                                                        \
  X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")                    \
  X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")                               \
  X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                        \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                                                               \
  X(cudaErrorDeviceUninitialized, "invalid device context")                                                         \
  X(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")                    \
  X(cudaErrorInvalidPtx, "a PTX JIT compilation failed")                                                            \
  X(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found")                                             \
  X(cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported toolchain")                  \
  X(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled")                                            \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                      \
  X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                                \
  X(cudaErrorNotReady, "device not ready")                                                                          \
  X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                            \
  X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")            \
  X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                  \
  X(cudaErrorContextIsDestroyed, "context is destroyed")                                                            \
  X(cudaErrorLaunchFailure, "unspecified launch failure")                                                           \
  X(cudaErrorNotSupported, "operation not supported")                                                               \
  X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                          \
  X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                   \
  X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                 \
  X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                        \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                           \
  X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                     \
  X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
  X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")              \
  X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define BANTER_NAME(name, text) \
  case name:                    \
    return #name;
    BANTER_ERRORS(BANTER_NAME)
    default:
      return "unrecognized error code";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define BANTER_TEXT(name, text) \
  case name:                    \
    return text;
    BANTER_ERRORS(BANTER_TEXT)
    default:
      return "unrecognized error code";
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  Call call;
  if (call.failed()) return call.error();
  *version = card().config.driver_version;
  return call.done(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  Call call;
  if (call.failed()) return call.error();
  *version = CUDART_VERSION;
  return call.done(cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  Call call;
  if (call.failed()) return call.error();
  const Config& c = card().config;
  *count = c.count_error == cudaSuccess ? c.devices : 0;
  if (c.count_error != cudaSuccess) return call.done(c.count_error);
  return call.done(c.devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  Call call;
  if (call.failed()) return call.error();
  const CUctx_st* const context = current_context();
  *device = context != nullptr ? context->device : 0;
  return call.done(card().config.devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  Call call;
  if (call.failed()) return call.error();
  if (device < 0 || device >= card().config.devices) return call.done(cudaErrorInvalidDevice);
  // It takes the place of whatever context was current: a caller that has one of the game's must not do this.
  if (current_context() != nullptr) {
    report_host(FaultKind::kBadHandle, current_context(), "cudaSetDevice in a context that is not the primary one");
  }
  return call.done(cudaSuccess);
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  Call call;
  if (call.failed()) return call.error();
  return call.done(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Call call;
  if (call.failed()) return call.error();
  const Config& c = card().config;
  if (properties == nullptr || device < 0 || device >= c.devices) return call.done(cudaErrorInvalidDevice);
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "Emulated card %d", device);
  std::memcpy(p.uuid.bytes, "banter-emulated", 16);
  p.uuid.bytes[15] = static_cast<char>(device);
  p.totalGlobalMem = c.memory_bytes;
  p.sharedMemPerBlock = c.shared_per_block;
  p.sharedMemPerBlockOptin = c.shared_per_block_optin;
  p.sharedMemPerMultiprocessor = std::max<size_t>(c.shared_per_block_optin + 1024, 64 * 1024);
  p.totalConstMem = 64 * 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = c.threads_per_block;
  p.maxThreadsPerMultiProcessor = c.compute_capability == 75 ? 1024 : 1536;
  p.maxBlocksPerMultiProcessor = 16;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024, p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7FFFFFFF, p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = c.compute_capability / 10, p.minor = c.compute_capability % 10;
  p.multiProcessorCount = c.multiprocessors;
  p.l2CacheSize = 4 << 20;
  p.memoryBusWidth = 256;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.streamPrioritiesSupported = 1;
  p.asyncEngineCount = 2;
  p.pciBusID = device + 1;
  *properties = p;
  return call.done(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = p.regsPerMultiprocessor;
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case cudaDevAttrClockRate:
      *value = 1500000;  // kHz
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 7000000;  // kHz
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
      *value = 1;
      break;
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
      *value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  Call call;
  if (call.failed()) return call.error();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return call.done(cudaSuccess);
}
