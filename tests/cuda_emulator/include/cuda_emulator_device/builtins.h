// CUDA's built-in variables and functions for device code.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine.h"
#include "types.h"

namespace banter::cuda_emulator {

template <class T>
__forceinline__ uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
__forceinline__ T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace banter::cuda_emulator

// Of the thread that runs on this OS thread.
extern thread_local constinit uint3 threadIdx;
extern thread_local constinit uint3 blockIdx;
extern thread_local constinit dim3 blockDim;
extern thread_local constinit dim3 gridDim;
inline constexpr int warpSize = 32;

#define BANTER_PLACE ::banter::cuda_emulator::Place place = {__builtin_FILE(), __builtin_LINE()}
#define BANTER_EMULATOR ::banter::cuda_emulator

// ---------------------------------------------------------------- barriers and votes
// `place` is the caller's line, never given by hand.

__forceinline__ void __syncthreads(BANTER_PLACE) {
  BANTER_EMULATOR::block_barrier(BANTER_EMULATOR::BarrierReduction::kNone, 0, place);
}
__forceinline__ int __syncthreads_and(int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::block_barrier(BANTER_EMULATOR::BarrierReduction::kAnd, predicate, place);
}
__forceinline__ int __syncthreads_or(int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::block_barrier(BANTER_EMULATOR::BarrierReduction::kOr, predicate, place);
}
__forceinline__ int __syncthreads_count(int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::block_barrier(BANTER_EMULATOR::BarrierReduction::kCount, predicate, place);
}
__forceinline__ void __syncwarp(unsigned mask = 0xFFFFFFFFu, BANTER_PLACE) {
  BANTER_EMULATOR::warp_reduce(BANTER_EMULATOR::WarpReduction::kSync, mask, 0, place);
}
__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::warp_reduce(BANTER_EMULATOR::WarpReduction::kBallot, mask, predicate != 0, place);
}
__forceinline__ int __any_sync(unsigned mask, int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::warp_reduce(BANTER_EMULATOR::WarpReduction::kAny, mask, predicate != 0, place) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate, BANTER_PLACE) {
  return BANTER_EMULATOR::warp_reduce(BANTER_EMULATOR::WarpReduction::kAll, mask, predicate != 0, place) != 0;
}

// ---------------------------------------------------------------- reductions (__reduce_*: compute capability 8.0)

#define BANTER_REDUCE(name, type, kind)                                                               \
  __forceinline__ type name(unsigned mask, type value, BANTER_PLACE) {                                \
    return static_cast<type>(BANTER_EMULATOR::warp_reduce(BANTER_EMULATOR::WarpReduction::kind, mask, \
                                                          static_cast<uint32_t>(value), place));      \
  }
BANTER_REDUCE(__reduce_add_sync, int, kAddS)
BANTER_REDUCE(__reduce_add_sync, unsigned, kAddU)
BANTER_REDUCE(__reduce_min_sync, int, kMinS)
BANTER_REDUCE(__reduce_min_sync, unsigned, kMinU)
BANTER_REDUCE(__reduce_max_sync, int, kMaxS)
BANTER_REDUCE(__reduce_max_sync, unsigned, kMaxU)
BANTER_REDUCE(__reduce_and_sync, unsigned, kAnd)
BANTER_REDUCE(__reduce_or_sync, unsigned, kOr)
BANTER_REDUCE(__reduce_xor_sync, unsigned, kXor)
#undef BANTER_REDUCE

// ---------------------------------------------------------------- shuffles

#define BANTER_SHUFFLE(name, operand_type, kind)                                                                  \
  template <class T>                                                                                              \
  __forceinline__ T name(unsigned mask, T value, operand_type operand, int width = 32, BANTER_PLACE) {            \
    return BANTER_EMULATOR::from_word<T>(BANTER_EMULATOR::warp_shuffle(BANTER_EMULATOR::Shuffle::kind, mask,      \
                                                                       BANTER_EMULATOR::to_word(value),           \
                                                                       static_cast<int>(operand), width, place)); \
  }
