// Where the forms of activations stand in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend_cuda/kernels.h"

namespace banter::cuda {

/** A choice of the forms that QuantisedRows has. */
struct QuantisedForms {
  bool int8 = false, half = false, bfloat = false;

  bool any() const { return int8 || half || bfloat; }
  /** All that `wanted` names are chosen. */
  bool covers(QuantisedForms wanted) const {
    return (int8 || !wanted.int8) && (half || !wanted.half) && (bfloat || !wanted.bfloat);
  }
  friend QuantisedForms operator|(QuantisedForms a, QuantisedForms b) {
    return {a.int8 || b.int8, a.half || b.half, a.bfloat || b.bfloat};
  }
};

/** The forms that products with weights of `form` read on this card; none where they read the floats. */
QuantisedForms forms_read_by(ops::FormId form, const DeviceLimits& device);

/** Bytes that hold these forms of `rows` rows; and the forms laid out in such memory (16-byte aligned). */
size_t quantised_bytes(QuantisedForms which, int32_t rows, int64_t cols);
QuantisedRows quantised_in(std::byte* memory, QuantisedForms which, int32_t rows, int64_t cols);

}  // namespace banter::cuda
