// The few functions of the CUDA driver that the runtime has no equal of, found at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

struct CUctx_st;

namespace banter::cuda {

// As cuda.h of CUDA 12.9 declares them; older toolkits lack some. CUresult and CUdevice are int there.
using DriverContext = CUctx_st;
struct GraphicsParams {  // CUctxCigParam
  int32_t kind;
  void* data;
};
struct ContextParams {  // CUctxCreateParams
  void* affinity;
  int affinities;
  GraphicsParams* graphics;
};
inline constexpr int32_t kQueueOfD3d12 = 1, kBlobOfVulkan = 2;           // CUcigDataType
inline constexpr int kD3d12IsSupported = 135, kVulkanIsSupported = 138;  // CUdevice_attribute
inline constexpr int kLimitOfSharedMemory = 7, kLimitIsInGraphics = 8;   // CUlimit

#if defined(_WIN32)
#define BANTER_DRIVER_CALL __stdcall
#else
#define BANTER_DRIVER_CALL
#endif
struct Driver {
  int(BANTER_DRIVER_CALL* push)(DriverContext* context) = nullptr;
  int(BANTER_DRIVER_CALL* pop)(DriverContext** context) = nullptr;
  int(BANTER_DRIVER_CALL* device_of_current)(int* device) = nullptr;
  // Of newer drivers; null where they are missing.
  int(BANTER_DRIVER_CALL* id)(DriverContext* context, unsigned long long* id) = nullptr;  // null: the current one's
  int(BANTER_DRIVER_CALL* attribute)(int* value, int attribute, int device) = nullptr;
  int(BANTER_DRIVER_CALL* limit_of_current)(size_t* value, int limit) = nullptr;
  int(BANTER_DRIVER_CALL* create)(DriverContext** context, ContextParams* params, unsigned flags, int device) = nullptr;
  int(BANTER_DRIVER_CALL* destroy)(DriverContext* context) = nullptr;

  bool can_make_contexts() const {
    return attribute != nullptr && limit_of_current != nullptr && create != nullptr && destroy != nullptr;
  }
};
#undef BANTER_DRIVER_CALL

/** What the driver has of these. */
Driver find_driver();
/** The same. Errors: UNSUPPORTED where it has not even push and pop. */
Result<Driver> load_driver();
/** OK, or as check() of memory.h: the driver's numbers of errors are the runtime's. */
Result<void> check_driver(int status, const char* what);

}  // namespace banter::cuda