BANTER_SHUFFLE(__shfl_sync, int, kIndex)
BANTER_SHUFFLE(__shfl_up_sync, unsigned, kUp)
BANTER_SHUFFLE(__shfl_down_sync, unsigned, kDown)
BANTER_SHUFFLE(__shfl_xor_sync, int, kXor)
#undef BANTER_SHUFFLE

// ---------------------------------------------------------------- atomics (int, unsigned, unsigned long long, float)

#define BANTER_ATOMIC(name, kind)                                                                     \
  template <class T, class V>                                                                         \
  __forceinline__ T name(T* address, V value) {                                                       \
    return BANTER_EMULATOR::atomic<T>(BANTER_EMULATOR::Atomic::kind, address, static_cast<T>(value)); \
  }
BANTER_ATOMIC(atomicAdd, kAdd)
BANTER_ATOMIC(atomicSub, kSub)
BANTER_ATOMIC(atomicMin, kMin)
BANTER_ATOMIC(atomicMax, kMax)
BANTER_ATOMIC(atomicAnd, kAnd)
BANTER_ATOMIC(atomicOr, kOr)
BANTER_ATOMIC(atomicXor, kXor)
BANTER_ATOMIC(atomicExch, kExchange)
#undef BANTER_ATOMIC
template <class T, class U, class V>
__forceinline__ T atomicCAS(T* address, U compare, V value) {
  return BANTER_EMULATOR::atomic_swap<T>(address, static_cast<T>(compare), static_cast<T>(value));
}
// Blocks and threads run one at a time: what one wrote, the next sees. A fence orders nothing between threads of a block.
__forceinline__ void __threadfence() {}
__forceinline__ void __threadfence_block() {}
__forceinline__ void __threadfence_system() {}
__forceinline__ void __nanosleep(unsigned) {}
[[noreturn]] __forceinline__ void __trap() {
  BANTER_EMULATOR::trap("__trap()");
}

// ---------------------------------------------------------------- loads

template <class T>
__forceinline__ T __ldg(const T* p) {
  return *p;
}
template <class T>
__forceinline__ T __ldcg(const T* p) {
  return *p;
}
template <class T>
__forceinline__ T __ldcs(const T* p) {
  return *p;
}

// ---------------------------------------------------------------- bits and integers

__forceinline__ unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
__forceinline__ int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
__forceinline__ float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
__forceinline__ float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
__forceinline__ unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> 4 * i & 7)) & 0xFF) << 8 * i;
  }
  return result;
}
__forceinline__ int __popc(unsigned x) {
  return __builtin_popcount(x);
}
__forceinline__ int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
__forceinline__ int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
__forceinline__ int __ffs(int x) {
  return __builtin_ffs(x);
}
__forceinline__ unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
  return r;
}
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32 | low) << (shift & 31)) >> 32);
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
__forceinline__ int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<int64_t>(a) * b) >> 32);
}
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
__forceinline__ int __dp4a(int a, int b, int c) {
  auto sum = static_cast<uint32_t>(c);
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<uint32_t>(static_cast<int8_t>(static_cast<uint32_t>(a) >> 8 * i) *
                                 static_cast<int8_t>(static_cast<uint32_t>(b) >> 8 * i));
  }
  return static_cast<int>(sum);
}
__forceinline__ unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 0xFF) * (b >> 8 * i & 0xFF);
  return c;
}
#define BANTER_BYTEWISE(name, expression)                         \
  __forceinline__ unsigned name(unsigned a, unsigned b) {         \
    unsigned result = 0;                                          \
    for (int i = 0; i < 32; i += 8) {                             \
      const auto x = static_cast<int8_t>(a >> i);                 \
      const auto y = static_cast<int8_t>(b >> i);                 \
      result |= (static_cast<unsigned>(expression) & 0xFFu) << i; \
    }                                                             \
    return result;                                                \
  }
