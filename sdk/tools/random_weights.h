// Weights without a model, for measuring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/tensor_type.h"

namespace banter::tools {

/** Blocks of random codes whose scales are ordinary numbers, in file layout; always the same ones. `cols` is a multiple of
 *  the type's block. */
std::vector<std::byte> random_matrix(const formats::TypeTraits& type, int64_t rows, int64_t cols);

}  // namespace banter::tools
