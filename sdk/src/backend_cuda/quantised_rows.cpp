#include "backend_cuda/quantised_rows.h"

namespace banter::cuda {
namespace {

constexpr size_t kAlignment = 256;

/** Offsets of the parts, each aligned; `end` is the size of all. */
struct Layout {
  size_t q = 0, scales = 0, half = 0, half_scale = 0, bfloat = 0, end = 0;
  size_t stride = 0, capacity = 0;

  Layout(QuantisedForms which, int32_t rows, int64_t cols) {
    stride = (static_cast<size_t>(cols) + ops::kBlock - 1) / ops::kBlock * ops::kBlock;
    capacity = (static_cast<size_t>(rows) + 1) / 2 * 2;
    const size_t values = static_cast<size_t>(rows) * stride;
    if (which.int8) {
      q = take(values);
      scales = take(stride / ops::kBlock * capacity * sizeof(ActivationScale));
    }
    if (which.half) {
      half = take(values * sizeof(uint16_t));
      half_scale = take(static_cast<size_t>(rows) * sizeof(float));
    }
    if (which.bfloat) bfloat = take(values * sizeof(uint16_t));
  }

 private:
  size_t take(size_t bytes) {
    const size_t at = end;
    end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
};

}  // namespace

size_t quantised_bytes(QuantisedForms which, int32_t rows, int64_t cols) {
  return Layout(which, rows, cols).end;
}

QuantisedRows quantised_in(std::byte* memory, QuantisedForms which, int32_t rows, int64_t cols) {
  const Layout layout(which, rows, cols);
  QuantisedRows result;
  result.stride = static_cast<int32_t>(layout.stride);
  result.capacity = static_cast<int32_t>(layout.capacity);
  if (which.int8) {
    result.q = reinterpret_cast<int8_t*>(memory + layout.q);
    result.scales = reinterpret_cast<ActivationScale*>(memory + layout.scales);
  }
  if (which.half) {
    result.half = reinterpret_cast<uint16_t*>(memory + layout.half);
    result.half_scale = reinterpret_cast<float*>(memory + layout.half_scale);
  }
  if (which.bfloat) result.bfloat = reinterpret_cast<uint16_t*>(memory + layout.bfloat);
  return result;
}

QuantisedForms forms_read_by(ops::FormId form, const DeviceLimits& device) {
  // Compute capability 8.0 brought bfloat16 to the matrix instructions; before, such products read the floats.
  return {.int8 = ops::is_quantised(form),
          .half = form == ops::FormId::kF16,
          .bfloat = form == ops::FormId::kBF16 && device.compute_capability >= 80};
}

}  // namespace banter::cuda
