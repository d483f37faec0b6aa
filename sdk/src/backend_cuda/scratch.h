// Memory between kernels of a step: activations in the forms that products read, attention's partial results.
#pragma once

#include <cstdint>

#include "backend_cuda/best_logits.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/memory.h"

namespace banter::cuda {

/** Bits: forms of QuantisedRows that a weight's products read. F32 weights read the rows as they are. */
enum Form : uint32_t { kNoForm = 0, kInt8 = 1, kHalf = 2, kBfloat = 4 };
uint32_t form_of(const DeviceWeight& weight, const DeviceLimits& device);

/** How much of each a program needs. */
struct ScratchNeeds {
  uint32_t forms = kNoForm;
  int64_t rows = 1, cols = 1;  // of activations in those forms
  size_t partials = 0;         // floats
  size_t products = 0;         // floats
  size_t best_rows = 0;
};

/** Two copies of rows in other forms: the one being read, and the one being written. */
class Scratch {
 public:
  /** Grows only. Errors: OUT_OF_MEMORY, BACKEND. */
  Result<void> reserve(const ScratchNeeds& needs);

  /** Forgets what the copies hold. */
  void begin();
  /** The copy of x [rows][cols] that has all of `forms`; q null (and so on) where there is none. */
  bool find(const float* x, int32_t rows, uint32_t forms, QuantisedRows& out) const;
  /** A place for `forms` of x, which forgets the copy made before the last one. */
  QuantisedRows make(const float* x, int32_t rows, int32_t cols, uint32_t forms);
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
    uint32_t forms = kNoForm;
    QuantisedRows where;
  };
  size_t bytes_of_copy() const;

  DeviceMemory memory_, partials_, product_, best_;
  uint32_t forms_ = kNoForm;
  int64_t rows_ = 0, cols_ = 0;  // capacities; cols a multiple of 32
  Copy copies_[2];
  int next_ = 0;
  int32_t generation_ = 0;
};

}  // namespace banter::cuda
