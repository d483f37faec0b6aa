// Sequences whose keys and values stand in pages of the device, for tests of rope_kv and attention: pages are scattered
// over two slabs of 0xFF bytes, which are not-a-number in every format that has one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "backend_cuda/kernels.h"
#include "base/half.h"
#include "cuda/card.h"
#include "cuda/device_array.h"
#include "cuda/step_on_device.h"
#include "ops/kv_format.h"

namespace banter::test {

struct KvShape {
  ops::KvType type = ops::KvType::kF16;
  int32_t heads = 4, kv_heads = 2, head_dim = 64, page_tokens = 32;
  std::vector<int32_t> lengths = {100};  // of the sequences
  bool has_recent = false;
  float query_size = 1.0f;
};

/** x turned by the Hadamard matrix of quantised pages, from its definition. */
inline std::vector<double> turned(const std::vector<double>& x) {
  const auto block = static_cast<size_t>(ops::kv_rotation_block(static_cast<int32_t>(x.size())));
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < block; ++j) {
      const bool is_negative = __builtin_popcountll((i % block) & j) % 2 != 0;
      out[i] += (is_negative ? -1.0 : 1.0) * x[i / block * block + j] / std::sqrt(static_cast<double>(block));
    }
  }
  return out;
}

/** Consecutive rows of a sequence. */
struct Chunk {
  int32_t sequence, first, rows;
};

class KvOnDevice {
 public:
  static constexpr int32_t kLayers = 2, kLayer = 1;

  explicit KvOnDevice(KvShape shape) : shape_(std::move(shape)) {
    geometry_[0] = {shape_.type, kLayers, shape_.kv_heads, shape_.head_dim, shape_.page_tokens};
    geometry_[1] = {ops::KvType::kF16, kLayers, shape_.kv_heads, shape_.head_dim, 16};
    stride_ = (std::max(geometry_[0].page_bytes(), shape_.has_recent ? geometry_[1].page_bytes() : 0) + 63) / 64 * 64;
    int32_t pages = 0;
    tables_.resize(shape_.lengths.size());
    for (size_t s = 0; s < tables_.size(); ++s)
      for (size_t group = 0; group < (shape_.has_recent ? 2u : 1u); ++group) {
        const int32_t count = (shape_.lengths[s] + geometry_[group].page_tokens - 1) / geometry_[group].page_tokens;
        for (int32_t i = 0; i < count; ++i) tables_[s][group].push_back(pages++);
      }
    while ((2 << shift_) < pages + 2) ++shift_;
    // Neighbouring pages of a sequence lie apart.
    const int32_t all = 2 << shift_;
    for (auto& tables : tables_)
      for (auto& table : tables)
        for (int32_t& page : table) page = (page * 37 + 11) % all;
    for (auto& slab : slabs_) slab = DeviceArray<std::byte>(stride_ << shift_, 0xFF);
    slab_addresses_ = DeviceArray<std::byte*>(std::vector<std::byte*>{slabs_[0].data(), slabs_[1].data()});
    fill_inputs();
  }

  /** Runs rope_kv over rows of one step; q becomes what the kernel left. */
  void write(const std::vector<Chunk>& chunks, cuda::RopeKvArgs extra = {}) {
    const StepData data = step_data(chunks);
    const StepOnDevice step(data.step);
    DeviceArray<float> dq(gather(q, chunks, q_dim())), dk(gather(k, chunks, kv_dim())), dv(gather(v, chunks, kv_dim()));
    extra.q = dq.data();
    extra.k = dk.data();
    extra.v = dv.data();
    extra.heads = shape_.heads;
    extra.layer = kLayer;
    extra.kv = pages(0);
    if (shape_.has_recent) extra.recent = pages(1);
    // A grid that was rounded up: rows that do not exist are left alone.
    ASSERT_EQ(cudaSuccess, cuda::rope_kv(step.view(), data.step.rows() + 3, extra, nullptr));
    scatter(dq.read(), chunks, q_dim(), q);
  }
  void write_all() {
    std::vector<Chunk> chunks;
    for (size_t s = 0; s < shape_.lengths.size(); ++s)
      chunks.push_back({static_cast<int32_t>(s), 0, shape_.lengths[s]});
    write(chunks);
  }

