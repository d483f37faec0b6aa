#include "cuda_emulator/test_kernels.h"

namespace banter::cuda_emulator_test {

using namespace banter::cuda;

__global__ void axpy(AxpyArgs args) {
  const auto i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= args.count + args.extra) return;
  args.out[i] = fmaf(args.a, args.x[i], args.y[i]);
}

__global__ void block_sum(SumArgs args) {
  auto& shared = shared_memory<SumShared>();
  const int32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float sum = 0;
  for (int32_t i = threadIdx.x; i < args.count; i += blockDim.x) sum += args.x[i];
  sum = warp_sum(sum);
  if (lane == 0) shared.partial[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = warp_sum(lane < static_cast<int32_t>(blockDim.x) / kWarp ? shared.partial[lane] : 0.0f);
  if (lane == 0) args.out[0] = sum;
}

__global__ void reverse(ReverseArgs args) {
  auto& shared = shared_memory<ReverseShared>();
  const auto t = static_cast<int32_t>(threadIdx.x), n = static_cast<int32_t>(blockDim.x);
  float value = args.data[t];
  for (int32_t round = 0; round < args.rounds; ++round) {
    shared.values[t] = value;
    if (args.fault != Reverse::kNoBarrierBeforeRead) __syncthreads();
    value = shared.values[n - 1 - t + (args.fault == Reverse::kOffByOne)];
    if (args.fault != Reverse::kNoBarrierBeforeWrite) __syncthreads();
  }
  args.data[t] = value;
}

__global__ void matrix(MatrixArgs args) {
  const int32_t lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const auto* const a = reinterpret_cast<const uint32_t*>(args.a);  // pairs along k
  const auto* const b = reinterpret_cast<const uint32_t*>(args.b);
  const uint32_t fa[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]};
  const uint32_t fb[2] = {b[g * 8 + t], b[g * 8 + t + 4]};
  float d[4] = {0.5f, 0, 0, 0};
  if (args.bfloat) {
    mma_m16n8k16_bf16(d, fa, fb);
  } else {
    mma_m16n8k16_f16(d, fa, fb);
  }
  d[0] -= 0.5f;
  const auto* const a8 = reinterpret_cast<const uint32_t*>(args.a8);  // fours along k
  const auto* const b8 = reinterpret_cast<const uint32_t*>(args.b8);
  const uint32_t ea[4] = {a8[g * 8 + t], a8[(g + 8) * 8 + t], a8[g * 8 + t + 4], a8[(g + 8) * 8 + t + 4]};
  const uint32_t eb[2] = {b8[g * 8 + t], b8[g * 8 + t + 4]};
  int32_t d8[4] = {}, d8h[4] = {};
  mma_m16n8k32_u8s8(d8, ea, eb);
  const uint32_t ea_half[2] = {ea[0], ea[1]};
  mma_m16n8k16_u8s8(d8h, ea_half, eb[0]);
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t at = (g + i / 2 * 8) * 8 + 2 * t + i % 2;
    args.d[at] = d[i];
    args.d8[at] = d8[i];
    args.d8h[at] = d8h[i];
  }
}

__global__ void load_matrices(LoadMatricesArgs args) {
  auto& shared = shared_memory<LoadMatricesShared>();
  const int32_t lane = threadIdx.x;
  shared.rows[lane] = reinterpret_cast<const uint4*>(args.rows)[lane];
  if (lane == 0) shared.rows[32] = make_uint4(0, 0, 0, 0);
  __syncwarp();
  const auto* const row = reinterpret_cast<const std::byte*>(&shared.rows[lane]) + args.shift;
  uint32_t r[4], transposed[4];
  ldmatrix_x4(r, row);
  ldmatrix_x4_trans(transposed, row);
  for (int32_t i = 0; i < 4; ++i) {
    args.out[lane * 4 + i] = r[i];
    args.out[128 + lane * 4 + i] = transposed[i];
  }
}

__global__ void pipeline(PipelineArgs args) {
  auto& shared = shared_memory<PipelineShared>();
  const int32_t t = threadIdx.x, n = blockDim.x;
  cp_async_16(&shared.stage[0][t], &args.from[t]);
  cp_async_commit();
  for (int32_t round = 0; round < args.rounds; ++round) {
    const bool more = round + 1 < args.rounds;
    if (more) cp_async_16(&shared.stage[(round + 1) % 2][t], &args.from[(round + 1) * n + t]);
    cp_async_commit();
    if (args.fault == Pipeline::kWaitTooShort) {
      cp_async_wait<2>();
    } else if (args.fault != Pipeline::kNoWait) {
      cp_async_wait<1>();
    }
    if (args.fault != Pipeline::kNoBarrierAfterWait) __syncthreads();
    args.to[round * n + t] = shared.stage[round % 2][n - 1 - t];
    __syncthreads();
  }
}

