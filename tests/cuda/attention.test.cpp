// Attention over device pages against float64 over what the pages hold, and that a row's bits depend on its sequence
// alone: not on chunks, other rows, the spread of splits, or which kernel served it.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/kv_on_device.h"

namespace banter::test {
namespace {

using ops::KvType;

constexpr KvType kTypes[] = {KvType::kF16, KvType::kBF16, KvType::kI8, KvType::kI4};

std::string describe(const KvShape& shape) {
  return std::string(ops::kv_type_name(shape.type)) + " " + std::to_string(shape.heads) + "/" +
         std::to_string(shape.kv_heads) + " heads of " + std::to_string(shape.head_dim) + ", pages of " +
         std::to_string(shape.page_tokens) + (shape.has_recent ? ", recent" : "");
}

/** All outputs of the chunks' first, middle and last rows against the formula. */
void expect_formula(const KvOnDevice& kv, const std::vector<Chunk>& chunks, const KvOnDevice::How& how,
                    const std::vector<float>& out) {
  size_t before = 0;
  for (const Chunk& chunk : chunks) {
    for (int32_t i = 0; i < chunk.rows; i += std::max(1, std::min(chunk.rows - 1 - i, (chunk.rows + 1) / 2)))
      for (int32_t head = 0; head < kv.shape().heads; ++head) {
        const KvOnDevice::Expected expected =
            kv.expected(chunk.sequence, chunk.first + i, head, how.window, how.softcap);
        const size_t at = (before + static_cast<size_t>(i)) * kv.q_dim() +
                          static_cast<size_t>(head) * static_cast<size_t>(kv.shape().head_dim);
        for (size_t d = 0; d < expected.value.size(); ++d)
          ASSERT_NEAR(out[at + d], expected.value[d], expected.bound[d])
              << describe(kv.shape()) << " window " << how.window << " sequence " << chunk.sequence << " row "
              << chunk.first + i << " head " << head << " dimension " << d;
      }
    before += static_cast<size_t>(chunk.rows);
  }
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  size_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) differing += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  EXPECT_EQ(differing, 0u) << what << ": of " << a.size();
}

TEST(CudaAttention, IsTheSoftmaxOfWhatThePagesHold) {
  constexpr int32_t kDims[] = {64, 80, 96, 128, 256}, kGroups[] = {1, 2, 3, 4, 7, 8, 16}, kPages[] = {16, 32, 48, 64};
  int32_t number = 0;
  for (const KvType type : kTypes)
    for (const int32_t dim : kDims) {
      const int32_t group = kGroups[number % 7];
      KvShape shape{.type = type,
                    .heads = group,
                    .kv_heads = 1,
                    .head_dim = dim,
                    .page_tokens = kPages[number % 4],
                    .lengths = {150, 300}};
      if (group < 4) shape.heads *= shape.kv_heads = 2;
      KvOnDevice kv(shape);
      kv.write_all();
      kv.read_pages();
      // A decoding sequence beside a chunk that is cut into tiles of 11 and 5 rows by the block of 64 positions.
      const std::vector<Chunk> chunks = {{1, 299, 1}, {0, 117, 16}};
      const KvOnDevice::How how{.window = number % 3 == 0 ? 70 : 0, .softcap = number % 4 == 1 ? 2.0f : 0.0f};
      expect_formula(kv, chunks, how, kv.attend(chunks, how));
      ++number;
    }
}

TEST(CudaAttention, ServesOddSizes) {
  for (const KvType type : kTypes)
    for (const int32_t dim : {8, 16, 32, 48, 72, 112, 160, 192, 200, 240}) {
      if (ops::kv_is_quantised(type) && dim % 16 != 0) continue;
      KvOnDevice kv({.type = type, .heads = 2, .kv_heads = 1, .head_dim = dim, .page_tokens = 16, .lengths = {70}});
      kv.write_all();
      kv.read_pages();
      const std::vector<Chunk> chunks = {{0, 66, 3}};
      expect_formula(kv, chunks, {}, kv.attend(chunks, {}));
    }
}

TEST(CudaAttention, SharesKeysAmongAnyNumberOfHeads) {
  for (const int32_t group : {1, 2, 3, 4, 7, 8, 16, 20}) {
    KvOnDevice kv({.heads = 2 * group, .kv_heads = 2, .lengths = {90}, .query_size = 3.0f});
    kv.write_all();
    kv.read_pages();
    const std::vector<Chunk> chunks = {{0, 5, 3}, {0, 89, 1}};
    expect_formula(kv, chunks, {}, kv.attend(chunks, {}));
  }
}

TEST(CudaAttention, SeesTheWindowAndNoMore) {
  for (const int32_t window : {1, 2, 5, 16, 63, 64, 65, 256, 257, 300}) {
    KvOnDevice kv({.heads = 2, .kv_heads = 1, .lengths = {540}, .query_size = 3.0f});
    kv.write_all();
    kv.read_pages();
    const std::vector<Chunk> chunks = {{0, 0, 1}, {0, 255, 2}, {0, 319, 2}, {0, 511, 16}, {0, 539, 1}};
    const KvOnDevice::How how{.window = window};
    const std::vector<float> out = kv.attend(chunks, how);
    expect_formula(kv, chunks, how, out);
    // What lies behind the first row's window has been given back.
    kv.release_before(0, 511 - window + 1);
    const std::vector<Chunk> last = {{0, 511, 16}};
    const std::vector<float> again = kv.attend(last, how);
    const auto start = out.begin() + static_cast<ptrdiff_t>(5 * kv.q_dim());
    expect_same_bits(again, {start, start + static_cast<ptrdiff_t>(again.size())}, "released pages");
  }
}

TEST(CudaAttention, CapsScores) {
  for (const KvType type : {KvType::kF16, KvType::kI8}) {
    KvOnDevice kv({.type = type, .lengths = {100}, .query_size = 8.0f});
    kv.write_all();
    kv.read_pages();
    const std::vector<Chunk> chunks = {{0, 20, 2}, {0, 99, 1}};
    for (const float softcap : {0.5f, 5.0f, 50.0f}) {
      const KvOnDevice::How how{.softcap = softcap};
      expect_formula(kv, chunks, how, kv.attend(chunks, how));
    }
  }
}

TEST(CudaAttention, ReadsTheNewestFromTheCompanion) {
  for (const KvType type : {KvType::kI8, KvType::kI4})
    for (const int32_t dim : {64, 128, 256}) {
      KvOnDevice kv({.type = type, .heads = 4, .kv_heads = 2, .head_dim = dim, .lengths = {290}, .has_recent = true});
      kv.write_all();
      kv.read_pages();
      const std::vector<Chunk> chunks = {{0, 3, 1}, {0, 126, 4}, {0, 250, 16}, {0, 289, 1}};
      const std::vector<float> out = kv.attend(chunks, {});
      expect_formula(kv, chunks, {}, out);
      kv.release_recent_before(0, 289 - ops::kKvRecentWindow + 1);
      const std::vector<float> again = kv.attend({{0, 289, 1}}, {});
      expect_same_bits(again, {out.end() - static_cast<ptrdiff_t>(again.size()), out.end()}, "released companions");
    }
}

/** Every kernel that can serve the rows gives the same bits. */
void expect_one_result(KvOnDevice& kv, const std::vector<Chunk>& chunks, int32_t window) {
  const std::vector<float> expected = kv.attend(chunks, {.window = window, .is_spread = false});
  for (const bool is_spread : {false, true})
    for (const bool is_large : {false, true})
      for (const bool is_for_turing : {false, true}) {
        const KvOnDevice::How how{.window = window,
                                  .is_spread = is_spread,
                                  .is_large_tile = is_large,
                                  .is_for_turing = is_for_turing,
                                  .more_tiles = is_large ? 2 : 0,
                                  .more_splits = is_large ? 1 : 0};
        const std::vector<float> out = kv.attend(chunks, how);
        EXPECT_EQ(kv.was_spread, is_spread);
        expect_same_bits(out, expected,
                         describe(kv.shape()) + (is_spread ? " spread" : "") + (is_large ? " large" : "") +
                             (is_for_turing ? " turing" : "") + " window " + std::to_string(window));
      }
}

TEST(CudaAttention, SpreadingSplitsChangesNoBit) {
  for (const KvType type : {KvType::kF16, KvType::kI4})
    for (const int32_t dim : {64, 128, 256}) {
      const bool is_quantised = ops::kv_is_quantised(type);
      KvOnDevice kv(
          {.type = type, .heads = 3, .kv_heads = 1, .head_dim = dim, .lengths = {600}, .has_recent = is_quantised});
      kv.write_all();
      expect_one_result(kv, {{0, 599, 1}, {0, 511, 3}}, 0);
      expect_one_result(kv, {{0, 599, 1}, {0, 300, 2}}, 301);
    }
}

TEST(CudaAttention, CuttingChangesNoBit) {
  for (const KvType type : kTypes) {
    const KvShape shape{.type = type,
                        .heads = 4,
                        .kv_heads = 1,
                        .head_dim = 64,
                        .page_tokens = 48,
                        .lengths = {323},
                        .has_recent = ops::kv_is_quantised(type)};
    KvOnDevice whole(shape);
    whole.write_all();
    constexpr int32_t kFirst = 240, kRows = 83;
    const std::vector<float> expected = whole.attend({{0, kFirst, kRows}}, {.window = 100});
    for (const int32_t chunk : {1, 5, 16, 64}) {
      // Written and attended chunk by chunk: slots that come later hold NaN.
      KvOnDevice cut(shape);
      cut.write({{0, 0, kFirst}});
      std::vector<float> out;
      for (int32_t done = 0; done < kRows; done += chunk) {
        const Chunk part{0, kFirst + done, std::min(chunk, kRows - done)};
        cut.write({part});
        if (chunk == 1 && done % 8 != 0 && done + 1 != kRows) {  // single rows: some of them
          const auto start = expected.begin() + static_cast<ptrdiff_t>(out.size());
          out.insert(out.end(), start, start + static_cast<ptrdiff_t>(cut.q_dim()));
          continue;
        }
        const std::vector<float> rows = cut.attend({part}, {.window = 100, .is_spread = chunk < 16});
        out.insert(out.end(), rows.begin(), rows.end());
      }
      expect_same_bits(out, expected, describe(shape) + " chunk " + std::to_string(chunk));
    }
  }
}

TEST(CudaAttention, OtherSequencesChangeNoBit) {
  for (const KvType type : {KvType::kF16, KvType::kI8}) {
    KvOnDevice kv({.type = type, .heads = 4, .kv_heads = 2, .head_dim = 80, .lengths = {10, 270, 64, 129}});
    kv.write_all();
    const std::vector<Chunk> chunks = {{0, 9, 1}, {1, 250, 20}, {2, 0, 7}, {3, 128, 1}, {1, 30, 2}};
    const std::vector<float> together = kv.attend(chunks, {});
    std::vector<float> alone;
    for (const Chunk& chunk : chunks) {
      const std::vector<float> out = kv.attend({chunk}, {});
      alone.insert(alone.end(), out.begin(), out.end());
    }
    expect_same_bits(alone, together, describe(kv.shape()));
  }
}

TEST(CudaAttention, ExtremeQueriesStayExact) {
  for (const float size : {1e-6f, 1e6f, 1e-41f}) {
    KvOnDevice kv({.lengths = {40}, .query_size = size});
    kv.write_all();
    kv.read_pages();
    const std::vector<Chunk> chunks = {{0, 39, 1}};
    const std::vector<float> out = kv.attend(chunks, {});
    for (const float x : out) ASSERT_TRUE(std::isfinite(x)) << size;
    if (size < 1) expect_formula(kv, chunks, {}, out);
  }
}

TEST(CudaAttention, RefusesWhatItDoesNotServe) {
  const StepOnDevice step(1);
  const auto answer = [&](KvType type, int32_t heads, int32_t kv_heads, int32_t dim, int32_t tokens) {
    cuda::AttentionArgs args = {};
    args.heads = heads;
    args.splits = 1;
    args.kv.geometry = {type, 1, kv_heads, dim, tokens};
    return cuda::attention(step.view(), 0, args, {}, nullptr);
  };
  EXPECT_EQ(answer(KvType::kF16, 4, 2, 64, 16), cudaSuccess);  // no tiles
  EXPECT_EQ(answer(KvType::kF32, 4, 2, 64, 16), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 4, 3, 64, 16), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 4, 2, 76, 16), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kI8, 4, 2, 72, 16), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 4, 2, 272, 16), cudaErrorInvalidValue);
  EXPECT_EQ(answer(KvType::kF16, 4, 2, 64, 24), cudaErrorInvalidValue);
}

TEST(CudaAttention, PartialResultsAreBounded) {
  EXPECT_EQ(cuda::attention_partial_floats(64, 32, 8, 128, 1, 1), 0u);
  EXPECT_EQ(cuda::attention_partial_floats(2, 32, 8, 128, 4, 1), size_t{2 * 32 * 4 * 130});
  EXPECT_EQ(cuda::attention_partial_floats(32, 32, 8, 128, 4), 0u);  // prefill fills the card anyway
  for (const int32_t tiles : {1, 8, 64, 1000})
    for (const int32_t splits : {2, 16, 128, 1000})
      for (const int32_t rows : {1, 16})
        EXPECT_LE(cuda::attention_partial_floats(tiles, 32, 8, 128, splits, rows), size_t{8} << 20);
}

}  // namespace
}  // namespace banter::test
