#include "backend_cuda/driver.h"

#include <cuda_runtime.h>

#include "backend_cuda/memory.h"

namespace banter::cuda {
namespace {

/** Sets `function` to that of the driver's which had this name in that version of CUDA (1000 · major + 10 · minor). */
template <class F>
void find(F*& function, const char* name, unsigned version) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
#else
  if (version > CUDART_VERSION) return;
  const cudaError_t status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess) function = reinterpret_cast<F*>(address);
}

}  // namespace

Driver find_driver() {
  Driver driver;
  find(driver.push, "cuCtxPushCurrent", 12000);
  find(driver.pop, "cuCtxPopCurrent", 12000);
  find(driver.device_of_current, "cuCtxGetDevice", 12000);
  find(driver.id, "cuCtxGetId", 12000);
  find(driver.attribute, "cuDeviceGetAttribute", 12000);
  find(driver.limit_of_current, "cuCtxGetLimit", 12000);
  find(driver.create, "cuCtxCreate", 12050);  // the form that takes CUctxCreateParams
  find(driver.destroy, "cuCtxDestroy", 12000);
  return driver;
}

Result<Driver> load_driver() {
  Driver driver = find_driver();
  if (driver.push == nullptr || driver.pop == nullptr || driver.device_of_current == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED,
                 "The NVIDIA driver does not give the functions that computing in a context of the game's takes."};
  }
  return driver;
}

Result<void> check_driver(int status, const char* what) {
  return check(static_cast<cudaError_t>(status), what);
}

}  // namespace banter::cuda
