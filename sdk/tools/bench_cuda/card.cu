#include "bench_cuda/card.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "backend_cuda/device.h"
#include "backend_cuda/launch.h"

namespace banter::bench {
namespace {

using cuda::launch;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 256;
constexpr int kProducts = 8;  // that a warp has under way at once

struct CopyArgs {
  const uint4* from;
  uint4* to;
  size_t count;
};
/** Bound: memory; moves 32 bytes for each of `count`. Consecutive threads copy consecutive 16 bytes. */
__global__ void copy_kernel(CopyArgs args) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count; i += step) {
    args.to[i] = args.from[i];
  }
}

struct ProductArgs {
  int32_t* sink;  // [blocks · kThreads], so that nothing is thought useless
  int32_t rounds;
};
/** Bound: matrix units; kProducts independent products of 16 × 8 × 32 a round and warp, operands in registers. */
__global__ void int8_kernel(ProductArgs args) {
  int32_t d[kProducts][4] = {};
  const uint32_t a[4] = {threadIdx.x, 1, 2, 3};
  const uint32_t b[2] = {threadIdx.x, 5};
  for (int32_t round = 0; round < args.rounds; ++round) {
    for (auto& each : d) cuda::mma_m16n8k32_u8s8(each, a, b);
  }
  int32_t sum = 0;
  for (const auto& each : d) sum += each[0] + each[1] + each[2] + each[3];
  args.sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
/** The same of halves: 16 × 8 × 16. */
__global__ void half_kernel(ProductArgs args) {
  float d[kProducts][4] = {};
  const uint32_t a[4] = {0x3C003C00u, 0x3C003C00u, 0, threadIdx.x};
  const uint32_t b[2] = {0x3C003C00u, threadIdx.x};
  for (int32_t round = 0; round < args.rounds; ++round) {
    for (auto& each : d) cuda::mma_m16n8k16_f16(each, a, b);
  }
  float sum = 0;
  for (const auto& each : d) sum += each[0] + each[1] + each[2] + each[3];
  args.sink[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int32_t>(sum);
}

struct RenderArgs {
  float* pixels;  // [blocks · kThreads]
  int32_t rounds;
};
/** Bound: arithmetic, as shading is. */
__global__ void render_kernel(RenderArgs args) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float x = args.pixels[i], y = 1.0f;
  for (int32_t round = 0; round < args.rounds; ++round) {
    x = fmaf(x, 0.999f, y);
    y = fmaf(y, 0.998f, x * 1e-6f);
  }
  args.pixels[i] = x + y;
}

Result<void> check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  return Error{BANTER_ERROR_BACKEND, std::string(what) + ": " + cudaGetErrorString(status)};
}

/** Seconds of one call of `queue`, the best of several groups that take `seconds` together. */
template <class Queue>
Result<double> best_time(double seconds, Queue&& queue) {
  double best = 1e30, spent = 0;
  for (int calls = 1; spent < seconds || best == 1e30;) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      if (Result<void> queued = check(queue(), "measuring the card"); !queued) return queued.error();
    }
    if (Result<void> done = check(cudaDeviceSynchronize(), "measuring the card"); !done) return done.error();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    spent += took;
    if (took < seconds / 8) {
      calls *= 2;  // too short to tell: the launch itself would count
    } else {
      best = std::min(best, took / calls);
    }
  }
  return best;
}

struct DeviceArray {
  void* data = nullptr;
  ~DeviceArray() { static_cast<void>(cudaFree(data)); }
  Result<void> create(size_t bytes) {
    if (Result<void> made = check(cudaMalloc(&data, bytes), "allocating buffers to measure with"); !made) return made;
    return check(cudaMemset(data, 0, bytes), "clearing buffers");
  }
};

}  // namespace

