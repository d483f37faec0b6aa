// The KV page pool: geometry, references, growing and shrinking. Sequences: sequence_cache.test.cpp.
#include "unit/kv_fixture.h"

#include <cstring>
#include <random>

namespace banter::kv {
namespace {

/** A device whose memory is all taken. It can keep KV in float16 only and is never asked to compute. */
class FullBackend final : public ops::Backend {
 public:
  const std::string& name() const override { return name_; }
  Result<void*> allocate(size_t) override { return Error{BANTER_ERROR_OUT_OF_MEMORY, "full"}; }
  void deallocate(void*) override { ADD_FAILURE() << "nothing was allocated"; }
  bool is_host_memory() const override { return true; }
  Result<void> copy_to_host(void*, const void*, size_t) override { return {}; }
  Result<void> copy_from_host(void*, const void*, size_t) override { return {}; }
  Result<void> copy(void*, const void*, size_t) override { return {}; }
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType, int64_t, int64_t, std::span<const std::byte>,
                                              ops::WeightUse) override {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "full"};
  }
  Result<std::unique_ptr<ops::Rope>> create_rope(ops::RopeSpec) override {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "full"};
  }
  void begin_step(const ops::Step&) override {}
  void embed(const ops::EmbedParams&) override {}
  void norm(const ops::NormParams&) override {}
  void linear(const ops::LinearParams&) override {}
  void gated(const ops::GatedParams&) override {}
  void rope_kv(const ops::RopeKvParams&) override {}
  void attention(const ops::AttentionParams&) override {}
  void logits(const ops::LogitsParams&) override {}
  Result<void> end_step() override { return {}; }

 private:
  std::string name_ = "full";
};

TEST_F(KvTest, GeometryHasEqualStridesAndLittlePadding) {
  const std::vector<std::vector<GroupSpec>> cases = {
      {kFull},
      {kFull, kSliding},                                                                  // 1 : 5, as Gemma 3
      {{ops::KvType::kF16, 13, 4, 256, 0, 0}, {ops::KvType::kF16, 13, 4, 256, 4096, 0}},  // 1 : 1, as Gemma 2
      {{ops::KvType::kF16, 5, 4, 256, 0, 0}, {ops::KvType::kF16, 29, 4, 256, 1024, 0}},   // 34 layers of Gemma 3
      {{ops::KvType::kF32, 10, 16, 128, 0, 0}, {ops::KvType::kF32, 52, 16, 128, 1024, 0}},
  };
  for (const std::vector<GroupSpec>& groups : cases) {
    const std::vector<ops::KvGeometry> geometry = plan_geometry(groups);
    ASSERT_EQ(geometry.size(), groups.size());
    size_t largest = 0;
    for (const ops::KvGeometry& g : geometry) largest = std::max(largest, g.page_bytes());
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_GE(geometry[i].page_tokens, 16);
      EXPECT_EQ(geometry[i].page_tokens % 16, 0);
      EXPECT_EQ(geometry[i].layers, groups[i].layers);
      EXPECT_GE(static_cast<double>(geometry[i].page_bytes()), 0.93 * static_cast<double>(largest));
    }
  }
}

/** Groups of a model with quantised pages, each followed by its companion. */
std::vector<GroupSpec> quantised(ops::KvType type, std::vector<GroupSpec> groups) {
  for (size_t g = 0, count = groups.size(); g < count; ++g) {
    GroupSpec companion = groups[g];
    companion.type = ops::KvType::kF16;
    companion.window = ops::kKvRecentWindow;
    groups[g].type = type;
    groups[g].companion = static_cast<int32_t>(groups.size());
    groups.push_back(companion);
  }
  return groups;
}

