// The wrappers that sdk/src/backend_cuda/device.h defines with PTX for nvcc: the same names and signatures, for the
// emulator. Included by device.h only.
#pragma once

#include "base/half.h"
#include "cuda_emulator_device/builtins.h"

namespace banter::cuda {

#define BANTER_PLACE cuda_emulator::Place place = {__builtin_FILE(), __builtin_LINE()}

/** The block's dynamic shared memory as a T. A launch that gave fewer bytes is a fault. */
template <class T>
__forceinline__ T& shared_memory() {
  return *reinterpret_cast<T*>(cuda_emulator::shared_memory_of_block(sizeof(T)));
}

// ---------------------------------------------------------------- conversions
// float_to_half, half_to_float and bfloat_to_float are also banter's (base/half.h), which calls from banter::cuda would
// find by themselves; these say so, and give the card's answers for NaN.

__forceinline__ uint16_t float_to_half(float x) {
  const uint16_t h = banter::float_to_half(x);
  return x != x ? static_cast<uint16_t>(0x7FFF) : h;
}
__forceinline__ float half_to_float(uint16_t h) {
  return banter::half_to_float(h);
}
__forceinline__ uint32_t pack_halves(float low, float high) {
  return static_cast<uint32_t>(float_to_half(low)) | static_cast<uint32_t>(float_to_half(high)) << 16;
}
__forceinline__ float bfloat_to_float(uint16_t b) {
  return __uint_as_float(static_cast<uint32_t>(b) << 16);
}
__forceinline__ uint16_t float_to_bfloat(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
__forceinline__ uint32_t pack_bfloats(float low, float high) {
  return static_cast<uint32_t>(float_to_bfloat(low)) | static_cast<uint32_t>(float_to_bfloat(high)) << 16;
}

// ---------------------------------------------------------------- integer dot products and bytes

__forceinline__ int32_t dp4a_u8s8(uint32_t a, uint32_t b, int32_t c) {
  auto sum = static_cast<uint32_t>(c);
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<uint32_t>(static_cast<int32_t>(a >> 8 * i & 0xFF) * static_cast<int8_t>(b >> 8 * i));
  }
  return static_cast<int32_t>(sum);
}
__forceinline__ int32_t dp4a_s8s8(uint32_t a, uint32_t b, int32_t c) {
  return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), c);
}
__forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}

// ---------------------------------------------------------------- matrix products

__forceinline__ void mma_of_floats(cuda_emulator::Matrix kind, float (&d)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[2], cuda_emulator::Place place) {
  const cuda_emulator::Words4 r = cuda_emulator::warp_matrix_product(
      kind, {__float_as_uint(d[0]), __float_as_uint(d[1]), __float_as_uint(d[2]), __float_as_uint(d[3])},
      {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, place);
  d[0] = __uint_as_float(r.x);
  d[1] = __uint_as_float(r.y);
  d[2] = __uint_as_float(r.z);
  d[3] = __uint_as_float(r.w);
}
__forceinline__ void mma_of_bytes(cuda_emulator::Matrix kind, int32_t (&d)[4], cuda_emulator::Words4 a,
                                  cuda_emulator::Words2 b, cuda_emulator::Place place) {
  const cuda_emulator::Words4 r =
      cuda_emulator::warp_matrix_product(kind,
                                         {static_cast<uint32_t>(d[0]), static_cast<uint32_t>(d[1]),
                                          static_cast<uint32_t>(d[2]), static_cast<uint32_t>(d[3])},
                                         a, b, place);
  d[0] = static_cast<int32_t>(r.x);
  d[1] = static_cast<int32_t>(r.y);
  d[2] = static_cast<int32_t>(r.z);
  d[3] = static_cast<int32_t>(r.w);
}

__forceinline__ void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BANTER_PLACE) {
  mma_of_floats(cuda_emulator::Matrix::kHalf, d, a, b, place);
}
__forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BANTER_PLACE) {
  mma_of_floats(cuda_emulator::Matrix::kBfloat, d, a, b, place);
}
__forceinline__ void mma_m16n8k32_u8s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BANTER_PLACE) {
  mma_of_bytes(cuda_emulator::Matrix::kBytes32, d, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, place);
}
__forceinline__ void mma_m16n8k16_u8s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b, BANTER_PLACE) {
  mma_of_bytes(cuda_emulator::Matrix::kBytes16, d, {a[0], a[1], 0, 0}, {b, 0}, place);
}

__forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row, BANTER_PLACE) {
  const cuda_emulator::Words4 w = cuda_emulator::warp_load_matrices(shared_row, false, place);
  r[0] = w.x, r[1] = w.y, r[2] = w.z, r[3] = w.w;
}
__forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared_row, BANTER_PLACE) {
  const cuda_emulator::Words4 w = cuda_emulator::warp_load_matrices(shared_row, true, place);
  r[0] = w.x, r[1] = w.y, r[2] = w.z, r[3] = w.w;
}

// ---------------------------------------------------------------- memory

__forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true) {
  cuda_emulator::async_copy(shared, global, valid);
}
__forceinline__ void cp_async_commit() {
  cuda_emulator::async_commit();
}
template <int kGroups>
__forceinline__ void cp_async_wait() {
  cuda_emulator::async_wait(kGroups);
}
__forceinline__ uint4 load_stream(const uint4* p) {
  return *p;
}
__forceinline__ uint32_t load_stream(const uint32_t* p) {
  return *p;
}

// ---------------------------------------------------------------- arithmetic

__forceinline__ float exp2_approx(float x) {
  return std::exp2(x);
}

#undef BANTER_PLACE

}  // namespace banter::cuda
