// The card that kernels' tests run on: the emulated one, or the machine's.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "backend_cuda/kernels.h"

#if defined(BANTER_CUDA_EMULATOR)
#include "cuda_emulator/faults_listener.h"
#endif

namespace banter::test {

#if defined(BANTER_CUDA_EMULATOR)
/** Whatever the emulated card finds wrong with a kernel fails the test. */
inline const cuda_emulator::ListenToFaults kListenToFaults;
#endif

/** What the card is. */
inline cuda::DeviceLimits card_limits() {
  int major = 0, minor = 0, multiprocessors = 0;
  EXPECT_EQ(cudaSuccess, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT_EQ(cudaSuccess, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  EXPECT_EQ(cudaSuccess, cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  return {.compute_capability = 10 * major + minor, .multiprocessors = multiprocessors};
}

}  // namespace banter::test
