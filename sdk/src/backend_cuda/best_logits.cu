// The best logits of each row, so that a sampler need not see a whole vocabulary.
//
// Bound: memory; bytes = 4 · vocabulary a row, read from the second-level cache five times (once for maxima, three times
//   to select, once to collect), of which only the first meets all of a cold cache's cost.
// Mapping: one block of 1024 threads a row. Each thread's own maximum first: the (N + 1)-th largest of the 1024 maxima is
//   a value that at least N + 1 logits reach, so that selecting counts few values, and atomics hardly meet.
// Numerics: exact. Result: every finite logit above `rest`, which is the (N + 1)-th largest; in any order.
// Expected: about 30 us a row of 150 000, rows side by side; no fraction of a roofline, one block reaches no more.
#include "backend_cuda/best_logits.h"
#include "backend_cuda/device.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

namespace banter::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kDigitBits = 11;  // of a key, from the top: 11, 11 and 10 bits

struct BestShared {
  int32_t histogram[1 << kDigitBits];
  uint32_t prefix;
  int32_t rank, count;
};

struct BestArgs {
  StepView step;
  const float* logits;
  int32_t vocabulary;
  BestRow* out;
};

/** Orders like the floats; 0 for what is no candidate (NaN, infinities). */
__device__ __forceinline__ uint32_t order_key(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7F800000u) == 0x7F800000u) return 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float value_of(uint32_t key) {
  if (key == 0) return __uint_as_float(0xFF800000u);  // -inf
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

/** The first warp: finds the bin, counted from the highest, in which the rank falls. */
__device__ void find_bin(BestShared& shared, uint32_t prefix, int32_t rank, int bits) {
  const int lane = static_cast<int>(threadIdx.x);
  const int each = (1 << bits) / kWarp;
  const int highest = (kWarp - lane) * each - 1;
  int32_t own = 0;
  for (int i = 0; i < each; ++i) own += shared.histogram[highest - i];
  int32_t before = own;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, before, offset);
    if (lane >= offset) before += other;
  }
  before -= own;
  if (rank < before || rank >= before + own) return;
  int bin = highest;
  for (; before + shared.histogram[bin] <= rank; --bin) before += shared.histogram[bin];
  shared.prefix = prefix << bits | static_cast<uint32_t>(bin);
  shared.rank = rank - before;
}

/** The key of this rank (0: the largest) among all that the block's threads visit; each(use) visits a thread's own. */
template <class Each>
__device__ uint32_t select_rank(BestShared& shared, int32_t rank, Each&& each) {
  uint32_t prefix = 0;
  int left = 32;
  while (left > 0) {
    const int bits = left < kDigitBits ? left : kDigitBits;
    for (int i = static_cast<int>(threadIdx.x); i < 1 << kDigitBits; i += kThreads) shared.histogram[i] = 0;
    __syncthreads();
    each([&](uint32_t key) {
      if (left < 32 && key >> left != prefix) return;
      atomicAdd(&shared.histogram[key >> (left - bits) & ((1u << bits) - 1)], 1);
    });
    __syncthreads();
    if (threadIdx.x < kWarp) find_bin(shared, prefix, rank, bits);
    __syncthreads();
    prefix = shared.prefix;
    rank = shared.rank;
    left -= bits;
  }
  return prefix;
}

__global__ void __launch_bounds__(kThreads) best_logits_kernel(BestArgs args) {
  if (static_cast<int32_t>(blockIdx.x) >= args.step.counts->logit_rows) return;
  BestShared& shared = shared_memory<BestShared>();
  const float* const row = args.logits + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(args.vocabulary);
  const auto visit = [&](auto&& use) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < args.vocabulary; i += kThreads) use(order_key(row[i]), i);
  };
  uint32_t own = 0;
  visit([&](uint32_t key, int32_t) { own = key > own ? key : own; });
  const uint32_t least = select_rank(shared, BestRow::kMost, [&](auto&& count) { count(own); });
  uint32_t rest = 0;
  if (args.vocabulary > BestRow::kMost) {
    rest = select_rank(shared, BestRow::kMost, [&](auto&& count) {
      visit([&](uint32_t key, int32_t) {
        if (key >= least) count(key);
      });
    });
  }
  if (threadIdx.x == 0) shared.count = 0;
  __syncthreads();
  BestRow& out = args.out[blockIdx.x];
  visit([&](uint32_t key, int32_t id) {
    if (key <= rest) return;
    const int32_t place = atomicAdd(&shared.count, 1);
    out.ids[place] = id;
    out.logits[place] = row[id];
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    out.count = shared.count;
    out.rest = value_of(rest);
  }
}

}  // namespace

cudaError_t best_logits(const StepView& step, const float* logits, int32_t rows, int32_t vocabulary, BestRow* out,
                        KernelQueue queue) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(rows));
  shape.block = dim3(kThreads);
  shape.shared_bytes = sizeof(BestShared);
  return launch(best_logits_kernel, shape, queue, BestArgs{step, logits, vocabulary, out});
}

}  // namespace banter::cuda
