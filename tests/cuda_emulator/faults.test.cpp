// Each planted fault is found, and named for what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend_cuda/launch.h"
#include "cuda_emulator/control.h"
#include "cuda_emulator/device_array.h"
#include "cuda_emulator/faults_listener.h"
#include "cuda_emulator/test_kernels.h"

namespace banter::cuda_emulator_test {
namespace {

using namespace banter::cuda_emulator;
using banter::cuda::launch;

#define NEEDS_MEMORY_CHECKS() \
  if (!memory_checks()) GTEST_SKIP() << "this build's kernels are not compiled with the checks of every access"

/** Waits; one of `kinds` must have been found, in a kernel, and nothing else. */
void expect_fault(std::initializer_list<FaultKind> kinds) {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure) << "the error stays";
  const std::vector<Fault> found = take_faults();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(std::find(kinds.begin(), kinds.end(), found[0].kind) != kinds.end()) << to_string(found[0]);
  EXPECT_NE(found[0].kernel.find("banter::cuda_emulator_test::"), std::string::npos) << to_string(found[0]);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the fault was taken";
}

void run_planted(Plant plant, float* host = nullptr) {
  const DeviceArray<std::byte> device(4096);
  ASSERT_EQ(cudaMemset(device.data(), 0, 4096), cudaSuccess);
  ASSERT_EQ(launch(planted, {dim3(2), dim3(64), sizeof(PlantShared)}, nullptr, PlantArgs{device.data(), host, plant}),
            cudaSuccess);
  cudaDeviceSynchronize();
}

struct Planted {
  Plant plant;
  FaultKind kind;
  bool needs_memory_checks;
};
class PlantedFaults : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFaults, AreFoundInEveryOrder) {
  if (GetParam().needs_memory_checks) NEEDS_MEMORY_CHECKS();
  std::vector<float> host(64);
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    Config config;
    config.block_order = order;
    reset(config);
    run_planted(GetParam().plant, host.data());
    expect_fault({GetParam().kind});
  }
}

INSTANTIATE_TEST_SUITE_P(Emulator, PlantedFaults,
                         testing::Values(Planted{Plant::kUnalignedVector, FaultKind::kMisaligned, true},
                                         Planted{Plant::kUnalignedFloat, FaultKind::kMisaligned, true},
                                         Planted{Plant::kReadHost, FaultKind::kHostMemory, true},
                                         Planted{Plant::kWriteHost, FaultKind::kHostMemory, true},
                                         Planted{Plant::kWriteConstant, FaultKind::kWriteToConstant, true},
                                         Planted{Plant::kUninitialisedShared, FaultKind::kUninitialised, true},
                                         Planted{Plant::kSharedBeyond, FaultKind::kSharedBounds, true},
                                         Planted{Plant::kArrayIndex, FaultKind::kIndexOutOfBounds, true},
                                         Planted{Plant::kAtomics, FaultKind::kRace, true},
                                         Planted{Plant::kOtherThreadsVariable, FaultKind::kHostMemory, true},
                                         Planted{Plant::kBarrierSomeThreads, FaultKind::kDivergentBarrier, false},
                                         Planted{Plant::kBarrierTwoPlaces, FaultKind::kDivergentBarrier, false},
                                         Planted{Plant::kBarrierAfterExit, FaultKind::kDivergentBarrier, false},
                                         Planted{Plant::kShuffleLaneMissing, FaultKind::kWarpMismatch, false},
                                         Planted{Plant::kShuffleMaskTooWide, FaultKind::kWarpMismatch, false},
                                         Planted{Plant::kShuffleOtherMask, FaultKind::kWarpMismatch, false},
                                         Planted{Plant::kShuffleInactiveSource, FaultKind::kShuffleSource, false},
                                         Planted{Plant::kVoteTwoPlaces, FaultKind::kWarpMismatch, false},
                                         Planted{Plant::kTrap, FaultKind::kTrap, false}));

