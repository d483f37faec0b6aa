// Random matrices and activations for the tests of matrix products, and the float64 products they are held against.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "formats/tensor_type.h"
#include "ops/backend.h"
#include "support/quantize.h"

namespace banter::test {

/** A weight matrix as a file holds it, and as floats. */
struct Matrix {
  formats::TensorType type;
  int64_t rows, cols;
  std::vector<std::byte> blocks;
  std::vector<float> values;

  Matrix(formats::TensorType t, int64_t r, int64_t c, uint64_t seed) : type(t), rows(r), cols(c) {
    blocks = quantize(type, random_values(static_cast<size_t>(r * c), seed, 0.05f));
    values = dequantize_all(type, blocks);
  }
};

/** y = W x in float64, with the bound of what a kernel may be off.
 *
 *  Quantised types multiply integers exactly and round per block of 32 (16) columns: the activations' rounding to 8 bits
 *  moves y by at most Σ_k |w_k| · d_k / 2, d being a block's max|x| / 127; each of the (two) multiply-adds of a block, the
 *  product of scales before it and the block's Σq · d round the running sum. Magnitudes: |scale · code| + |minimum| is at
 *  most max|w| + 2 (max w − min w) of the block up to how far its codes spread. Float types: see linear-inl.h. */
struct Expected {
  double value = 0;
  double quantisation = 0;  // bound from 8-bit activations
  double rounding = 0;      // bound from float32 arithmetic
};
Expected expected_product(const Matrix& matrix, int64_t row, const float* x);

}  // namespace banter::test
