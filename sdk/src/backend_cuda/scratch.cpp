#include "backend_cuda/scratch.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace banter::cuda {

Result<void> Scratch::reserve(const ScratchNeeds& needs) {
  const auto grow = [&](DeviceMemory& memory, size_t bytes, const char* what) -> Result<void> {
    if (bytes <= memory.bytes()) return {};
    ++generation_;
    return memory.allocate(std::bit_ceil(bytes), what);
  };
  const size_t copy = quantised_bytes(needs.forms, needs.rows, needs.cols);
  Result<void> made = grow(memory_, 2 * copy, "activations");
  copy_bytes_ = memory_.bytes() / 2;
  if (made) made = grow(partials_, needs.partials * sizeof(float), "attention's partial results");
  if (made) made = grow(product_, needs.products * sizeof(float), "activations");
  if (made) made = grow(best_, needs.best_rows * sizeof(BestRow), "the best logits");
  return made;
}

void Scratch::begin() {
  copies_[0].x = copies_[1].x = nullptr;
}

bool Scratch::find(const float* x, int32_t rows, QuantisedForms forms, QuantisedRows& out) {
  for (int i = 0; i < 2; ++i) {
    const Copy& copy = copies_[i];
    if (copy.x != x || copy.rows != rows || !copy.forms.covers(forms)) continue;
    out = copy.where;
    next_ = i ^ 1;  // what is made while this one is read goes to the other place
    return true;
  }
  return false;
}

QuantisedRows Scratch::make(const float* x, int32_t rows, int64_t cols, QuantisedForms forms) {
  std::byte* const start = memory_.as() + static_cast<size_t>(next_) * copy_bytes_;
  copies_[next_] = {x, rows, forms, quantised_in(start, forms, rows, cols)};
  return copies_[std::exchange(next_, next_ ^ 1)].where;
}

void Scratch::written(const float* x) {
  for (Copy& copy : copies_) {
    if (copy.x == x) copy.x = nullptr;
  }
}

}  // namespace banter::cuda
