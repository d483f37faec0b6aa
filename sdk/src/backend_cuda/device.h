// What a kernel may use beyond plain C++: CUDA's built-ins, and named wrappers for each PTX instruction we rely on.
//
// One source compiles with nvcc and, in tests, with the host compiler against tests/cuda_emulator. So in all of
// backend_cuda:
//   - kernels are launched by launch() of launch.h, never by <<<>>>; PTX stands in this file only;
//   - shared memory is dynamic, one struct a kernel, from shared_memory<T>(): no __shared__ declarations;
//   - no cooperative groups, no textures, no device-side allocation, no __half arithmetic: halves are uint16_t bits;
//   - vector loads go through their aligned types (uint4, float4, …).
// PTX is described in "Parallel Thread Execution ISA"; section names are given. Fragment layouts: lane = 4·g + t.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace banter::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
/** Shared memory of a block may not exceed this: what CUDA-in-graphics contexts allow (47 KiB). */
inline constexpr size_t kSharedLimit = 47 * 1024;

}  // namespace banter::cuda

#if defined(__CUDACC__)

namespace banter::cuda {

extern __shared__ uint4 banter_dynamic_shared[];

/** The block's dynamic shared memory, 16-byte aligned, as the struct that the launch gave sizeof(T) bytes for. */
template <class T>
__device__ __forceinline__ T& shared_memory() {
  return *reinterpret_cast<T*>(banter_dynamic_shared);
}

// ---------------------------------------------------------------- conversions ("cvt"), round to nearest even

__device__ __forceinline__ uint16_t float_to_half(float x) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
__device__ __forceinline__ float half_to_float(uint16_t h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
/** Two halves in a register: `low` in bits 0 to 15. */
__device__ __forceinline__ uint32_t pack_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t halves;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
  return halves;
#else
  return static_cast<uint32_t>(float_to_half(low)) | static_cast<uint32_t>(float_to_half(high)) << 16;
#endif
}
__device__ __forceinline__ float bfloat_to_float(uint16_t b) {
  return __uint_as_float(static_cast<uint32_t>(b) << 16);
}
/** A card's not-a-number has all bits set: rounding it would carry into the sign. */
__device__ __forceinline__ uint16_t float_to_bfloat(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
__device__ __forceinline__ uint32_t pack_bfloats(float low, float high) {
  return static_cast<uint32_t>(float_to_bfloat(low)) | static_cast<uint32_t>(float_to_bfloat(high)) << 16;
}

// ---------------------------------------------------------------- integer dot products and bytes ("dp4a", "prmt")

/** c + Σ a[i] · b[i] over 4 bytes: a unsigned, b signed. */
__device__ __forceinline__ int32_t dp4a_u8s8(uint32_t a, uint32_t b, int32_t c) {
  int32_t d;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ int32_t dp4a_s8s8(uint32_t a, uint32_t b, int32_t c) {
  int32_t d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
/** Byte i of the result is byte (selector >> 4i & 7) of the eight bytes low, high. */
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}

// ---------------------------------------------------------------- matrix products ("mma.m16n8k16", "mma.m16n8k32")
// All 32 lanes take part. D += A B with A [16][k] row-major, B [k][8] column-major, D [16][8]:
//   D  d[0], d[1]: row g, columns 2t, 2t+1;  d[2], d[3]: row g + 8.
//   16-bit A  a[0]: row g, k 2t, 2t+1;  a[1]: row g + 8;  a[2]: row g, k 2t+8, 2t+9;  a[3]: row g + 8, the same.
//   16-bit B  b[0]: k 2t, 2t+1, column g;  b[1]: k 2t+8, 2t+9.
//   8-bit, k = 32  a[0]: row g, k 4t..4t+3;  a[1]: row g + 8;  a[2]: row g, k 16+4t..;  a[3]: row g + 8.
//                  b[0]: k 4t..4t+3, column g;  b[1]: k 16+4t...
//   8-bit, k = 16  a[0]: row g, k 4t..;  a[1]: row g + 8.   b: k 4t.., column g.
// A column of D depends on that column of B only, in an order that is the instruction's own: products of a row are
// bit-equal whatever stands in the other columns.

__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#endif
}

/** Needs compute capability 8.0; below, the host must not launch what uses it. */
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

/** A unsigned, B signed bytes. Exact. */
__device__ __forceinline__ void mma_m16n8k32_u8s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int i = 0; i < 2; ++i) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[2 * i]), "r"(b[i]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d[2]), "+r"(d[3])
                 : "r"(a[2 * i + 1]), "r"(b[i]));
  }
#endif
}
__device__ __forceinline__ void mma_m16n8k16_u8s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
#else
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(d[2]), "+r"(d[3])
               : "r"(a[1]), "r"(b));
#endif
}

/** Four 8 × 8 matrices of 16-bit elements from shared memory ("ldmatrix"): lane l gives the address of row l % 8 of
 *  matrix l / 8, 16-byte aligned; r[i] receives elements (g, 2t) and (g, 2t+1) of matrix i, or with _trans (2t, g) and
 *  (2t+1, g). */
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared_row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// ---------------------------------------------------------------- memory ("cp.async", "ld.global.nc")

/** Starts a copy of 16 bytes, both ends 16-byte aligned; with `valid` false writes zeros and reads nothing. The bytes
 *  are there after cp_async_wait() in the thread that copied, and after a barrier behind it in the others. */
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes) : "memory");
#else
  *static_cast<uint4*>(shared) = valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
#endif
}
/** Closes a group of the copies that this thread started. */
__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/** Waits until at most kGroups of this thread's newest groups are still under way. */
template <int kGroups>
__device__ __forceinline__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

/** Reads data that no kernel writes (weights) and that is used once: past the first-level cache. Aligned to its size. */
__device__ __forceinline__ uint4 load_stream(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ uint32_t load_stream(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

// ---------------------------------------------------------------- arithmetic

/** 2^x, relative error below 2^-22 ("ex2.approx.ftz"); 2^-inf = 0. */
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace banter::cuda

#elif defined(BANTER_CUDA_EMULATOR)
#include <device_emulated.h>  // the same names, for the host (tests/cuda_emulator)
#endif

#if defined(__CUDACC__) || defined(BANTER_CUDA_EMULATOR)  // plain host code sees the constants only

namespace banter::cuda {

/** Butterfly reductions: every lane gets the result, in an order that depends on nothing. All 32 lanes take part. */
__device__ __forceinline__ float warp_sum(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ __forceinline__ int32_t warp_sum(int32_t x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

}  // namespace banter::cuda

#endif
