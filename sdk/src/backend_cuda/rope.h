// The rotary embedding's table on the device.
#pragma once

#include <memory>
#include <utility>

#include "backend_cuda/context.h"
#include "backend_cuda/memory.h"
#include "ops/backend.h"

namespace banter::cuda {

/** cos and sin of every position and pair, magnitude included: [max_positions][pairs][2] float, from float64. */
class CudaRope final : public ops::Rope {
 public:
  explicit CudaRope(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  ~CudaRope() override {
    const Current here(*context_);
    if (here.is_lost()) table.abandon();
    table.reset();
  }

  DeviceMemory table;
  int32_t pairs = 0;
  bool adjacent_pairs = false;

 private:
  const std::shared_ptr<const Context> context_;
};

}  // namespace banter::cuda
