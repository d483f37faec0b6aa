// Brings weights to the device: packed by the worker threads into page-locked memory, panels at a time, while the piece
// before is on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "backend_cuda/context.h"
#include "backend_cuda/device_weight.h"
#include "backend_cuda/memory.h"
#include "base/thread_pool.h"

namespace banter::cuda {

/** A slab of device memory that weights stand in one after another. */
struct WeightSlab {
  explicit WeightSlab(std::shared_ptr<const Context> of) : context(std::move(of)) {}
  ~WeightSlab() {
    const Current here(*context);
    if (here.is_lost()) memory.abandon();
    memory.reset();
  }
  WeightSlab(const WeightSlab&) = delete;
  WeightSlab& operator=(const WeightSlab&) = delete;

  const std::shared_ptr<const Context> context;
  DeviceMemory memory;
  size_t used = 0;
};

class WeightUpload {
 public:
  WeightUpload(ThreadPool& pool, const Stream& stream, const std::shared_ptr<const Context>& context)
      : pool_(pool), stream_(stream), context_(context) {}

  /** As ops::Backend::upload(). Returns when the weight is on the device. */
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType type, int64_t rows, int64_t cols,
                                              std::span<const std::byte> data,
                                              const std::function<bool(float)>& progress);

  /** As Memory::abandon(); weights that live on see to themselves. */
  void abandon() {
    for (int i = 0; i < 2; ++i) {
      staging_[i].abandon();
      sent_[i].abandon();
    }
  }

 private:
  Result<uint8_t*> take(size_t bytes, std::shared_ptr<WeightSlab>& slab);
  Result<void> send(const DeviceWeight& weight, uint8_t* panels, std::span<const std::byte> data,
                    const std::function<bool(float)>& progress);

  ThreadPool& pool_;
  const Stream& stream_;
  const std::shared_ptr<const Context>& context_;
  std::shared_ptr<WeightSlab> slab_;  // the one with room
  size_t taken_ = 0;                  // bytes of all weights so far
  PinnedMemory staging_[2];
  Event sent_[2];
};

}  // namespace banter::cuda