TEST(Faults, AMissingBarrier) {
  NEEDS_MEMORY_CHECKS();
  const DeviceArray<float> data(std::vector<float>(256, 1.0f));
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    Config config;
    config.block_order = order;
    reset(config);
    for (const int threads : {32, 256}) {
      const auto run = [&](Reverse fault) {
        EXPECT_EQ(launch(reverse, {dim3(1), dim3(threads), sizeof(ReverseShared)}, nullptr,
                         ReverseArgs{data.data(), 2, fault}),
                  cudaSuccess);
      };
      run(Reverse::kNoBarrierBeforeRead);
      expect_fault({FaultKind::kUninitialised, FaultKind::kRace});
      run(Reverse::kNoBarrierBeforeWrite);
      expect_fault({FaultKind::kRace});
    }
  }
}

TEST(Faults, AWarpWithoutASync) {
  NEEDS_MEMORY_CHECKS();
  run_planted(Plant::kWarpWithoutSync);
  expect_fault({FaultKind::kUninitialised, FaultKind::kRace});
}

TEST(Faults, OneBeyondTheEndOfAnAllocation) {
  NEEDS_MEMORY_CHECKS();
  for (const int count : {1, 63, 64, 100, 4096}) {  // at a granule's end and within
    const DeviceArray<float> x(count), y(count), out(count);
    const auto run = [&](int extra) {
      return launch(axpy, {dim3(32), dim3(256)}, nullptr, AxpyArgs{x.data(), y.data(), out.data(), 1, count, extra});
    };
    EXPECT_EQ(run(0), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(run(1), cudaSuccess);
    expect_fault({FaultKind::kOutOfBounds});
  }
  const DeviceArray<float> data(256);
  ASSERT_EQ(cudaMemset(data.data(), 0, 1024), cudaSuccess);
  ASSERT_EQ(launch(reverse, {dim3(1), dim3(256), sizeof(ReverseShared)}, nullptr,
                   ReverseArgs{data.data(), 1, Reverse::kOffByOne}),
            cudaSuccess);
  expect_fault({FaultKind::kIndexOutOfBounds, FaultKind::kSharedBounds});
}

TEST(Faults, FreedMemory) {
  const DeviceArray<float> x(256), y(256);
  float* out = nullptr;
  ASSERT_EQ(cudaMalloc(&out, 1024), cudaSuccess);
  ASSERT_EQ(launch(axpy, {dim3(1), dim3(256)}, nullptr, AxpyArgs{x.data(), y.data(), out, 1, 256, 0}), cudaSuccess);
  ASSERT_EQ(cudaFree(out), cudaSuccess);  // before the kernel ran
  if (memory_checks()) {
    expect_fault({FaultKind::kUseAfterFree});
  } else {
    reset();  // AddressSanitizer would end the program
  }
  EXPECT_EQ(cudaFree(out), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(x.data() + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(out, x.data(), 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  const std::vector<Fault> found = take_faults();
  ASSERT_EQ(found.size(), 3u);
  for (const Fault& fault : found) EXPECT_EQ(fault.kind, FaultKind::kUseAfterFree) << to_string(fault);
}

TEST(Faults, AnAsynchronousCopyThatWasNotWaitedFor) {
  const std::vector<uint4> from(64 * 4, make_uint4(1, 2, 3, 4));
  const DeviceArray<uint4> device(from), to(from.size());
  const auto run = [&](Pipeline fault) {
    return launch(pipeline, {dim3(1), dim3(64), sizeof(PipelineShared)}, nullptr,
                  PipelineArgs{device.data(), to.data(), 4, fault});
  };
  for (const Pipeline fault : {Pipeline::kNoWait, Pipeline::kWaitTooShort}) {
    ASSERT_EQ(run(fault), cudaSuccess);
    if (memory_checks()) {
      expect_fault({FaultKind::kAsyncNotWaited});
    } else {
      EXPECT_NE(to.read()[0].x, 1u) << "what is read too early is not the data";
    }
  }
  NEEDS_MEMORY_CHECKS();
  ASSERT_EQ(run(Pipeline::kNoBarrierAfterWait), cudaSuccess);
  expect_fault({FaultKind::kRace, FaultKind::kAsyncNotWaited, FaultKind::kUninitialised});
}

TEST(Faults, LaunchesOutsideTheLimits) {
  const DeviceArray<float> data(256);
  const AxpyArgs args{data.data(), data.data(), data.data(), 1, 256, 0};
  const auto expect_refused = [&](dim3 grid, dim3 block, size_t shared) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared;
    EXPECT_EQ(cudaLaunchKernelEx(&config, axpy, args), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    const std::vector<Fault> found = take_faults();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, FaultKind::kLaunchLimits);
  };
  expect_refused(dim3(1), dim3(1025), 0);
  expect_refused(dim3(1), dim3(64, 32), 0);
  expect_refused(dim3(1), dim3(1, 1, 65), 0);
  expect_refused(dim3(1), dim3(0), 0);
  expect_refused(dim3(1, 65536), dim3(32), 0);
  expect_refused(dim3(0), dim3(32), 0);
  expect_refused(dim3(1), dim3(32), 47 * 1024 + 1);
  Config config;
  config.shared_per_block_optin = 99 * 1024;
  reset(config);
  ASSERT_EQ(cudaFuncSetAttribute(axpy, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024), cudaSuccess);
  expect_refused(dim3(1), dim3(32), 64 * 1024 + 1);
  EXPECT_EQ(cudaFuncSetAttribute(axpy, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024), cudaErrorInvalidValue);
  // Less shared memory than the kernel uses.
  ASSERT_EQ(launch(reverse, {dim3(1), dim3(32), sizeof(ReverseShared) - 4}, nullptr,
                   ReverseArgs{data.data(), 1, Reverse::kClean}),
            cudaSuccess);
  expect_fault({FaultKind::kSharedBounds});
}

TEST(Faults, InstructionsThatACardHasNot) {
  Config config;
  config.compute_capability = 75;
  reset(config);
  const DeviceArray<uint16_t> bits(1024);
  const DeviceArray<float> out(128);
  ASSERT_EQ(cudaMemset(bits.data(), 0, 2048), cudaSuccess);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(bits.data());
  auto* const words = reinterpret_cast<int32_t*>(out.data());
  ASSERT_EQ(launch(matrix, {dim3(1), dim3(32)}, nullptr,
                   MatrixArgs{bits.data(), bits.data(), out.data(), true, bytes, reinterpret_cast<const int8_t*>(bytes),
                              words, words}),
            cudaSuccess);
  expect_fault({FaultKind::kUnsupported});
  run_planted(Plant::kReduce);
  expect_fault({FaultKind::kUnsupported});
}

TEST(Faults, MatricesLoadedFromAddressesThatAreNotAligned) {
  const DeviceArray<uint16_t> rows(256);
  const DeviceArray<uint32_t> out(256);
  ASSERT_EQ(launch(load_matrices, {dim3(1), dim3(32), sizeof(LoadMatricesShared)}, nullptr,
                   LoadMatricesArgs{rows.data(), out.data(), 8}),
            cudaSuccess);
  expect_fault({FaultKind::kMisaligned});
}

TEST(Faults, CopiesThatAreNotWhatTheySay) {
  const DeviceArray<float> device(64);
  std::vector<float> host(65);
  const auto expect_refused = [](cudaError_t result, FaultKind kind) {
    EXPECT_EQ(result, cudaErrorInvalidValue);
    const std::vector<Fault> found = take_faults();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, kind) << to_string(found[0]);
  };
  expect_refused(cudaMemcpy(host.data(), device.data(), 65 * 4, cudaMemcpyDeviceToHost), FaultKind::kOutOfBounds);
  expect_refused(cudaMemcpy(host.data(), device.data(), 4, cudaMemcpyHostToDevice), FaultKind::kInvalidPointer);
  EXPECT_EQ(cudaMemcpyAsync(device.data(), host.data(), 4, cudaMemcpyHostToDevice), cudaSuccess);
  const std::vector<Fault> found = take_faults();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FaultKind::kPageableMemory);
  Config config;
  config.report_pageable_copies = false;
  reset(config);
  EXPECT_EQ(cudaMemcpyAsync(device.data(), host.data(), 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Faults, ACopyFromMemoryThatIsFreedBeforeItRuns) {
  float* device = nullptr;
  float* host = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&host, 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ASSERT_EQ(take_faults().size(), 1u);
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ASSERT_EQ(take_faults().size(), 1u);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
}  // namespace banter::cuda_emulator_test