Result<CardLimits> measure_card(int32_t device, size_t copy_bytes, double seconds) {
  if (Result<void> set = check(cudaSetDevice(device), "choosing the card"); !set) return set.error();
  cudaDeviceProp properties = {};
  if (Result<void> got = check(cudaGetDeviceProperties(&properties, device), "asking the card"); !got)
    return got.error();
  CardLimits limits;
  size_t free = 0, total = 0;
  if (Result<void> got = check(cudaMemGetInfo(&free, &total), "asking the card"); !got) return got.error();
  limits.free_bytes = free;
  const auto blocks = static_cast<unsigned>(8 * properties.multiProcessorCount);

  DeviceArray from, to;
  if (Result<void> made = from.create(copy_bytes); !made) return made.error();
  if (Result<void> made = to.create(copy_bytes); !made) return made.error();
  const CopyArgs copy{static_cast<const uint4*>(from.data), static_cast<uint4*>(to.data), copy_bytes / sizeof(uint4)};
  const Result<double> copied = best_time(seconds, [&] {
    return launch(copy_kernel, {dim3(blocks), dim3(kThreads)}, nullptr, copy);
  });
  if (!copied) return copied.error();
  limits.copy_bytes = 2.0 * static_cast<double>(copy.count * sizeof(uint4)) / *copied;

  const ProductArgs product{static_cast<int32_t*>(to.data), seconds < 0.01 ? 2 : 4096};
  if (sizeof(int32_t) * blocks * kThreads > copy_bytes) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "The buffers are too small for this card."};
  }
  const double products = static_cast<double>(blocks) * (kThreads / cuda::kWarp) * kProducts * product.rounds;
  const Result<double> bytes = best_time(seconds, [&] {
    return launch(int8_kernel, {dim3(blocks), dim3(kThreads)}, nullptr, product);
  });
  if (!bytes) return bytes.error();
  limits.int8_ops = 2.0 * 16 * 8 * 32 * products / *bytes;
  const Result<double> halves = best_time(seconds, [&] {
    return launch(half_kernel, {dim3(blocks), dim3(kThreads)}, nullptr, product);
  });
  if (!halves) return halves.error();
  limits.half_ops = 2.0 * 16 * 8 * 16 * products / *halves;
  return limits;
}

RenderLoad::~RenderLoad() {
  static_cast<void>(cudaSetDevice(device_));
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
  static_cast<void>(cudaFree(pixels_));
}

Result<void> RenderLoad::create(int32_t device, double milliseconds) {
  device_ = device;
  if (Result<void> set = check(cudaSetDevice(device), "choosing the card"); !set) return set;
  cudaDeviceProp properties = {};
  if (Result<void> got = check(cudaGetDeviceProperties(&properties, device), "asking the card"); !got) return got;
  blocks_ = 16 * properties.multiProcessorCount;
  int least = 0, greatest = 0;
  if (Result<void> got = check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking the card"); !got)
    return got;
  cudaStream_t stream = nullptr;
  if (Result<void> made =
          check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "making a stream");
      !made) {
    return made;
  }
  stream_ = stream;
  const size_t bytes = sizeof(float) * static_cast<size_t>(blocks_) * kThreads;
  if (Result<void> made = check(cudaMalloc(&pixels_, bytes), "allocating pixels"); !made) return made;
  if (Result<void> cleared = check(cudaMemset(pixels_, 0, bytes), "clearing pixels"); !cleared) return cleared;
  for (rounds_ = 256; rounds_ < 1 << 28; rounds_ *= 2) {
    if (const Result<double> warm_up = frame(); !warm_up) return warm_up.error();
    const Result<double> took = frame();
    if (!took) return took.error();
    if (*took * 4 < milliseconds) continue;
    rounds_ = static_cast<int32_t>(rounds_ * std::min(8.0, milliseconds / *took));
    return {};
  }
  return {};
}

Result<void> RenderLoad::submit(int32_t rounds) {
  return check(launch(render_kernel, {dim3(static_cast<unsigned>(blocks_)), dim3(kThreads)},
                      static_cast<cudaStream_t>(stream_), RenderArgs{pixels_, rounds}),
               "rendering");
}

Result<double> RenderLoad::frame() {
  const Clock::time_point start = Clock::now();
  if (Result<void> queued = submit(rounds_); !queued) return queued.error();
  const Result<void> done = check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "rendering");
  if (!done) return done.error();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace banter::bench
