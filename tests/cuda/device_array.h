// Device memory of a test: allocated, filled and read through the runtime, so that the same tests run on a card.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace banter::test {

/** An array of device memory. A call of the runtime that fails fails the test. */
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  /** `count` elements whose bytes are all `fill`. */
  explicit DeviceArray(size_t count, int fill = 0xA5) : count_(count) {
    if (count == 0) return;
    EXPECT_EQ(cudaSuccess, cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    EXPECT_EQ(cudaSuccess, cudaMemset(data_, fill, count * sizeof(T)));
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) { write(values); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    swap(other);
    return *this;
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { EXPECT_EQ(cudaSuccess, cudaFree(data_)); }

  T* data() const { return data_; }
  size_t size() const { return count_; }

  void write(std::span<const T> values) {
    ASSERT_LE(values.size(), count_);
    if (values.empty()) return;
    EXPECT_EQ(cudaSuccess, cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
  }
  /** Waits for the device, then copies. */
  std::vector<T> read() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    if (count_ != 0) {
      EXPECT_EQ(cudaSuccess, cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    }
    return values;
  }

 private:
  void swap(DeviceArray& other) {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  T* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace banter::test
