#include "backend_cuda/scratch.h"

#include <algorithm>
#include <bit>

namespace banter::cuda {
namespace {

constexpr int64_t kBlock = ops::kBlock;

int64_t rounded(int64_t cols) {
  return (cols + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

uint32_t form_of(const DeviceWeight& weight, const DeviceLimits& device) {
  switch (weight.form) {
    case ops::FormId::kF32:
      return kNoForm;
    case ops::FormId::kF16:
      return kHalf;
    case ops::FormId::kBF16:
      return device.compute_capability >= 80 ? kBfloat : kNoForm;
    default:
      return kInt8;
  }
}

// Each part begins at a multiple of 64 bytes: rows_ is a multiple of 16.
size_t Scratch::bytes_of_copy() const {
  const auto elements = static_cast<size_t>(rows_ * cols_);
  size_t bytes = 0;
  if ((forms_ & kInt8) != 0) bytes += elements + 2 * (elements / kBlock * 4);
  if ((forms_ & kHalf) != 0) bytes += 2 * elements + 4 * static_cast<size_t>(rows_);
  if ((forms_ & kBfloat) != 0) bytes += 2 * elements;
  return bytes;
}

Result<void> Scratch::reserve(const ScratchNeeds& needs) {
  if ((needs.forms & ~forms_) != 0 || needs.rows > rows_ || rounded(needs.cols) > cols_) {
    forms_ |= needs.forms;
    const auto rows = static_cast<uint64_t>(std::max<int64_t>(needs.rows, 16));
    rows_ = std::max(rows_, static_cast<int64_t>(std::bit_ceil(rows)));
    cols_ = std::max(cols_, rounded(needs.cols));
    ++generation_;
    if (bytes_of_copy() > 0) {
      if (Result<void> made = memory_.allocate(2 * bytes_of_copy(), "activations"); !made) {
        rows_ = 0;
        return made;
      }
    }
  }
  const auto grow = [&](DeviceMemory& memory, size_t bytes, const char* what) -> Result<void> {
    if (bytes <= memory.bytes()) return {};
    ++generation_;
    return memory.allocate(std::bit_ceil(bytes), what);
  };
  Result<void> made = grow(partials_, needs.partials * sizeof(float), "attention's partial results");
  if (made) made = grow(product_, needs.products * sizeof(float), "activations");
  if (made) made = grow(best_, needs.best_rows * sizeof(BestRow), "the best logits");
  return made;
}

void Scratch::begin() {
  copies_[0].x = copies_[1].x = nullptr;
}

bool Scratch::find(const float* x, int32_t rows, uint32_t forms, QuantisedRows& out) const {
  for (const Copy& copy : copies_) {
    if (copy.x != x || copy.rows != rows || (forms & ~copy.forms) != 0) continue;
    out = copy.where;
    return true;
  }
  return false;
}

QuantisedRows Scratch::make(const float* x, int32_t rows, int32_t cols, uint32_t forms) {
  std::byte* at = memory_.as() + static_cast<size_t>(next_) * bytes_of_copy();
  const auto elements = static_cast<size_t>(rows_ * cols_);
  const auto take = [&](size_t bytes) {
    std::byte* const start = at;
    at += bytes;
    return start;
  };
  QuantisedRows where;
  where.stride = static_cast<int32_t>(rounded(cols));
  if ((forms & kInt8) != 0) {
    where.q = reinterpret_cast<int8_t*>(take(elements));
    where.d = reinterpret_cast<float*>(take(elements / kBlock * 4));
    where.n = reinterpret_cast<int32_t*>(take(elements / kBlock * 4));
  }
  if ((forms & kHalf) != 0) {
    where.half = reinterpret_cast<uint16_t*>(take(2 * elements));
    where.half_scale = reinterpret_cast<float*>(take(4 * static_cast<size_t>(rows_)));
  }
  if ((forms & kBfloat) != 0) where.bfloat = reinterpret_cast<uint16_t*>(take(2 * elements));
  copies_[next_] = {x, rows, forms, where};
  next_ ^= 1;
  return where;
}

void Scratch::written(const float* x) {
  for (Copy& copy : copies_) {
    if (copy.x == x) copy.x = nullptr;
  }
}

}  // namespace banter::cuda
