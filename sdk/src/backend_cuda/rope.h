// The rotary embedding's table on the device.
#pragma once

#include "backend_cuda/memory.h"
#include "ops/backend.h"

namespace banter::cuda {

/** cos and sin of every position and pair, magnitude included: [max_positions][pairs][2] float, from float64. */
class CudaRope final : public ops::Rope {
 public:
  DeviceMemory table;
  int32_t pairs = 0;
  bool adjacent_pairs = false;
};

}  // namespace banter::cuda
