// Streams, events, graphs, injected failures: what the runtime promises and what it does not.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backend_cuda/launch.h"
#include "cuda_emulator/control.h"
#include "cuda_emulator/device_array.h"
#include "cuda_emulator/faults_listener.h"
#include "cuda_emulator/test_kernels.h"

namespace banter::cuda_emulator_test {
namespace {

using namespace banter::cuda_emulator;
using banter::cuda::KernelChain;
using banter::cuda::KernelQueue;
using banter::cuda::launch;

class Streams : public testing::Test {
 protected:
  static constexpr int kCount = 256;
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned_, kCount * sizeof(float)), cudaSuccess);
    for (int i = 0; i < kCount; ++i) pinned_[i] = 1;
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a_), cudaSuccess);
  }
  cudaError_t upload(cudaStream_t stream) {
    return cudaMemcpyAsync(x_.data(), pinned_, kCount * sizeof(float), cudaMemcpyHostToDevice, stream);
  }
  cudaError_t download(cudaStream_t stream) {
    return cudaMemcpyAsync(pinned_, y_.data(), kCount * sizeof(float), cudaMemcpyDeviceToHost, stream);
  }
  /** y = 2 x + x. */
  cudaError_t triple(cudaStream_t stream) {
    return launch(axpy, {dim3(1), dim3(kCount)}, stream, AxpyArgs{x_.data(), x_.data(), y_.data(), 2, kCount, 0});
  }

  DeviceArray<float> x_{kCount}, y_{kCount};
  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t event_ = nullptr;
  float* pinned_ = nullptr;
};

TEST_F(Streams, ResultsThatAreReadTooEarlyAreNotThere) {
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(triple(a_), cudaSuccess);
  ASSERT_EQ(download(a_), cudaSuccess);
  EXPECT_EQ(pinned_[0], 1) << "nothing has been waited for";
  EXPECT_EQ(pending_operations(), 3u);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(pinned_[0], 3);
}

TEST_F(Streams, AStagingBufferThatIsUsedAgainTooEarlySpoilsTheCopy) {
  ASSERT_EQ(upload(a_), cudaSuccess);
  pinned_[0] = 100;
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(x_.read()[0], 100);
}

