// Kernels of the emulator's own tests: clean ones, and ones with a fault that an argument turns on.
#pragma once

#include "backend_cuda/device.h"

namespace banter::cuda_emulator_test {

/** out[i] = a · x[i] + y[i]; `extra` more elements than count: beyond the end. */
struct AxpyArgs {
  const float* x;
  const float* y;
  float* out;
  float a;
  int32_t count, extra;
};
__global__ void axpy(AxpyArgs args);

/** out[0] = the sum of x in the order of a tree over one block. */
struct SumArgs {
  const float* x;
  float* out;
  int32_t count;
};
struct SumShared {
  float partial[32];
};
__global__ void block_sum(SumArgs args);

/** Reverses blockDim.x floats through shared memory, `rounds` times. */
enum class Reverse : int32_t { kClean, kNoBarrierBeforeRead, kNoBarrierBeforeWrite, kOffByOne };
struct ReverseArgs {
  float* data;
  int32_t rounds;
  Reverse fault;
};
struct ReverseShared {
  float values[256];
};
__global__ void reverse(ReverseArgs args);

/** One warp: D = A B of 16 × 16 by 16 × 8 halves (or bfloats), and of 16 × 32 by 32 × 8 bytes. Row-major A, column-major
 *  B, row-major D. */
struct MatrixArgs {
  const uint16_t* a;
  const uint16_t* b;
  float* d;
  bool bfloat;
  const uint8_t* a8;
  const int8_t* b8;
  int32_t* d8;   // k = 32
  int32_t* d8h;  // the first 16 of k only
};
__global__ void matrix(MatrixArgs args);

/** One warp: four 8 × 8 matrices, `rows` [32][8], through ldmatrix: out [2][32 lanes][4], second half transposed. */
struct LoadMatricesArgs {
  const uint16_t* rows;
  uint32_t* out;
  int32_t shift;  // bytes by which the addresses are off
};
struct LoadMatricesShared {
  uint4 rows[33];
};
__global__ void load_matrices(LoadMatricesArgs args);

/** Copies blocks of 16 bytes through shared memory in a pipeline of two stages. */
enum class Pipeline : int32_t { kClean, kNoWait, kWaitTooShort, kNoBarrierAfterWait };
struct PipelineArgs {
  const uint4* from;
  uint4* to;
  int32_t rounds;  // each of blockDim.x
  Pipeline fault;
};
struct PipelineShared {
  uint4 stage[2][64];
};
__global__ void pipeline(PipelineArgs args);

/** What one thread or warp can do wrong. */
enum class Plant : int32_t {
  kNothing,
  kUnalignedVector,
  kUnalignedFloat,
  kReadHost,
  kWriteHost,
  kWriteConstant,
  kUninitialisedShared,
  kSharedBeyond,
  kArrayIndex,
  kBarrierSomeThreads,
  kBarrierTwoPlaces,
  kBarrierAfterExit,
  kShuffleLaneMissing,
  kShuffleMaskTooWide,
  kShuffleOtherMask,
  kShuffleInactiveSource,
  kVoteTwoPlaces,
  kWarpWithoutSync,
  kOtherThreadsVariable,
  kAtomics,
  kTrap,
  kReduce,
};
struct PlantArgs {
  std::byte* device;  // at least 4096 bytes
  float* host;
  Plant plant;
};
struct PlantShared {
  int32_t values[64];
  float* pointer;
};
__global__ void planted(PlantArgs args);

}  // namespace banter::cuda_emulator_test
