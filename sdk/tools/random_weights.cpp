#include "random_weights.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace banter::tools {

using formats::TensorType;
using formats::TypeTraits;

std::vector<std::byte> random_matrix(const TypeTraits& type, int64_t rows, int64_t cols) {
  struct HalfAt {
    TensorType type;
    int first, second;
  };
  static constexpr HalfAt kHalves[] = {
      {TensorType::kQ8_0, 0, 0},     {TensorType::kQ4_0, 0, 0},   {TensorType::kQ4_1, 0, 2},
      {TensorType::kQ5_0, 0, 0},     {TensorType::kQ5_1, 0, 2},   {TensorType::kQ2_K, 80, 82},
      {TensorType::kQ3_K, 108, 108}, {TensorType::kQ4_K, 0, 2},   {TensorType::kQ5_K, 0, 2},
      {TensorType::kQ6_K, 208, 208}, {TensorType::kIQ4_NL, 0, 0}, {TensorType::kIQ4_XS, 0, 0},
      {TensorType::kF16, 0, 0}};
  const size_t blocks = static_cast<size_t>(rows) * static_cast<size_t>(cols / type.block_elements);
  std::vector<std::byte> data(blocks * type.block_bytes);
  uint64_t state = 0x9E3779B97F4A7C15u;  // xorshift64* (Vigna 2016)
  for (size_t i = 0; i < data.size(); i += sizeof state) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    const uint64_t bits = state * 0x2545F4914F6CDD1Du;
    std::memcpy(data.data() + i, &bits, std::min(sizeof bits, data.size() - i));
  }
  const auto* const halves =
      std::find_if(std::begin(kHalves), std::end(kHalves), [&](const HalfAt& h) { return h.type == type.type; });
  const bool has_halves = halves != std::end(kHalves);
  for (size_t i = 0; i < blocks; ++i) {
    std::byte* block = data.data() + i * type.block_bytes;
    const auto set_high = [&](int at, int value) { block[at] = static_cast<std::byte>(value); };
    if (has_halves) {
      set_high(halves->first + 1, 0x20);  // f16 of about 2^-7
      set_high(halves->second + 1, 0x20);
    }
    if (type.type == TensorType::kMXFP4) set_high(0, 120);
    if (type.type == TensorType::kBF16) set_high(1, 0x3C);
    if (type.type == TensorType::kF32) set_high(3, 0x3C);
  }
  return data;
}

}  // namespace banter::tools