TEST_F(KvTest, QuantisedGroupsAndCompanionsShareAStride) {
  const std::vector<std::vector<GroupSpec>> models = {
      {{ops::KvType::kF16, 24, 2, 64, 0, 64}},                                            // Qwen2.5 0.5B
      {{ops::KvType::kF16, 15, 1, 256, 512, 64}, {ops::KvType::kF16, 3, 1, 256, 0, 64}},  // Gemma 3 270M
      {{ops::KvType::kF16, 13, 4, 256, 4096, 64}, {ops::KvType::kF16, 13, 4, 256, 0, 64}},
      {{ops::KvType::kF16, 32, 32, 96, 0, 64}},
      {{ops::KvType::kF16, 30, 8, 80, 0, 64}},
  };
  for (const std::vector<GroupSpec>& model : models)
    for (const ops::KvType type : {ops::KvType::kI8, ops::KvType::kI4}) {
      const std::vector<GroupSpec> groups = quantised(type, model);
      const std::vector<ops::KvGeometry> geometry = plan_geometry(groups);
      ASSERT_EQ(geometry.size(), groups.size());
      size_t stride = 0;
      for (const ops::KvGeometry& g : geometry) stride = std::max(stride, g.page_bytes());
      for (size_t i = 0; i < groups.size(); ++i) {
        EXPECT_GE(geometry[i].page_tokens, 16);
        EXPECT_EQ(geometry[i].page_tokens % 16, 0);
        EXPECT_LE(geometry[i].page_tokens, 512);
        const double used = static_cast<double>(geometry[i].page_bytes()) / static_cast<double>(stride);
        EXPECT_GE(used, 0.78) << ops::kv_type_name(type) << " group " << i << " of " << model[0].layers << " layers";
        if (i >= model.size() || groups[i].window != 0) continue;
        // What a token of full attention takes of the slab, padding included.
        const double half = static_cast<double>(
            ops::KvGeometry{ops::KvType::kF16, groups[i].layers, groups[i].kv_heads, groups[i].head_dim, 16}
                .bytes_per_token());
        EXPECT_LE(static_cast<double>(stride) / geometry[i].page_tokens,
                  (type == ops::KvType::kI8 ? 0.55 : 0.32) * half)
            << ops::kv_type_name(type) << " group " << i << " of " << model[0].layers << " layers";
      }
      const std::unique_ptr<PagePool> pool = make(groups, 12);
      for (size_t i = 0; i < model.size(); ++i) {
        const auto g = static_cast<int32_t>(i);
        ASSERT_NE(pool->companion_pages(g), nullptr);
        EXPECT_EQ(pool->companion_pages(g)->group, groups[i].companion);
        EXPECT_EQ(pool->companion_pages(groups[i].companion), nullptr);
      }
    }
}

TEST_F(KvTest, ACompanionMustFit) {
  const GroupSpec full = {ops::KvType::kI8, 3, 2, 16, 0, 64, 1};
  const GroupSpec companion = {ops::KvType::kF16, 3, 2, 16, ops::kKvRecentWindow, 64};
  const auto code = [&](const GroupSpec& a, const GroupSpec& b) {
    const Result<std::unique_ptr<PagePool>> pool = PagePool::create(*backend_, {a, b}, 1 << 20);
    return pool ? BANTER_OK : pool.error().code;
  };
  EXPECT_EQ(code(full, companion), BANTER_OK);
  const auto changed = [](GroupSpec group, auto GroupSpec::*field, auto value) {
    group.*field = value;
    return group;
  };
  EXPECT_EQ(code(changed(full, &GroupSpec::companion, 2), companion), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(changed(full, &GroupSpec::companion, -2), companion), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(changed(full, &GroupSpec::companion, 0), companion), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(changed(full, &GroupSpec::type, ops::KvType::kF16), companion), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(full, changed(companion, &GroupSpec::type, ops::KvType::kBF16)), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(full, changed(companion, &GroupSpec::layers, 4)), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(full, changed(companion, &GroupSpec::window, 127)), BANTER_ERROR_INVALID_ARGUMENT);
  const Result<std::unique_ptr<PagePool>> odd =
      PagePool::create(*backend_, {{ops::KvType::kI4, 3, 2, 24, 0, 64}}, 1 << 20);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, BANTER_ERROR_UNSUPPORTED);
  EXPECT_NE(odd.error().message.find("24 dimensions as int4"), std::string::npos) << odd.error().message;
}

TEST_F(KvTest, ViewsShareTheSlabAndItsStride) {
  const std::unique_ptr<PagePool> pool = make({kFull, kSliding}, 10);
  EXPECT_EQ(pool->total_pages(), 10);
  EXPECT_EQ(pool->free_pages(), 10);
  for (PageId page = 0; page < 10; ++page) {
    EXPECT_EQ(pool->pages(0).page(page), pool->pages(1).page(page));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool->pages(0).page(page)) % 64, 0u);
  }
  EXPECT_EQ(pool->pages(0).page_stride, pool->page_stride());
  EXPECT_EQ(pool->pages(1).page_stride, pool->page_stride());
  EXPECT_EQ(pool->page_stride() % 64, 0u);
  for (int32_t g = 0; g < 2; ++g) {
    EXPECT_LE(pool->pages(g).geometry.page_bytes(), pool->page_stride());
    EXPECT_EQ(pool->pages(g).group, g);
  }
}

TEST_F(KvTest, CreationRefusesWhatCannotWork) {
  const auto code = [&](std::vector<GroupSpec> groups, size_t budget) {
    const Result<std::unique_ptr<PagePool>> pool = PagePool::create(*backend_, std::move(groups), budget);
    return pool ? BANTER_OK : pool.error().code;
  };
  EXPECT_EQ(code({}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(std::vector<GroupSpec>(9, kFull), 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{ops::KvType::kF16, 0, 2, 16, 0, 0}}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{ops::KvType::kF16, 1, -2, 16, 0, 0}}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{ops::KvType::kF16, 1, 2, 0, 0, 0}}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{ops::KvType::kF16, 1 << 16, 1 << 16, 1 << 16, 0, 0}}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{ops::KvType::kF16, 1, 2, 16, -1, 0}}, 1 << 20), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({kFull}, 0), BANTER_ERROR_BUDGET_EXCEEDED);
  EXPECT_EQ(code({kFull}, 100), BANTER_ERROR_BUDGET_EXCEEDED);
  const size_t page = plan_geometry(std::vector<GroupSpec>{kFull, kSliding})[1].page_bytes();
  EXPECT_EQ(code({kFull, kSliding}, page * 3 / 2), BANTER_ERROR_BUDGET_EXCEEDED);  // two groups need two pages
}

