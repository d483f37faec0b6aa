#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "backend_cuda/cuda_backend.h"

namespace banter::cuda {
namespace {

constexpr int32_t kOldest = 75;  // Turing: the first with the integer matrix products that kernels use

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Error unsupported(std::string message) {
  return {BANTER_ERROR_UNSUPPORTED, std::move(message)};
}

Result<DeviceChoice> describe(int32_t device) {
  cudaDeviceProp properties = {};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess) {
    return unsupported("Graphics card " + std::to_string(device) +
                       " does not tell what it is: " + cudaGetErrorString(status) + ".");
  }
  DeviceChoice choice;
  choice.device = device;
  choice.name = properties.name;
  choice.compute_capability = 10 * properties.major + properties.minor;
  choice.multiprocessors = properties.multiProcessorCount;
  choice.memory_bytes = properties.totalGlobalMem;
  if (choice.compute_capability < kOldest) {
    return unsupported("The graphics card " + choice.name + " is too old: its compute capability is " +
                       std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                       ", 7.5 (Turing) or later is needed.");
  }
  if (properties.integrated != 0 && choice.multiprocessors < 8) {
    return unsupported("The graphics processor " + choice.name + " is too small to be faster than the processor.");
  }
  choice.score = static_cast<uint64_t>(choice.multiprocessors) * 1000 + (choice.memory_bytes >> 30);
  return choice;
}

}  // namespace

Result<DeviceChoice> choose_device(int32_t wanted) {
  int driver = 0, runtime = 0, count = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return unsupported("There is no NVIDIA driver on this machine.");
  if (driver / 1000 < runtime / 1000) {
    return unsupported("The NVIDIA driver supports CUDA " + version_text(driver) + ", but " + version_text(runtime) +
                       " is needed; update the driver.");
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    return unsupported("There is no NVIDIA graphics card on this machine.");
  }
  if (status != cudaSuccess) {
    return unsupported(std::string("The NVIDIA driver does not work: ") + cudaGetErrorString(status) + ".");
  }
  if (wanted >= count || wanted < -1) {
    return unsupported("There is no graphics card " + std::to_string(wanted) + "; this machine has " +
                       std::to_string(count) + ", counted from 0.");
  }
  if (wanted >= 0) return describe(wanted);
  Result<DeviceChoice> best = describe(0);
  for (int32_t device = 1; device < count; ++device) {
    Result<DeviceChoice> other = describe(device);
    if (other && (!best || other->score > best->score)) best = std::move(other);
  }
  return best;
}

}  // namespace banter::cuda