  struct How {
    int32_t window = 0;
    float softcap = 0.0f;
    bool is_spread = true;
    bool is_large_tile = false;               // say that tiles may have kTileTokens rows
    bool is_for_turing = false;               // what runs there runs everywhere
    int32_t more_tiles = 0, more_splits = 0;  // a grid that was rounded up
  };
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  /** Attention of the chunks' rows, as one step: [rows][heads][head_dim]. */
  std::vector<float> attend(const std::vector<Chunk>& chunks, const How& how) {
    const StepData data = step_data(chunks);
    const StepOnDevice step(data.step);
    const DeviceArray<float> dq(gather(q, chunks, q_dim())), out(dq.size(), 0xFF);
    cuda::AttentionArgs args = {};
    args.q = dq.data();
    args.out = out.data();
    args.heads = shape_.heads;
    args.layer = kLayer;
    args.window = how.window;
    args.scale = scale();
    args.softcap = how.softcap;
    args.kv = pages(0);
    if (shape_.has_recent) args.recent = pages(1);
    args.splits = 1;
    args.tile_rows = how.is_large_tile ? cuda::kTileTokens : 1;
    for (const Chunk& chunk : chunks) {
      args.tile_rows = std::max(args.tile_rows, std::min(chunk.rows, cuda::kTileTokens));
      for (int32_t row = chunk.first; row < chunk.first + chunk.rows; ++row) {
        const int32_t oldest = how.window > 0 ? std::max(0, row - how.window + 1) : 0;
        args.splits = std::max(args.splits, row / cuda::kSplitKeys - oldest / cuda::kSplitKeys + 1);
      }
    }
    args.splits += how.more_splits;
    const int32_t tiles = step.tiles() + how.more_tiles;
    const size_t floats = cuda::attention_partial_floats(tiles, shape_.heads, shape_.kv_heads, shape_.head_dim,
                                                         args.splits, args.tile_rows);
    was_spread = how.is_spread && floats > 0;
    const DeviceArray<float> partials(was_spread ? floats : 0, 0xFF);
    args.partials = partials.data();
    cuda::DeviceLimits limits = card_limits();
    if (how.is_for_turing) limits.compute_capability = 75;
    EXPECT_EQ(cudaSuccess, cuda::attention(step.view(), tiles, args, limits, nullptr));
    return out.read();
  }
  bool was_spread = false;

  /** What the pages hold now, for cached(). */
  void read_pages() {
    for (size_t i = 0; i < 2; ++i) host_slabs_[i] = slabs_[i].read();
  }
  /** The vector (value 0 = K, 1 = V) of position t, exactly. */
  std::vector<double> cached(bool from_recent, int32_t sequence, int value, int32_t head, int32_t t) const {
    const size_t group = from_recent ? 1 : 0;
    const ops::KvGeometry& g = geometry_[group];
    const int32_t page = tables_[static_cast<size_t>(sequence)][group][static_cast<size_t>(t / g.page_tokens)];
    const std::byte* region = host_slabs_[static_cast<size_t>(page >> shift_)].data() +
                              static_cast<size_t>(page & ((1 << shift_) - 1)) * stride_ + g.offset(kLayer, value, head);
    const size_t bytes = static_cast<size_t>(g.head_dim) * ops::kv_bytes_of_16(g.type) / 16;
    const auto slot = static_cast<size_t>(t % g.page_tokens), tokens = static_cast<size_t>(g.page_tokens);
    const auto scales = static_cast<size_t>(ops::kv_scales(g.type, g.head_dim));
    return decode(g.type, g.head_dim, region + slot * bytes, region + tokens * bytes + slot * scales * 2);
  }
  /** A vector from its values and its scales. */
  static std::vector<double> decode(ops::KvType type, int32_t dim, const std::byte* values, const std::byte* scales) {
    std::vector<double> out(static_cast<size_t>(dim));
    const auto u16 = [](const std::byte* p, size_t index) {
      uint16_t bits;
      std::memcpy(&bits, p + 2 * index, 2);
      return bits;
    };
    for (size_t d = 0; d < out.size(); ++d) {
      if (type == ops::KvType::kF16) out[d] = half_to_float(u16(values, d));
      if (type == ops::KvType::kBF16) out[d] = bfloat_to_float(u16(values, d));
      if (type == ops::KvType::kI8)
        out[d] = double{half_to_float(u16(scales, d / 32))} * static_cast<int8_t>(values[d]);
      if (type == ops::KvType::kI4) {
        const int nibble = static_cast<int>(values[d / 16 * 8 + d % 8]) >> (d % 16 >= 8 ? 4 : 0) & 15;
        out[d] = double{half_to_float(u16(scales, d / 16))} * (nibble >= 8 ? nibble - 16 : nibble);
      }
    }
    return out;
  }

