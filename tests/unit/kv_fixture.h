// A page pool of the reference backend, for tests of pages and of sequences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kv/page_pool.h"
#include "ops/reference.h"

namespace banter::kv {

/** Runs everything on the caller: these tests are not about threads. */
class InlinePool final : public ThreadPool {
 public:
  int32_t threads() const override { return 1; }
  void run(int32_t units, Body body, void* context) override {
    for (int32_t unit = 0; unit < units; ++unit) body(context, unit, 0);
  }
};

inline constexpr GroupSpec kFull = {ops::KvType::kF16, 3, 2, 16, 0, 0};
inline constexpr GroupSpec kSliding = {ops::KvType::kF16, 15, 2, 16, 40, 0};

class KvTest : public ::testing::Test {
 protected:
  std::unique_ptr<PagePool> make(std::vector<GroupSpec> groups, int32_t pages) {
    size_t stride = 0;
    for (const ops::KvGeometry& g : plan_geometry(groups)) stride = std::max(stride, (g.page_bytes() + 63) / 64 * 64);
    Result<std::unique_ptr<PagePool>> pool =
        PagePool::create(*backend_, std::move(groups), stride * static_cast<size_t>(pages));
    EXPECT_TRUE(pool) << pool.error().message;
    return std::move(*pool);
  }

  InlinePool threads_;
  std::unique_ptr<ops::Backend> backend_ = std::move(*ops::create_reference_backend(threads_));
};

inline int32_t held(const SequenceCache& cache, const PagePool& pool) {
  int32_t pages = 0;
  for (size_t g = 0; g < pool.groups().size(); ++g) {
    for (const PageId page : cache.table(static_cast<int32_t>(g))) pages += page != kNoPage;
  }
  return pages;
}

}  // namespace banter::kv
