// Weight types: geometry, names, and dequantisation against golden vectors of an independent implementation.
#include "formats/tensor_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/quantize.h"

namespace banter::formats {
namespace {

std::vector<std::byte> read_data(const std::string& name) {
  std::ifstream file(std::string(BANTER_TEST_DATA) + "/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(float)) == 0;
}

class EveryType : public testing::TestWithParam<TypeTraits> {};

TEST_P(EveryType, DequantisesBitEqualToGoldenVectors) {
  const TypeTraits& traits = GetParam();
  const auto data = read_data("dequant/" + std::string(traits.name) + ".bin");
  ASSERT_GE(data.size(), 4u) << "tests/data/dequant is incomplete; run its make.py";
  uint32_t blocks = 0;
  std::memcpy(&blocks, data.data(), 4);
  const size_t count = size_t{blocks} * traits.block_elements;
  const size_t block_bytes = size_t{blocks} * traits.block_bytes;
  ASSERT_EQ(data.size(), 4 + block_bytes + 4 * count);
  std::vector<float> expected(count);
  std::memcpy(expected.data(), data.data() + 4 + block_bytes, 4 * count);
  // One float too many: nothing may be written behind the end. And blocks of any alignment must do.
  std::vector<float> values(count + 1, 42.0f);
  std::vector<std::byte> shifted(block_bytes + 1);
  std::memcpy(shifted.data() + 1, data.data() + 4, block_bytes);
  dequantize(traits.type, shifted.data() + 1, values.data(), count);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same_bits(values[i], expected[i])) << "element " << i << ": " << values[i] << " for " << expected[i];
  }
  EXPECT_EQ(values[count], 42.0f);
}

TEST_P(EveryType, BlocksAreIndependentAndNothingIsWrittenForNone) {
  const TypeTraits& traits = GetParam();
  const auto blocks = test::random_bytes(5 * traits.block_bytes, 3);
  std::vector<float> all(5 * traits.block_elements);
  std::vector<float> one(traits.block_elements);
  dequantize(traits.type, blocks.data(), all.data(), all.size());
  for (size_t block = 0; block < 5; ++block) {
    dequantize(traits.type, blocks.data() + block * traits.block_bytes, one.data(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(all[block * one.size() + i], one[i]));
  }
  dequantize(traits.type, blocks.data(), nullptr, 0);
}

TEST_P(EveryType, TestQuantiserStaysWithinTheStepOfTheType) {
  const TypeTraits& traits = GetParam();
  const auto values = test::random_values(16 * 256, 5, 0.1f);
  const auto decoded = test::dequantize_all(traits.type, test::quantize(traits.type, values));
  ASSERT_EQ(decoded.size(), values.size());
  double error = 0;
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(values[i] - decoded[i], 2);
    total += std::pow(values[i], 2);
  }
  // Uniform rounding over about +-2.4 deviations (the extremes of 16 or 32 normal values) in 2^bits steps has a
  // relative error of 4.8 / 2^bits / sqrt(12); doubled for stored scales that are rounded themselves and for unequal
  // grids.
  const double bits = 8.0 * traits.block_bytes / traits.block_elements;
  const double bound = traits.block_elements == 1 ? 0.005 : 2 * 4.8 / std::exp2(std::floor(bits)) / std::sqrt(12.0);
  EXPECT_LT(std::sqrt(error / total), bound);
}

TEST_P(EveryType, QuantiserKeepsZeroBlocksZero) {
  const TypeTraits& traits = GetParam();
  for (const float value : test::dequantize_all(traits.type, test::quantize(traits.type, std::vector<float>(512)))) {
    ASSERT_EQ(value, 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(TensorType, EveryType, testing::ValuesIn(all_types().begin(), all_types().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorType, TraitsAgreeWithLayoutsAndNames) {
  EXPECT_EQ(all_types().size(), 16u);
  for (const TypeTraits& traits : all_types()) {
    const auto id = static_cast<uint32_t>(traits.type);
    EXPECT_EQ(type_traits(id)->type, traits.type);
    EXPECT_EQ(&type_traits(traits.type), type_traits(id));
    EXPECT_EQ(type_name(id), traits.name);
    ASSERT_NE(type_layout(id), nullptr);
    EXPECT_EQ(type_layout(id)->elements, traits.block_elements);
    EXPECT_EQ(type_layout(id)->bytes, traits.block_bytes);
  }
}

TEST(TensorType, ForeignTypesHaveNamesAndLayoutsButNoTraits) {
  EXPECT_EQ(type_name(17), "IQ2_XS");
  EXPECT_EQ(type_traits(17u), nullptr);
  ASSERT_NE(type_layout(17), nullptr);
  EXPECT_EQ(type_layout(17)->bytes, 74u);
  EXPECT_EQ(type_name(4), "type 4");  // removed from GGUF
  EXPECT_EQ(type_layout(4), nullptr);
  EXPECT_EQ(type_name(77), "type 77");
  EXPECT_EQ(type_name(255), "type 255");
  for (const uint32_t id : {256u, 1u << 31, 0xFFFFFFFFu}) {
    EXPECT_EQ(type_name(id), "unknown type");
    EXPECT_EQ(type_traits(id), nullptr);
    EXPECT_EQ(type_layout(id), nullptr);
  }
}

}  // namespace
}  // namespace banter::formats
