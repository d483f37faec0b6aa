#include "backend_cuda/weight_upload.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "backend_cuda/weight_packing.h"
#include "formats/tensor_type.h"

namespace banter::cuda {
namespace {

constexpr size_t kSmallestSlab = size_t{4} << 20, kLargestSlab = size_t{64} << 20;
constexpr size_t kStagingBytes = size_t{8} << 20;
constexpr size_t kAlignment = 256;

/** A weight that keeps its slab alive. */
class StoredWeight final : public DeviceWeight {
 public:
  std::shared_ptr<WeightSlab> slab;
};

}  // namespace

Result<uint8_t*> WeightUpload::take(size_t bytes, std::shared_ptr<WeightSlab>& slab) {
  const size_t needed = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (slab_ == nullptr || slab_->used + needed > slab_->memory.bytes()) {
    auto fresh = std::make_shared<WeightSlab>(context_);
    // As much again as there is: small models take little, large ones few slabs.
    const size_t slab_bytes = std::max(needed, std::clamp(taken_, kSmallestSlab, kLargestSlab));
    if (Result<void> made = fresh->memory.allocate(slab_bytes, "weights"); !made) {
      // The last weights of a model must not fail for want of a whole slab.
      if (slab_bytes == needed || made.error().code != BANTER_ERROR_OUT_OF_MEMORY) return made.error();
      if (Result<void> small = fresh->memory.allocate(needed, "weights"); !small) return small.error();
    }
    slab_ = std::move(fresh);
  }
  slab = slab_;
  uint8_t* const start = slab->memory.as<uint8_t>() + slab->used;
  slab->used += needed;
  taken_ += needed;
  return start;
}

Result<void> WeightUpload::send(const DeviceWeight& weight, uint8_t* panels, std::span<const std::byte> data,
                                const std::function<bool(float)>& progress) {
  const int64_t count = weight.panel_count();
  const int64_t panels_at_once = std::max<int64_t>(1, static_cast<int64_t>(kStagingBytes / weight.panel_bytes));
  const size_t staging = static_cast<size_t>(std::min(count, panels_at_once)) * weight.panel_bytes;
  for (int i = 0; i < 2; ++i) {
    if (Result<void> made = sent_[i].create(); !made) return made;
    if (staging_[i].bytes() >= staging) continue;
    if (Result<void> made = staging_[i].allocate(staging, "staging for weights"); !made) return made;
  }
  int turn = 0;
  bool pending[2] = {false, false};
  Result<void> outcome;
  for (int64_t first = 0; outcome && first < count; first += panels_at_once, turn ^= 1) {
    const int64_t now = std::min(panels_at_once, count - first);
    if (pending[turn]) outcome = sent_[turn].wait();
    if (!outcome) break;
    auto* const to = staging_[turn].as<uint8_t>();
    pool_.for_each(static_cast<int32_t>(now), [&](int32_t unit, int32_t) {
      pack_device_panel(weight.type, weight.rows, weight.cols, data.data(), first + unit,
                        to + static_cast<size_t>(unit) * weight.panel_bytes);
    });
    outcome =
        check(cudaMemcpyAsync(panels + static_cast<size_t>(first) * weight.panel_bytes, to,
                              static_cast<size_t>(now) * weight.panel_bytes, cudaMemcpyHostToDevice, stream_.get()),
              "sending weights");
    if (outcome) outcome = sent_[turn].record(stream_);
    pending[turn] = static_cast<bool>(outcome);
    if (outcome && progress && !progress(static_cast<float>(first + now) / static_cast<float>(count))) {
      outcome = Error{BANTER_ERROR_CANCELLED, "Loading was cancelled while weights were sent to the graphics card."};
    }
  }
  // Whatever happened, nothing may read the staging memory, or write to the weight's, behind our back.
  const Result<void> done = check(cudaStreamSynchronize(stream_.get()), "sending weights");
  return outcome ? done : outcome;
}

Result<std::unique_ptr<ops::Weight>> WeightUpload::upload(ops::TensorType type, int64_t rows, int64_t cols,
                                                          std::span<const std::byte> data,
                                                          const std::function<bool(float)>& progress) {
  const formats::TypeTraits* traits = formats::type_traits(static_cast<uint32_t>(type));
  if (traits == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED_TYPE, "The CUDA backend cannot compute with " +
                                                    std::string(formats::type_name(static_cast<uint32_t>(type))) +
                                                    " weights; convert the model to another quantisation."};
  }
  constexpr int64_t kLimit = int64_t{1} << 40;  // keeps every product below 2^63
  if (rows < 1 || cols < 1 || cols % traits->block_elements != 0 || cols > kLimit / rows ||
      data.size() !=
          static_cast<size_t>(rows) * static_cast<size_t>(cols / traits->block_elements) * traits->block_bytes) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "A weight of " + std::to_string(rows) + " × " + std::to_string(cols) +
                                                    " in " + std::string(traits->name) + " cannot have " +
                                                    std::to_string(data.size()) + " bytes; the model file is damaged."};
  }
  auto weight = std::make_unique<StoredWeight>();
  weight->type = type;
  weight->rows = rows;
  weight->cols = cols;
  weight->form = ops::form_of(type);
  weight->panel_bytes = device_panel_bytes(weight->form, cols);
  weight->bytes = weight->panel_bytes * static_cast<size_t>(weight->panel_count());
  Result<uint8_t*> panels = take(weight->bytes, weight->slab);
  if (!panels) return panels.error();
  weight->panels = *panels;
  if (Result<void> sent = send(*weight, *panels, data, progress); !sent) return sent.error();
  return std::unique_ptr<ops::Weight>(std::move(weight));
}

}  // namespace banter::cuda
