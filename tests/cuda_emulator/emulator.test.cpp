// Clean programs under the emulated card: kernels compute, streams and graphs order, memory is accounted.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend_cuda/launch.h"
#include "base/half.h"
#include "cuda_emulator/control.h"
#include "cuda_emulator/device_array.h"
#include "cuda_emulator/faults_listener.h"
#include "cuda_emulator/test_kernels.h"

namespace banter::cuda_emulator_test {
namespace {

using namespace banter::cuda_emulator;
using banter::cuda::launch;

const ListenToFaults kListen;

TEST(Emulator, AKernelComputesWhatALoopDoes) {
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    Config config;
    config.block_order = order;
    reset(config);
    constexpr int kCount = 1000;
    std::vector<float> x(kCount), y(kCount);
    for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = 0.5f * static_cast<float>(i);
    const DeviceArray<float> dx(x), dy(y), out(kCount);
    ASSERT_EQ(launch(axpy, {dim3(4), dim3(256)}, nullptr, AxpyArgs{dx.data(), dy.data(), out.data(), 2, kCount, 0}),
              cudaSuccess);
    const std::vector<float> result = out.read();
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(result[i], 2.5f * static_cast<float>(i));
  }
}

TEST(Emulator, WarpsAndBlocksReduce) {
  std::vector<float> x(777);
  float sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] = static_cast<float>(i % 5);
  const DeviceArray<float> dx(x), out(1);
  ASSERT_EQ(launch(block_sum, {dim3(1), dim3(128), sizeof(SumShared)}, nullptr, SumArgs{dx.data(), out.data(), 777}),
            cudaSuccess);
  EXPECT_EQ(out.read()[0], sum);
}

TEST(Emulator, BarriersOrderSharedMemory) {
  std::vector<float> data(256);
  for (int i = 0; i < 256; ++i) data[i] = static_cast<float>(i);
  const DeviceArray<float> device(data);
  ASSERT_EQ(launch(reverse, {dim3(1), dim3(256), sizeof(ReverseShared)}, nullptr,
                   ReverseArgs{device.data(), 3, Reverse::kClean}),
            cudaSuccess);
  const std::vector<float> result = device.read();
  for (int i = 0; i < 256; ++i) ASSERT_EQ(result[i], static_cast<float>(255 - i));
}

TEST(Emulator, MatrixProductsAreThoseOfPlainLoops) {
  std::vector<uint16_t> a(16 * 16), b(8 * 16);
  std::vector<uint8_t> a8(16 * 32);
  std::vector<int8_t> b8(8 * 32);
  for (size_t i = 0; i < a8.size(); ++i) a8[i] = static_cast<uint8_t>(i * 37 % 251);
  for (size_t i = 0; i < b8.size(); ++i) b8[i] = static_cast<int8_t>(i * 91 % 255 - 127);
  for (const bool bfloat : {false, true}) {
    const auto code = [&](float v) { return bfloat ? float_to_bfloat(v) : float_to_half(v); };
    const auto value = [&](uint16_t h) { return bfloat ? bfloat_to_float(h) : half_to_float(h); };
    for (size_t i = 0; i < a.size(); ++i) a[i] = code(std::sin(static_cast<float>(i)));
    for (size_t i = 0; i < b.size(); ++i) b[i] = code(std::cos(static_cast<float>(3 * i)));
    const DeviceArray<uint16_t> da(a), db(b);
    const DeviceArray<uint8_t> da8(a8);
    const DeviceArray<int8_t> db8(b8);
    const DeviceArray<float> d(128);
    const DeviceArray<int32_t> d8(128), d8h(128);
    ASSERT_EQ(launch(matrix, {dim3(1), dim3(32)}, nullptr,
                     MatrixArgs{da.data(), db.data(), d.data(), bfloat, da8.data(), db8.data(), d8.data(), d8h.data()}),
              cudaSuccess);
    const auto result = d.read();
    const auto result8 = d8.read(), result8h = d8h.read();
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 8; ++col) {
        double sum = 0;
        int32_t sum8 = 0, sum8h = 0;
        for (int k = 0; k < 16; ++k) sum += double{value(a[row * 16 + k])} * value(b[col * 16 + k]);
        for (int k = 0; k < 32; ++k) sum8 += a8[row * 32 + k] * b8[col * 32 + k];
        for (int k = 0; k < 16; ++k) sum8h += a8[row * 32 + k] * b8[col * 32 + k];
        EXPECT_NEAR(result[row * 8 + col], sum, 1e-6);
        EXPECT_EQ(result8[row * 8 + col], sum8);
        EXPECT_EQ(result8h[row * 8 + col], sum8h);
      }
    }
  }
}

TEST(Emulator, LoadsMatricesAsFragments) {
  std::vector<uint16_t> rows(32 * 8);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(i);
  const DeviceArray<uint16_t> device(rows);
  const DeviceArray<uint32_t> out(256);
  ASSERT_EQ(launch(load_matrices, {dim3(1), dim3(32), sizeof(LoadMatricesShared)}, nullptr,
                   LoadMatricesArgs{device.data(), out.data(), 0}),
            cudaSuccess);
  const auto result = out.read();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t g = lane / 4, t = lane % 4;
      const auto element = [&](uint32_t row, uint32_t col) { return uint32_t{rows[(i * 8 + row) * 8 + col]}; };
      EXPECT_EQ(result[lane * 4 + i], element(g, 2 * t) | element(g, 2 * t + 1) << 16);
      EXPECT_EQ(result[128 + lane * 4 + i], element(2 * t, g) | element(2 * t + 1, g) << 16);
    }
  }
}

TEST(Emulator, AsynchronousCopiesArriveWhenWaitedFor) {
  for (const int capability : {75, 86}) {
    Config config;
    config.compute_capability = capability;
    reset(config);
    std::vector<uint4> from(64 * 5);
    for (uint32_t i = 0; i < from.size(); ++i) from[i] = make_uint4(i, i + 1, i + 2, i + 3);
    const DeviceArray<uint4> device(from), to(from.size());
    ASSERT_EQ(launch(pipeline, {dim3(1), dim3(64), sizeof(PipelineShared)}, nullptr,
                     PipelineArgs{device.data(), to.data(), 5, Pipeline::kClean}),
              cudaSuccess);
    const auto result = to.read();
    for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(result[i].y, from[i / 64 * 64 + 63 - i % 64].y);
  }
}

TEST(Emulator, AtomicsAndReductions) {
  const DeviceArray<std::byte> device(4096);
  ASSERT_EQ(cudaMemset(device.data(), 0, 4096), cudaSuccess);
  ASSERT_EQ(launch(planted, {dim3(2), dim3(64), sizeof(PlantShared)}, nullptr,
                   PlantArgs{device.data(), nullptr, Plant::kNothing}),
            cudaSuccess);
  std::vector<std::byte> bytes = device.read();
  int32_t words[96];
  std::memcpy(words, bytes.data(), sizeof words);
  EXPECT_EQ(words[0], 63);
  EXPECT_EQ(words[32], 32);
  ASSERT_EQ(launch(planted, {dim3(1), dim3(64), sizeof(PlantShared)}, nullptr,
                   PlantArgs{device.data(), nullptr, Plant::kReduce}),
            cudaSuccess);
  bytes = device.read();
  std::memcpy(words, bytes.data(), sizeof words);
  EXPECT_EQ(words[63], 31 * 16);
}

}  // namespace
}  // namespace banter::cuda_emulator_test
