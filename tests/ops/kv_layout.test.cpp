// What a backend says about the layout of its pages is what it writes: of every format and instruction set.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "ops/kv_layout.h"
#include "ops/reference.h"

namespace banter::ops {
namespace {

constexpr KvType kTypes[] = {KvType::kF16, KvType::kF32, KvType::kBF16, KvType::kI8, KvType::kI4};
constexpr int32_t kHeadDim = 48, kKvHeads = 1, kLayers = 2, kPageTokens = 32;

KvGeometry geometry_of(KvType type) {
  return {.type = type, .layers = kLayers, .kv_heads = kKvHeads, .head_dim = kHeadDim, .page_tokens = kPageTokens};
}

class KvLayoutTest : public ::testing::Test {
 protected:
  KvLayoutTest() {
    backends_.push_back(std::move(*create_reference_backend(*threads_)));
    for (const cpu::Isa isa : cpu::available_isas())
      backends_.push_back(std::move(*cpu::create_backend(*threads_, isa)));
  }

  /** A page that was full of `filler` before its first `tokens` tokens were stored. */
  std::vector<std::byte> stored(Backend& backend, KvType type, int32_t tokens, std::byte filler) {
    const KvGeometry geometry = geometry_of(type);
    const size_t stride = (geometry.page_bytes() + 63) / 64 * 64;
    Result<void*> slab = backend.allocate(stride);
    EXPECT_TRUE(slab);
    std::memset(*slab, static_cast<int>(filler), stride);
    KvPages pages;
    pages.slab = static_cast<std::byte*>(*slab);
    pages.page_stride = stride;
    pages.geometry = geometry;
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    const size_t count = static_cast<size_t>(tokens) * kKvHeads * kHeadDim;
    std::vector<float> q(count), k(count), v(count);
    std::vector<int32_t> ids(static_cast<size_t>(tokens)), positions(ids.size());
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
    const int32_t table[] = {0};
    StepSequence sequence{0, tokens, 0, {}};
    sequence.page_tables[0] = table;
    backend.begin_step({ids, positions, std::span(&sequence, 1)});
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      for (auto* values : {&q, &k, &v})
        for (float& x : *values) x = normal(random);
      backend.rope_kv({.q = q.data(), .k = k.data(), .v = v.data(), .heads = kKvHeads, .kv = &pages, .layer = layer});
    }
    EXPECT_TRUE(backend.end_step());
    std::vector<std::byte> out(geometry.page_bytes());
    EXPECT_TRUE(backend.copy_to_host(out.data(), *slab, out.size()));
    backend.deallocate(*slab);
    return out;
  }

  std::unique_ptr<ThreadPool> threads_ = std::move(*ThreadPool::create({.threads = 1}));
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_F(KvLayoutTest, ClearingZeroesExactlyWhatWasNotWritten) {
  for (const auto& backend : backends_) {
    for (const KvType type : kTypes) {
      SCOPED_TRACE(backend->name() + " " + kv_type_name(type));
      const KvGeometry geometry = geometry_of(type);
      const auto layout = backend->kv_layout(geometry);
      ASSERT_TRUE(layout);
      for (const int32_t tokens : {1, 16, 19, kPageTokens}) {
        const std::vector<std::byte> once = stored(*backend, type, tokens, std::byte{0x5A});
        const std::vector<std::byte> again = stored(*backend, type, tokens, std::byte{0xA5});
        std::vector<std::byte> cleared = once;
        clear_unwritten(geometry, *layout, tokens, cleared);
        size_t unwritten = 0;
        for (size_t i = 0; i < once.size(); ++i) {
          if (once[i] != again[i]) ++unwritten;
          ASSERT_EQ(cleared[i], once[i] == again[i] ? once[i] : std::byte{0}) << tokens << " tokens, byte " << i;
        }
        EXPECT_EQ(unwritten, geometry.bytes_per_token() * static_cast<size_t>(kPageTokens - tokens));
      }
    }
  }
}

TEST_F(KvLayoutTest, EveryNumberIsLookedAt) {
  for (const auto& backend : backends_) {
    for (const KvType type : kTypes) {
      SCOPED_TRACE(backend->name() + " " + kv_type_name(type));
      const KvGeometry geometry = geometry_of(type);
      const auto layout = backend->kv_layout(geometry);
      ASSERT_TRUE(layout);
      const std::vector<std::byte> page = stored(*backend, type, kPageTokens, std::byte{0});
      EXPECT_TRUE(holds_numbers(geometry, *layout, page));
      const size_t step = type == KvType::kF32 ? 4 : 2;
      // Infinity of the format; of half floats for scales.
      const uint32_t infinity = type == KvType::kF32 ? 0x7F800000u : type == KvType::kBF16 ? 0x7F80u : 0x7C00u;
      size_t noticed = 0;
      for (size_t at = 0; at < page.size(); at += step) {
        std::vector<std::byte> bad = page;
        std::memcpy(&bad[at], &infinity, step);
        noticed += !holds_numbers(geometry, *layout, bad);
      }
      const size_t vectors = size_t{2} * kLayers * kKvHeads * kPageTokens;
      const size_t floats = kv_is_quantised(type) ? static_cast<size_t>(kv_scales(type, kHeadDim)) : kHeadDim;
      EXPECT_EQ(noticed, vectors * floats);
      if (type != KvType::kI8) continue;
      noticed = 0;
      for (size_t at = 0; at < page.size(); ++at) {
        std::vector<std::byte> bad = page;
        bad[at] = std::byte{0x80};
        noticed += !holds_numbers(geometry, *layout, bad);
      }
      EXPECT_EQ(noticed, vectors * kHeadDim);
    }
  }
}

}  // namespace
}  // namespace banter::ops
