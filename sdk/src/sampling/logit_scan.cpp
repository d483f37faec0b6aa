#include "sampling/logit_scan.h"

#include <algorithm>
#include <functional>

namespace banter::sampling {
namespace {

// A block is reduced by halves: element i meets element i + width, for widths 64, 32, 16, then one by one. The order is
// the same for every width of vector registers, and the loops are ones that compilers vectorise (g++ unrolls shorter
// ones first and then does not).
static_assert(kBlock == 128);

/** Largest of kBlock values, NaN left out. `a > b ? a : b` is one maxps on x86, and is b where either is NaN. */
float max_of_block(const float* __restrict__ values) {
  float m[64];
  for (size_t i = 0; i < 64; ++i) {
    const float second = values[i + 64] > kNoLogit ? values[i + 64] : kNoLogit;
    m[i] = values[i] > second ? values[i] : second;
  }
  for (size_t i = 0; i < 32; ++i) m[i] = m[i] > m[i + 32] ? m[i] : m[i + 32];
  for (size_t i = 0; i < 16; ++i) m[i] = m[i] > m[i + 16] ? m[i] : m[i + 16];
  float max = kNoLogit;
  for (size_t i = 0; i < 16; ++i) max = m[i] > max ? m[i] : max;
  return max;
}

/** out[i] = e^((values[i] - max) / temperature) for kBlock values. @returns the sum of `out` */
double exp_block(const float* __restrict__ values, float max, float temperature, float* __restrict__ out) {
  for (size_t i = 0; i < kBlock; ++i) out[i] = exp_nonpositive((values[i] - max) / temperature);
  float sums[64];
  for (size_t i = 0; i < 64; ++i) sums[i] = out[i] + out[i + 64];
  for (size_t i = 0; i < 32; ++i) sums[i] += sums[i + 32];
  for (size_t i = 0; i < 16; ++i) sums[i] += sums[i + 16];
  double sum = 0.0;
  for (size_t i = 0; i < 16; ++i) sum += sums[i];
  return sum;
}

}  // namespace

LogitScan::LogitScan(std::span<float> logits, Workspace& workspace) : logits_(logits), workspace_(workspace) {
  find_maxima();
  if (max_ != std::numeric_limits<float>::infinity()) return;
  for (float& x : logits_) x = x == std::numeric_limits<float>::infinity() ? kNoLogit : x;
  find_maxima();
}

const float* LogitScan::block(size_t b, float* padded) const {
  const size_t begin = b * kBlock, count = std::min(kBlock, logits_.size() - begin);
  if (count == kBlock) return logits_.data() + begin;
  std::fill_n(std::copy_n(logits_.data() + begin, count, padded), kBlock - count, kNoLogit);
  return padded;
}

void LogitScan::find_maxima() {
  float padded[kBlock];
  max_ = kNoLogit;
  for (size_t b = 0; b < blocks(); ++b) {
    const float block_max = max_of_block(block(b, padded));
    workspace_.block_max[b] = block_max;
    max_ = std::max(max_, block_max);
  }
}

TokenId LogitScan::argmax() const {
  size_t b = 0;
  while (workspace_.block_max[b] != max_) ++b;
  size_t i = b * kBlock;
  while (logits_[i] != max_) ++i;
  return static_cast<TokenId>(i);
}

float LogitScan::lower_bound_of_top(size_t k) {
  if (k > blocks()) return kNoLogit;
  // The k best block maxima are k logits.
  std::vector<float>& order = workspace_.block_order;
  order.assign(workspace_.block_max.begin(), workspace_.block_max.begin() + static_cast<ptrdiff_t>(blocks()));
  const auto kth = order.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(order.begin(), kth, order.end(), std::greater<float>());
  return *kth;
}

void LogitScan::collect(float threshold) {
  std::vector<Candidate>& out = workspace_.candidates;
  out.clear();
  threshold = std::max(threshold, std::numeric_limits<float>::lowest());
  for (size_t b = 0; b < blocks(); ++b) {
    if (!(workspace_.block_max[b] >= threshold)) continue;
    const size_t end = std::min((b + 1) * kBlock, logits_.size());
    for (size_t i = b * kBlock; i < end; ++i)
      if (logits_[i] >= threshold) out.push_back({static_cast<TokenId>(i), logits_[i], 0.0f});
  }
}

double LogitScan::sum_exp() const {
  float padded[kBlock], weights[kBlock];
  double sum = 0.0;
  for (size_t b = 0; b < blocks(); ++b) sum += exp_block(block(b, padded), max_, 1.0f, weights);
  return sum;
}

TokenId LogitScan::draw(float temperature, double u) {
  float padded[kBlock], weights[kBlock];
  double total = 0.0;
  for (size_t b = 0; b < blocks(); ++b) {
    workspace_.block_sum[b] = exp_block(block(b, padded), max_, temperature, weights);
    total += workspace_.block_sum[b];
  }
  double left = u * total;
  size_t chosen = 0;  // the last block with any weight, should rounding carry us past the end
  for (size_t b = 0; b < blocks(); ++b) {
    if (workspace_.block_sum[b] == 0.0) continue;
    chosen = b;
    if (left < workspace_.block_sum[b]) break;
    left -= workspace_.block_sum[b];
  }
  exp_block(block(chosen, padded), max_, temperature, weights);
  size_t token = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const double weight = weights[i];
    if (weight == 0.0) continue;
    token = chosen * kBlock + i;
    if (left < weight) break;
    left -= weight;
  }
  return static_cast<TokenId>(token);
}

}  // namespace banter::sampling