TEST_F(Streams, EventsOrderStreams) {
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_), cudaSuccess);
  ASSERT_EQ(triple(b_), cudaSuccess);
  ASSERT_EQ(download(b_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(pinned_[5], 3);
}

TEST_F(Streams, WithoutAnEventStreamsAreNotOrdered) {
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(triple(b_), cudaSuccess);
  ASSERT_EQ(download(b_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_NE(pinned_[5], 3);
  // Nor does the default stream wait for streams that do not block.
  EXPECT_NE(x_.read()[0], 1);
}

TEST_F(Streams, ALoopThatAsksForAnEventEnds) {
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(triple(a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  int asked = 0;
  while (cudaEventQuery(event_) == cudaErrorNotReady) ++asked;
  EXPECT_GE(asked, 2);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error";
  EXPECT_EQ(pending_operations(), 0u);
}

TEST_F(Streams, ARecordAgainReplacesTheFirst) {
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(x_.read()[0], 1);
}

TEST_F(Streams, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(upload(blocking), cudaSuccess);
  ASSERT_EQ(triple(nullptr), cudaSuccess);
  ASSERT_EQ(download(blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(pinned_[0], 3);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(Streams, AGraphReplaysWithWhatTheMemoryHoldsThen) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);  // over another stream and back
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_), cudaSuccess);
  ASSERT_EQ(triple(b_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, b_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(a_, event_), cudaSuccess);
  ASSERT_EQ(download(a_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 3u);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (const float value : {1.0f, 7.0f}) {
    pinned_[0] = value;
    ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(pinned_[0], 3 * value);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Streams, AGraphMayBeMadeNodeByNode) {
  const auto grow = [&](KernelQueue queue) {  // x = 2 x + x
    return launch(axpy, {dim3(1), dim3(kCount)}, queue, AxpyArgs{x_.data(), x_.data(), x_.data(), 2, kCount, 0});
  };
  KernelChain chain;
  ASSERT_EQ(cudaGraphCreate(&chain.graph, 0), cudaSuccess);
  ASSERT_EQ(upload(a_), cudaSuccess);
  ASSERT_EQ(grow(a_), cudaSuccess);  // the emulated card knows its arguments' types from now on
  for (int i = 0; i < 2; ++i) ASSERT_EQ(grow(chain), cudaSuccess);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(chain.graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, chain.graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(chain.graph), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(x_.read()[0], 3) << "making it runs nothing";
  for (const float expected : {27.0f, 243.0f}) {
    ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(x_.read()[0], expected);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Streams, WhatACaptureForbidsEndsIt) {
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  const auto refused = [&](auto&& what) {
    ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(what(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
  };
  refused([&] { return cudaMalloc(&memory, 16); });
  refused([&] { return cudaStreamSynchronize(a_); });
  refused([&] { return cudaStreamQuery(a_); });
  refused([&] { return cudaDeviceSynchronize(); });
  refused([&] { return cudaMemcpy(x_.data(), pinned_, 4, cudaMemcpyHostToDevice); });
  refused([&] {  // by another thread, too
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaDeviceSynchronize(); }).join();
    return error;
  });
  // Another thread may allocate meanwhile.
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess); }).join();
  // Work that the capturing stream has not waited for.
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_), cudaSuccess);
  ASSERT_EQ(triple(b_), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  cudaGetLastError();
}

TEST_F(Streams, HandlesThatAreGone) {
  cudaStream_t gone = nullptr;
  ASSERT_EQ(cudaStreamCreate(&gone), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  EXPECT_EQ(triple(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  const std::vector<Fault> found = take_faults();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, FaultKind::kBadHandle);
}

TEST_F(Streams, SeveralThreadsMayCall) {
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) {
      void* memory = nullptr;
      ASSERT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
      ASSERT_EQ(cudaMemsetAsync(memory, 0, 1000, b_), cudaSuccess);
      ASSERT_EQ(launch(block_sum, {dim3(2), dim3(128), sizeof(SumShared)}, b_,
                       SumArgs{static_cast<float*>(memory), static_cast<float*>(memory), 250}),
                cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
      ASSERT_EQ(cudaFree(memory), cudaSuccess);
    }
  });
  const DeviceArray<float> values(std::vector<float>(256, 1.0f));
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(launch(reverse, {dim3(1), dim3(256), sizeof(ReverseShared)}, a_,
                     ReverseArgs{values.data(), 2, Reverse::kClean}),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  }
  other.join();
}

TEST(Injection, TheNthCallFails) {
  void* memory = nullptr;
  fail_call(2);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  fail_call(1);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorMemoryAllocation);
  fail_allocation(2);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  void* second = nullptr;
  EXPECT_EQ(cudaMallocHost(&second, 16), cudaErrorMemoryAllocation);
  const Live before = live();
  fail_call(1, true);
  EXPECT_EQ(cudaFree(memory), cudaErrorLaunchFailure) << "the device is lost";
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorLaunchFailure);
  EXPECT_EQ(live().device_allocations, before.device_allocations - 1) << "released all the same";
  reset();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(calls_made(), 1);
}

TEST(Injection, MemoryIsLimited) {
  Config config;
  config.memory_bytes = 1 << 20;
  reset(config);
  size_t free = 0, total = 0;
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 1 << 19), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, (1 << 19) + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, size_t{1} << 19);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
}

TEST(Card, IsWhatTheTestSays) {
  Config config;
  config.compute_capability = 75;
  config.multiprocessors = 30;
  reset(config);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.major * 10 + properties.minor, 75);
  EXPECT_EQ(properties.multiProcessorCount, 30);
  int value = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
  EXPECT_EQ(value, 5);
  config.count_error = cudaErrorInsufficientDriver;
  reset(config);
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaErrorInsufficientDriver);
  config.count_error = cudaSuccess;
  config.devices = 0;
  reset(config);
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace banter::cuda_emulator_test
