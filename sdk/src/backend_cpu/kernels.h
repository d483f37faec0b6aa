// The table of kernels that one instruction set supplies, and the data that they share. No std headers' inline code may
// be used inside the *-inl.h bodies: the linker keeps one copy of an inline function, and it could be the AVX-512 one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/packed_weight.h"
#include "ops/backend.h"

namespace banter::cpu {

/** 32 activations of a row in 8 bits: x ≈ d · q, |x − d·q| ≤ d/2, d = max|x| / 127. A block whose maximum is below 1e-30
 *  is all zero; one that holds an infinity or a NaN has d = NaN. */
struct alignas(64) ActivationBlock {
  int8_t q[32];
  float d;
  float d_sum;     // d · Σq, for minimums
  int32_t n8;      // −8 · Σq, the start value of an integer sum over codes with zero 8
  int32_t n16;     // −16 · Σq
  int32_t n128;    // −128 · Σq
  int32_t n32[2];  // −32 · Σq over the first and the second 16
  int32_t unused;
};
static_assert(sizeof(ActivationBlock) == 64);

/** One panel of a weight times some rows of activations. */
struct PanelCall {
  const uint8_t* panel;
  int64_t cols;
  const void* x;  // quantised forms: ActivationBlock [tokens][cols / 32]; float forms: float [tokens][cols]
  int64_t tokens;
  float* y;  // [tokens] rows, `y_stride` floats apart; `rows` values are written in each
  size_t y_stride;
  int rows;       // of the panel that exist, 1..32
  bool prefetch;  // the panel comes from memory, and the next one lies behind it
};

/** What an instruction set supplies. All functions are pure and thread-safe; a row's results do not depend on the other
 *  rows of the call, and are bit-equal on every instruction set. */
struct Kernels {
  Isa isa;
  void (*panel[kFormCount])(const PanelCall& call);
  void (*quantize)(const float* x, int64_t cols, ActivationBlock* out);  // cols % 32 == 0
  void (*gate)(ops::Activation activation, const float* gate, const float* up, float* out, size_t count);  // act(g) · u
  void (*softcap)(float* values, size_t count, float cap);  // cap · tanh(v / cap)
  // For measure_roofline(): multiply-adds done, twice; and a pass over memory.
  double (*int8_rounds)(int64_t rounds);
  double (*fp32_rounds)(int64_t rounds);
  uint32_t (*read_bytes)(const uint8_t* at, size_t bytes);
};

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512_vnni_kernels();
/** `isa` must be one of available_isas(). */
const Kernels& kernels_of(Isa isa);

}  // namespace banter::cpu
