// Element-wise functions at the end of matrix products.
#pragma once

#include "backend_cuda/device.h"
#include "ops/backend.h"

namespace banter::cuda {

/** SiLU g / (1 + e^-g), or GELU in its tanh form (Hendrycks & Gimpel 2016) as g / (1 + e^-2u) with
 *  u = √(2/π) · (g + 0.044715 g³). Relative error about (|z| + 4) · 2^-23, z being the exponent. */
__device__ __forceinline__ float activate(ops::Activation activation, float g) {
  float z = -g;
  if (activation == ops::Activation::kGeluTanh) z = -1.5957691216f * fmaf(g * g * 0.044715f, g, g);
  return g / (1.0f + expf(z));
}

/** cap · tanh(x / cap). */
__device__ __forceinline__ float soft_cap(float x, float cap) {
  return cap * tanhf(x / cap);
}

}  // namespace banter::cuda