namespace {

constexpr float kTable[4] = {1, 2, 3, 4};

__device__ void plant_memory(const PlantArgs& args, PlantShared& shared) {
  const int32_t t = threadIdx.x;
  auto* const words = reinterpret_cast<uint32_t*>(args.device);
  switch (args.plant) {
    case Plant::kUnalignedVector:
      words[t * 4] = load_stream(reinterpret_cast<const uint4*>(args.device + 8)).y;
      break;
    case Plant::kUnalignedFloat:
      words[t] = *reinterpret_cast<const uint32_t*>(args.device + 2);
      break;
    case Plant::kReadHost:
      words[t] = __float_as_uint(args.host[t]);
      break;
    case Plant::kWriteHost:
      args.host[t] = 1;
      break;
    case Plant::kWriteConstant:
      const_cast<volatile float*>(kTable)[t % 4] = 1;
      break;
    case Plant::kUninitialisedShared:
      words[t] = static_cast<uint32_t>(shared.values[t]);
      break;
    case Plant::kSharedBeyond:
      reinterpret_cast<volatile int32_t*>(&shared + 1)[t] = 1;
      break;
    case Plant::kArrayIndex: {
      volatile int32_t* const values = shared.values;
      values[t] = t;
      shared.values[64 + t % 2] = 1;  // still inside the struct
      break;
    }
    case Plant::kWarpWithoutSync:
      shared.values[t] = t;
      words[t] = static_cast<uint32_t>(__shfl_sync(kAllLanes, shared.values[t ^ 1], 0));
      break;
    case Plant::kOtherThreadsVariable: {
      float mine = kTable[t % 4];
      if (t == 0) shared.pointer = &mine;
      __syncthreads();
      *shared.pointer = 2;
      __syncthreads();
      words[t] = __float_as_uint(mine);
      break;
    }
    default: {
      shared.values[t] = 0;
      __syncthreads();
      atomicAdd(&shared.values[t % 2], 1);
      atomicMax(reinterpret_cast<int32_t*>(args.device), t);
      if (args.plant == Plant::kNothing) __syncthreads();
      words[32 + t] = static_cast<uint32_t>(shared.values[t % 2]);
    }
  }
}

__device__ void plant_collective(const PlantArgs& args) {
  const int32_t t = threadIdx.x;
  auto* const words = reinterpret_cast<uint32_t*>(args.device);
  switch (args.plant) {
    case Plant::kBarrierSomeThreads:
      if (t < 16) __syncthreads();
      break;
    case Plant::kBarrierTwoPlaces:
      if (t < 32) {
        __syncthreads();
      } else {
        words[t] = 1;
        __syncthreads();
      }
      break;
    case Plant::kBarrierAfterExit:
      if (t >= 32) return;
      __syncthreads();
      break;
    case Plant::kShuffleLaneMissing:
      if (t % 32 != 7) words[t] = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(t), 1);
      break;
    case Plant::kShuffleMaskTooWide:
      if (t < 16) words[t] = __shfl_sync(kAllLanes, static_cast<uint32_t>(t), 0);
      __syncthreads();
      break;
    case Plant::kShuffleOtherMask:
      words[t] = __shfl_sync(t % 32 < 16 ? kAllLanes : 0xFFFF0000u, static_cast<uint32_t>(t), 16);
      break;
    case Plant::kShuffleInactiveSource:
      if (t % 32 < 16) words[t] = __shfl_sync(0x0000FFFFu, static_cast<uint32_t>(t), 16);
      break;
    case Plant::kVoteTwoPlaces:
      if (t % 2 == 0) {
        words[t] = __ballot_sync(kAllLanes, 1);
      } else {
        words[t] = __ballot_sync(kAllLanes, t > 4);
      }
      break;
    case Plant::kTrap:
      __trap();
    default:
      words[t] = static_cast<uint32_t>(__reduce_add_sync(kAllLanes, t % 32));
  }
}

}  // namespace

__global__ void planted(PlantArgs args) {
  auto& shared = shared_memory<PlantShared>();
  const Plant p = args.plant;
  if (p >= Plant::kBarrierSomeThreads && p != Plant::kAtomics && p != Plant::kWarpWithoutSync &&
      p != Plant::kOtherThreadsVariable) {
    plant_collective(args);
  } else {
    plant_memory(args, shared);
  }
}

}  // namespace banter::cuda_emulator_test
