// The emulated card's contexts: what is made in one is used in it only, and ends with it.
#include <gtest/gtest.h>

#include "cuda_emulator/faults_listener.h"

namespace banter::cuda_emulator {
namespace {

void expect_fault(const char* text) {
  const std::vector<Fault> found = take_faults();
  ASSERT_EQ(found.size(), 1u) << text;
  EXPECT_EQ(found[0].kind, FaultKind::kBadHandle);
  EXPECT_NE(found[0].message.find(text), std::string::npos) << found[0].message;
}

template <class F>
F* driver_function(const char* name, unsigned version = 12050) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &status), cudaSuccess);
  EXPECT_EQ(function != nullptr, status == cudaDriverEntryPointSuccess);
  return reinterpret_cast<F*>(function);
}

TEST(EmulatedContexts, WhatIsMadeInOneIsUsedInItOnly) {
  CUctx_st* const first = create_context();
  CUctx_st* const second = create_context();
  push_context(first);
  void *memory = nullptr, *pinned = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(live().in_contexts, 4);
  EXPECT_FALSE(live().primary_context_used);
  for (CUctx_st* const other : {second, static_cast<CUctx_st*>(nullptr)}) {
    if (other == nullptr) pop_context();
    if (other != nullptr) push_context(other);
    EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
    expect_fault("device memory of a context");
    EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
    expect_fault("pinned memory of a context");
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
    expect_fault("stream of a context");
    EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
    expect_fault("event of a context");
    if (other != nullptr) pop_context();
  }
  push_context(first);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  pop_context();
  destroy_context(first);
  destroy_context(second);
  EXPECT_EQ(live().device_allocations + live().pinned_allocations + live().streams + live().events, 0);
}

TEST(EmulatedContexts, SetDeviceInOneOfTheGamesIsAFault) {
  CUctx_st* const context = create_context();
  push_context(context);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  expect_fault("cudaSetDevice");
  pop_context();
  destroy_context(context);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(EmulatedContexts, AnEndedOneIsKnownAsSuch) {
  auto* const push = driver_function<int(CUctx_st*)>("cuCtxPushCurrent");
  auto* const pop = driver_function<int(CUctx_st**)>("cuCtxPopCurrent");
  CUctx_st* const context = create_context();
  EXPECT_EQ(push(context), cudaSuccess);
  destroy_context(context);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorContextIsDestroyed);
  CUctx_st* popped = nullptr;
  pop(&popped);
  EXPECT_EQ(popped, context);
  EXPECT_EQ(push(context), cudaErrorContextIsDestroyed);
  int unknown = 0;
  EXPECT_EQ(push(reinterpret_cast<CUctx_st*>(&unknown)), cudaErrorDeviceUninitialized);
  expect_fault("no such context");
  EXPECT_EQ(pop(&popped), cudaErrorDeviceUninitialized);
  expect_fault("empty stack");
}

TEST(EmulatedContexts, DriversDifferInWhatTheyHave) {
  EXPECT_EQ(driver_function<void()>("cuCtxCreate", 12000), nullptr);
  EXPECT_NE(driver_function<void()>("cuCtxCreate", 12050), nullptr);
  EXPECT_EQ(driver_function<void()>("cuNothing"), nullptr);
  Config older;
  older.missing_in_driver = "cuCtxPushCurrent";
  reset(older);
  EXPECT_EQ(driver_function<void()>("cuCtxPushCurrent"), nullptr);
}

}  // namespace
}  // namespace banter::cuda_emulator
