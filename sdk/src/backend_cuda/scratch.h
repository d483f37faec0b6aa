// Memory between kernels of a step: activations in the forms that products read, attention's partial results.
#pragma once

#include <cstdint>

#include "backend_cuda/best_logits.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/memory.h"
#include "backend_cuda/quantised_rows.h"

namespace banter::cuda {

/** How much of each a program needs. */
struct ScratchNeeds {
  QuantisedForms forms;
  int32_t rows = 1;  // of activations in those forms
  int64_t cols = 1;
  size_t partials = 0;  // floats
  size_t products = 0;  // floats
  size_t best_rows = 0;
};

/** Two copies of rows in other forms: the one being read, and the one being written. */
class Scratch {
 public:
  /** Grows only. Errors: OUT_OF_MEMORY, BACKEND. */
  Result<void> reserve(const ScratchNeeds& needs);

  /** As Memory::abandon(). */
  void abandon() {
    for (DeviceMemory* each : {&memory_, &partials_, &product_, &best_}) each->abandon();
  }

  /** Forgets what the copies hold. */
  void begin();
  /** The copy of x [rows][cols] that has all of `forms`; false: there is none. */
  bool find(const float* x, int32_t rows, QuantisedForms forms, QuantisedRows& out);
  /** A place for `forms` of x; the copy that was found or made last stays. */
  QuantisedRows make(const float* x, int32_t rows, int64_t cols, QuantisedForms forms);
  /** x has been written: its copies are no longer true. */
  void written(const float* x);

  float* partials() const { return partials_.as<float>(); }
  float* product() const { return product_.as<float>(); }
  BestRow* best_rows() const { return best_.as<BestRow>(); }
  int32_t generation() const { return generation_; }

 private:
  struct Copy {
    const float* x = nullptr;
    int32_t rows = 0;
    QuantisedForms forms;
    QuantisedRows where;
  };

  DeviceMemory memory_, partials_, product_, best_;
  size_t copy_bytes_ = 0;  // of each of the two copies
  Copy copies_[2];
  int next_ = 0;
  int32_t generation_ = 0;
};

}  // namespace banter::cuda
