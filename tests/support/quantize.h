// Quantisers for tests: simple, deterministic on every platform, one for each weight type we read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/tensor_type.h"

namespace banter::test {

/** Encodes finite `values` (a whole number of blocks) as `type`. The layouts are the format's; how scales are chosen is
 *  our own: plain minimum and maximum per group, so errors are larger than those of tools that search. */
std::vector<std::byte> quantize(formats::TensorType type, std::span<const float> values);

/** What `quantize` made, as floats again: the weights that a model of that file really has. */
std::vector<float> dequantize_all(formats::TensorType type, std::span<const std::byte> blocks);

/** `count` bell-shaped values with standard deviation `deviation`; the same for the same seed everywhere. */
std::vector<float> random_values(size_t count, uint64_t seed, float deviation = 1.0f);

/** `count` random bytes; as blocks of a type they hold every scale, infinities and NaN included. */
std::vector<std::byte> random_bytes(size_t count, uint64_t seed);

}  // namespace banter::test