TEST_F(KvTest, WithoutMemoryThereIsNoPool) {
  FullBackend backend;
  const Result<std::unique_ptr<PagePool>> pool = PagePool::create(backend, {kFull}, size_t{1} << 30);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, BANTER_ERROR_OUT_OF_MEMORY);
  const Result<std::unique_ptr<PagePool>> exact =
      PagePool::create(backend, {{ops::KvType::kF32, 1, 1, 16, 0, 0}}, size_t{1} << 30);
  ASSERT_FALSE(exact);
  EXPECT_EQ(exact.error().code, BANTER_ERROR_UNSUPPORTED);
}

TEST_F(KvTest, ReferencesKeepAPageUntilTheLastHolderLetsGo) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 2);
  const PageId page = pool->allocate();
  ASSERT_NE(page, kNoPage);
  pool->retain(page);
  EXPECT_EQ(pool->references(page), 2);
  pool->release(page);
  EXPECT_EQ(pool->free_pages(), 1);
  const PageId other = pool->allocate();
  EXPECT_NE(other, page);
  EXPECT_EQ(pool->allocate(), kNoPage);
  pool->release(page);
  EXPECT_EQ(pool->free_pages(), 1);
  EXPECT_EQ(pool->allocate(), page);
  pool->release(kNoPage);
  pool->release(page);
  pool->release(other);
  EXPECT_EQ(pool->free_pages(), 2);
}

#ifndef NDEBUG
using KvDeathTest = KvTest;
TEST_F(KvDeathTest, DoubleReleaseIsCaughtInDebugBuilds) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 2);
  const PageId page = pool->allocate();
  pool->release(page);
  EXPECT_DEATH(pool->release(page), "release of a free page");
  EXPECT_DEATH(pool->retain(page), "retain of a free page");
  EXPECT_DEATH(pool->release(7), "release of a free page");
}
#else
TEST_F(KvTest, DoubleReleaseDoesNotHandAPageOutTwice) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 2);
  const PageId page = pool->allocate();
  pool->release(page);
  pool->release(page);
  EXPECT_EQ(pool->free_pages(), 2);
}
#endif

/** Writes a page's number into it. */
void stamp(PagePool& pool, PageId page, uint32_t value) {
  std::memcpy(pool.pages(0).page(page), &value, sizeof value);
}
uint32_t stamped(PagePool& pool, PageId page) {
  uint32_t value = 0;
  std::memcpy(&value, pool.pages(0).page(page), sizeof value);
  return value;
}

TEST_F(KvTest, APoolGrowsAndShrinksAroundItsContents) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 200);
  const int32_t start = pool->total_pages();
  EXPECT_LE(start, 200);
  EXPECT_GE(start, 190);
  std::mt19937 random(11);
  std::vector<PageId> held;
  uint32_t next = 1;
  std::vector<uint32_t> values;
  std::vector<PageId> moved;
  for (int round = 0; round < 400; ++round) {
    if (random() % 3 != 0) {
      const PageId page = pool->allocate();
      if (page != kNoPage) {
        stamp(*pool, page, next);
        held.push_back(page);
        values.push_back(next++);
      }
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      pool->release(held[at]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (round % 10 != 0) continue;
    const int32_t wanted = pool->pages_in((1 + random() % 400) * pool->page_stride());
    const int32_t before = pool->total_pages();
    const Result<void> resized = pool->resize(wanted, moved);
    EXPECT_EQ(moved.size(), static_cast<size_t>(before));
    if (wanted < static_cast<int32_t>(held.size())) {
      EXPECT_FALSE(resized);
      EXPECT_EQ(pool->total_pages(), before);
      continue;
    }
    ASSERT_TRUE(resized) << resized.error().message;
    EXPECT_EQ(pool->total_pages(), wanted);
    EXPECT_EQ(pool->free_pages(), wanted - static_cast<int32_t>(held.size()));
    for (size_t i = 0; i < held.size(); ++i) {
      if (const PageId to = moved[static_cast<size_t>(held[i])]; to != kNoPage) held[i] = to;
      ASSERT_LT(held[i], wanted);
      EXPECT_EQ(pool->references(held[i]), 1);
      EXPECT_EQ(stamped(*pool, held[i]), values[i]);
    }
  }
  for (const PageId page : held) pool->release(page);
  EXPECT_EQ(pool->free_pages(), pool->total_pages());
}

}  // namespace
}  // namespace banter::kv
