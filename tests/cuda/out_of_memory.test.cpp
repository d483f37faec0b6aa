// Memory that runs out while a step is recorded: nothing thrown leaves the backend, and end_step() tells.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "backend_cuda/cuda_backend.h"
#include "backend_cuda/device_weight.h"

namespace {

// Allocations of this thread until one fails, once; -1: none does.
thread_local int g_until_failure = -1;

void* take(size_t bytes) {
  if (g_until_failure >= 0 && g_until_failure-- == 0) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const memory = take(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace banter::cuda {
namespace {

void record_step(ops::Backend& backend) {
  static const DeviceWeight weight;
  ops::KvPages pages;
  backend.begin_step({});
  for (int layer = 0; layer < 4; ++layer) {
    backend.embed({.table = &weight, .out = nullptr});
    backend.norm({.residual = nullptr});
    const ops::LinearTarget target = {.weight = &weight, .y = nullptr};
    backend.linear({.x = nullptr, .targets = {&target, 1}});
    backend.gated({.gate = &weight, .up = &weight, .x = nullptr, .out = nullptr});
    backend.rope_kv({.q = nullptr, .k = nullptr, .v = nullptr, .kv = &pages});
    backend.attention({.q = nullptr, .out = nullptr, .kv = &pages});
  }
  backend.logits({.head = &weight, .x = nullptr, .row_indices = {}, .logits = nullptr});
  backend.best_logits();
}

TEST(OutOfMemory, WhileAStepIsRecordedItIsToldAtItsEnd) {
  const auto pool = std::move(*ThreadPool::create({.threads = 1}));
  int failed = 0;
  for (int n = 0; n < 100; ++n) {
    auto backend = create_backend(*pool, -1);  // anew: what it holds serves later steps
    ASSERT_TRUE(backend) << backend.error().message;
    g_until_failure = n;
    record_step(**backend);
    const bool all_passed = g_until_failure >= 0;
    g_until_failure = -1;
    if (all_passed) break;
    ++failed;
    const Result<void> outcome = (*backend)->end_step();
    ASSERT_FALSE(outcome) << n;
    EXPECT_EQ(outcome.error().code, BANTER_ERROR_OUT_OF_MEMORY);
    // The next step knows nothing of it: an empty one is fine.
    (*backend)->begin_step({});
    const Result<void> next = (*backend)->end_step();
    EXPECT_TRUE(next) << next.error().message;
  }
  EXPECT_GT(failed, 3);
  EXPECT_LT(failed, 100);
}

}  // namespace
}  // namespace banter::cuda
