#include "model/key_shift.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/tensor_type.h"

namespace banter::model {

std::vector<float> key_shift(const ops::RopeSpec* rope, std::span<const float> bias, int32_t head_dim) {
  std::vector<float> shift(bias.begin(), bias.end());
  const size_t pairs = rope == nullptr ? 0 : rope->inverse_frequency.size();
  for (size_t k = 0; k < pairs; ++k) {
    // The mean of exp(i w t), a geometric series: exp(i w (T - 1) / 2) sin(w T / 2) / (T sin(w / 2)).
    const double w = rope->inverse_frequency[k], half = std::sin(w / 2);
    const double length = std::abs(half) < 1e-9 ? 1 : std::sin(w / 2 * kShiftPositions) / (kShiftPositions * half);
    const double cosine = rope->magnitude * length * std::cos(w / 2 * (kShiftPositions - 1));
    const double sine = rope->magnitude * length * std::sin(w / 2 * (kShiftPositions - 1));
    const size_t first = rope->adjacent_pairs ? 2 * k : k, second = rope->adjacent_pairs ? 2 * k + 1 : k + pairs;
    for (size_t head = 0; head < bias.size(); head += static_cast<size_t>(head_dim)) {
      const double x = bias[head + first], y = bias[head + second];
      shift[head + first] = static_cast<float>(x * cosine - y * sine);
      shift[head + second] = static_cast<float>(x * sine + y * cosine);
    }
  }
  for (float& value : shift) value = std::isfinite(value) ? value : 0.0f;
  return shift;
}

bool can_shift_keys(const Hyperparameters& hp, const ops::Backend& backend) {
  return backend.shifts_keys() && hp.attention_softcap == 0.0f && !hp.qk_norm;
}

namespace {

/** A tensor of the file as float32, row by row; empty where the file has none of this name and row length. */
class Rows {
 public:
  static Result<Rows> open(const formats::Gguf& file, const std::string& name, int64_t width) {
    Rows rows;
    const formats::GgufTensor* const tensor = file.find_tensor(name);
    if (tensor == nullptr || tensor->dims[0] != static_cast<uint64_t>(width)) return rows;
    if (formats::type_traits(tensor->type) == nullptr) return rows;
    auto bytes = file.read(*tensor, rows.scratch_);
    if (!bytes) return bytes.error();
    rows.bytes_ = *bytes;
    rows.type_ = static_cast<formats::TensorType>(tensor->type);
    rows.count_ = tensor->dims[1];
    rows.row_.resize(static_cast<size_t>(width));
    return rows;
  }
  uint64_t count() const { return count_; }
  std::span<const float> row(uint64_t index) {
    const size_t size = bytes_.size() / static_cast<size_t>(count_);
    formats::dequantize(type_, bytes_.data() + static_cast<size_t>(index) * size, row_.data(), row_.size());
    return row_;
  }

 private:
  std::vector<std::byte> scratch_;
  std::span<const std::byte> bytes_;
  formats::TensorType type_ = formats::TensorType::kF32;
  uint64_t count_ = 0;
  std::vector<float> row_;
};

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return sum;
}

}  // namespace

Result<double> key_bias_left(const formats::Gguf& file, const Hyperparameters& hp, bool is_shifted) {
  double most = 0;
  for (size_t i = 0; i < hp.layer_kinds.size(); ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    auto biases = Rows::open(file, block + "attn_k.bias", hp.kv_dim());
    if (!biases) return biases.error();
    if (biases->count() == 0) continue;
    auto weights = Rows::open(file, block + "attn_k.weight", hp.embedding);
    if (!weights) return weights.error();
    auto norms = Rows::open(file, block + "attn_norm.weight", hp.embedding);
    if (!norms) return norms.error();
    if (weights->count() != static_cast<uint64_t>(hp.kv_dim()) || norms->count() == 0) continue;
    const std::span<const float> bias = biases->row(0), norm = norms->row(0);
    const int32_t rope = hp.layer_kinds[i].rope;
    const ops::RopeSpec* const spec = rope < 0 ? nullptr : &hp.ropes[static_cast<size_t>(rope)];
    const std::vector<float> shift = key_shift(spec, bias, hp.head_dim);
    const auto head_dim = static_cast<size_t>(hp.head_dim);
    for (size_t head = 0; head < bias.size(); head += head_dim) {
      // The shift is the mean of what turns, so the squares of what is left are those of the bias less its own.
      const double magnitude = spec == nullptr ? 1 : spec->magnitude;
      double left = magnitude * magnitude * squares(bias.subspan(head, head_dim));
      if (is_shifted) left -= squares(std::span(shift).subspan(head, head_dim));
      double from_tokens = 0;
      for (size_t d = head; d < head + head_dim; ++d) {
        const std::span<const float> weight = weights->row(d);
        for (size_t j = 0; j < weight.size(); ++j) {
          const double part = double{weight[j]} * norm[j];
          from_tokens += part * part;
        }
      }
      if (from_tokens > 0) most = std::max(most, std::sqrt(std::max(left, 0.0) / from_tokens));
    }
  }
  return most;
}

}  // namespace banter::model