BANTER_BYTEWISE(__vadd4, x + y)
BANTER_BYTEWISE(__vsub4, x - y)
BANTER_BYTEWISE(__vaddss4, x + y < -128 ? -128 : x + y > 127 ? 127 : x + y)
BANTER_BYTEWISE(__vsubss4, x - y < -128 ? -128 : x - y > 127 ? 127 : x - y)
BANTER_BYTEWISE(__vcmpeq4, x == y ? 0xFF : 0)
BANTER_BYTEWISE(__vcmpne4, x != y ? 0xFF : 0)
#undef BANTER_BYTEWISE

// ---------------------------------------------------------------- arithmetic
// Approximate functions are those of the host's library: nearer to the exact value than a card's. Some are macros because
// the C library declares functions of the same names.

__forceinline__ float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
__forceinline__ float __fadd_rn(float a, float b) {
  return a + b;
}
__forceinline__ float __fsub_rn(float a, float b) {
  return a - b;
}
__forceinline__ float __fmul_rn(float a, float b) {
  return a * b;
}
__forceinline__ float __fdiv_rn(float a, float b) {
  return a / b;
}
__forceinline__ float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
__forceinline__ float __frcp_rn(float x) {
  return 1.0f / x;
}
__forceinline__ float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
__forceinline__ float rsqrtf(float x) {
  return __frsqrt_rn(x);
}
__forceinline__ float __fdividef(float a, float b) {
  return a / b;
}
#define __expf(x) (std::exp(static_cast<float>(x)))
#define __exp2f(x) (std::exp2(static_cast<float>(x)))
#define __logf(x) (std::log(static_cast<float>(x)))
#define __log2f(x) (std::log2(static_cast<float>(x)))
#define __powf(x, y) (std::pow(static_cast<float>(x), static_cast<float>(y)))
#define __sinf(x) (std::sin(static_cast<float>(x)))
#define __cosf(x) (std::cos(static_cast<float>(x)))
#define __tanhf(x) (std::tanh(static_cast<float>(x)))
/** NaN becomes 0. */
__forceinline__ float __saturatef(float x) {
  return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

namespace banter::cuda_emulator {
/** Conversions saturate and turn NaN into 0, as a card's do. */
template <class Int>
__forceinline__ Int saturate(double x) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<Int>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<Int>::max());
  if (x != x) return 0;
  return x <= kLow    ? std::numeric_limits<Int>::min()
         : x >= kHigh ? std::numeric_limits<Int>::max()
                      : static_cast<Int>(x);
}
}  // namespace banter::cuda_emulator
__forceinline__ int __float2int_rn(float x) {
  return BANTER_EMULATOR::saturate<int>(std::nearbyint(x));
}
__forceinline__ int __float2int_rz(float x) {
  return BANTER_EMULATOR::saturate<int>(std::trunc(x));
}
__forceinline__ int __float2int_rd(float x) {
  return BANTER_EMULATOR::saturate<int>(std::floor(x));
}
__forceinline__ int __float2int_ru(float x) {
  return BANTER_EMULATOR::saturate<int>(std::ceil(x));
}
__forceinline__ unsigned __float2uint_rn(float x) {
  return BANTER_EMULATOR::saturate<unsigned>(std::nearbyint(x));
}
__forceinline__ unsigned __float2uint_rz(float x) {
  return BANTER_EMULATOR::saturate<unsigned>(std::trunc(x));
}
__forceinline__ float __int2float_rn(int x) {
  return static_cast<float>(x);
}
__forceinline__ float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}

// In device code CUDA offers these without <algorithm>.
#define BANTER_MIN_MAX(T)           \
  __forceinline__ T min(T a, T b) { \
    return b < a ? b : a;           \
  }                                 \
  __forceinline__ T max(T a, T b) { \
    return a < b ? b : a;           \
  }
BANTER_MIN_MAX(int)
BANTER_MIN_MAX(unsigned)
BANTER_MIN_MAX(long)
BANTER_MIN_MAX(unsigned long)
BANTER_MIN_MAX(long long)
BANTER_MIN_MAX(unsigned long long)
#undef BANTER_MIN_MAX
__forceinline__ float min(float a, float b) {
  return std::fmin(a, b);
}
__forceinline__ float max(float a, float b) {
  return std::fmax(a, b);
}

#undef BANTER_PLACE
#undef BANTER_EMULATOR