  struct Expected {
    std::vector<double> value, bound;
  };
  /** Attention of one head of the sequence's row t in float64 over what the pages hold, and how far a kernel may be from
   *  it. Call read_pages() before. With u = 2^-11, half a unit in the last place of a half:
   *  a score is off by e = scale · Σ|q k| · (u for q, u for keys that are expanded to halves, 2^-22 head_dim for sums in
   *  float32 with truncation), a weight relatively by expm1(e) + u for its own rounding + 2^-20, and absolutely by 2^-25
   *  of the largest where it is below the normal halves. An output Σ w v / Σ w moves by Σ w |v - out| times the relative
   *  error; expanded values add u · Σ w |v|, sums 2^-23 for each key. Turning a vector keeps its length, so no
   *  component of a turned error exceeds the length of the bounds over a block. */
  Expected expected(int32_t sequence, int32_t t, int32_t head, int32_t window, double softcap) const {
    const int32_t kv_head = head / (shape_.heads / shape_.kv_heads), dim = shape_.head_dim;
    const int32_t first = window > 0 ? std::max(0, t - window + 1) : 0, count = t - first + 1;
    const float* query = q[static_cast<size_t>(sequence)].data() +
                         static_cast<size_t>(t * shape_.heads + head) * static_cast<size_t>(dim);
    constexpr double u = 0x1p-11;
    std::vector<double> weight, error;
    std::vector<std::vector<double>> values;
    double highest = -INFINITY, total = 0;
    for (int32_t key = first; key <= t; ++key) {
      const bool from_recent = shape_.has_recent && ops::kv_is_recent(key, t);
      const bool is_expanded = !from_recent && ops::kv_is_quantised(shape_.type);
      const std::vector<double> x = cached(from_recent, sequence, 0, kv_head, key);
      double score = 0, size = 0;
      for (size_t d = 0; d < x.size(); ++d) {
        score += query[d] * x[d];
        size += std::abs(query[d] * x[d]);
      }
      score *= scale();
      error.push_back(size * scale() * (u + (is_expanded ? u : 0) + 0x1p-22 * dim) + 0x1p-20);
      weight.push_back(softcap > 0 ? softcap * std::tanh(score / softcap) : score);
      highest = std::max(highest, weight.back());
      values.push_back(cached(from_recent, sequence, 1, kv_head, key));
    }
    for (double& w : weight) total += w = std::exp(w - highest);
    Expected result{std::vector<double>(static_cast<size_t>(dim)), std::vector<double>(static_cast<size_t>(dim))};
    for (size_t d = 0; d < result.value.size(); ++d) {
      double& out = result.value[d];
      for (size_t i = 0; i < weight.size(); ++i) out += weight[i] / total * values[i][d];
      double bound = 0x1p-20 * std::abs(out) + 1e-7;
      for (size_t i = 0; i < weight.size(); ++i) {
        const double w = weight[i] / total, x = std::abs(values[i][d]);
        const bool is_exact = shape_.type == ops::KvType::kF16 || shape_.type == ops::KvType::kBF16;
        bound += std::abs(values[i][d] - out) * (w * (std::expm1(error[i]) + u + 0x1p-20) + 0x1p-25 / total);
        bound += w * x * ((is_exact ? 0 : u) + 0x1p-23 * count);
      }
      result.bound[d] = 1.05 * bound;
    }
    if (ops::kv_is_quantised(shape_.type)) turn_back(result);
    return result;
  }

  /** Pages that hold positions before `position` only are given back: the table says so, and their bytes are NaN. */
  void release_before(int32_t sequence, int32_t position) {
    for (int32_t& page : tables_[static_cast<size_t>(sequence)][0]) {
      const auto index = static_cast<int32_t>(&page - tables_[static_cast<size_t>(sequence)][0].data());
      if ((index + 1) * shape_.page_tokens <= position) page = -1;
    }
  }
  void release_recent_before(int32_t sequence, int32_t position) {
    for (int32_t page = 0; (page + 1) * 16 <= position; ++page)
      tables_[static_cast<size_t>(sequence)][1][static_cast<size_t>(page)] = -1;
  }

  size_t q_dim() const { return static_cast<size_t>(shape_.heads * shape_.head_dim); }
  size_t kv_dim() const { return static_cast<size_t>(shape_.kv_heads * shape_.head_dim); }
  const KvShape& shape() const { return shape_; }

  std::vector<std::vector<float>> q, k, v;  // [sequence][position · heads · head_dim]; q turns into rope_kv's

 private:
  struct StepData {
    std::vector<int32_t> tokens, positions;
    std::vector<ops::StepSequence> sequences;
    ops::Step step;
  };
  StepData step_data(const std::vector<Chunk>& chunks) const {
    StepData data;
    for (const Chunk& chunk : chunks) {
      ops::StepSequence sequence;
      sequence.first_row = static_cast<int32_t>(data.tokens.size());
      sequence.rows = chunk.rows;
      sequence.position = chunk.first;
      for (size_t group = 0; group < 2; ++group)
        sequence.page_tables[group] = tables_[static_cast<size_t>(chunk.sequence)][group];
      data.sequences.push_back(sequence);
      for (int32_t i = 0; i < chunk.rows; ++i) {
        data.tokens.push_back(0);
        data.positions.push_back(chunk.first + i);
      }
    }
    data.step = {data.tokens, data.positions, data.sequences};
    return data;
  }
  cuda::DevicePages pages(int32_t group) const {
    cuda::DevicePages result;
    result.slabs = slab_addresses_.data();
    result.page_stride = stride_;
    result.slab_shift = shift_;
    result.group = group;
    result.geometry = geometry_[static_cast<size_t>(group)];
    return result;
  }
  static std::vector<float> gather(const std::vector<std::vector<float>>& from, const std::vector<Chunk>& chunks,
                                   size_t width) {
    std::vector<float> result;
    for (const Chunk& chunk : chunks) {
      const auto start =
          from[static_cast<size_t>(chunk.sequence)].begin() + static_cast<ptrdiff_t>(width) * chunk.first;
      result.insert(result.end(), start, start + static_cast<ptrdiff_t>(width) * chunk.rows);
    }
    return result;
  }
  static void scatter(const std::vector<float>& from, const std::vector<Chunk>& chunks, size_t width,
                      std::vector<std::vector<float>>& to) {
    size_t at = 0;
    for (const Chunk& chunk : chunks) {
      const size_t count = width * static_cast<size_t>(chunk.rows);
      std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), count,
                  to[static_cast<size_t>(chunk.sequence)].begin() + static_cast<ptrdiff_t>(width) * chunk.first);
      at += count;
    }
  }
  void fill_inputs() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (const int32_t length : shape_.lengths) {
      for (auto* values : {&q, &k, &v}) {
        values->emplace_back(static_cast<size_t>(length) * (values == &q ? q_dim() : kv_dim()));
        for (float& x : values->back()) x = normal(random) * (values == &q ? shape_.query_size : 1.0f);
      }
      // One component sticks out, as in real keys.
      for (size_t i = 3; i < k.back().size(); i += static_cast<size_t>(shape_.head_dim)) k.back()[i] += 4.0f;
    }
  }
  void turn_back(Expected& result) const {
    const auto block = static_cast<size_t>(ops::kv_rotation_block(shape_.head_dim));
    for (size_t start = 0; start < result.value.size(); start += block) {
      double bounds = 0, size = 0;
      for (size_t d = start; d < start + block; ++d) {
        bounds += result.bound[d] * result.bound[d];
        size += result.value[d] * result.value[d];
      }
      for (size_t d = start; d < start + block; ++d)
        result.bound[d] = std::sqrt(bounds) + 10 * 0x1p-24 * std::sqrt(size);
    }
    result.value = turned(result.value);
  }

  KvShape shape_;
  std::array<ops::KvGeometry, 2> geometry_;
  size_t stride_ = 0;
  int32_t shift_ = 0;
  std::vector<std::array<std::vector<int32_t>, 2>> tables_;
  std::array<DeviceArray<std::byte>, 2> slabs_;
  DeviceArray<std::byte*> slab_addresses_;
  std::array<std::vector<std::byte>, 2> host_slabs_;
};

}  // namespace banter::test
