// The reference backend: memory, weights and the frame of a step.
#include "ops/reference.h"

#include <cassert>
#include <cstdlib>
#include <cstring>

#include "formats/tensor_type.h"
#include "ops/reference_backend.h"

#ifdef _WIN32
#include <malloc.h>
#endif

namespace banter::ops {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kCopyPiece = size_t{16} << 20;  // a few milliseconds of copying between two questions whether to go on

Error out_of_memory(size_t bytes) {
  return Error{BANTER_ERROR_OUT_OF_MEMORY,
               "could not get " + std::to_string(bytes >> 20) +
                   " MiB of memory; close other programs or use a smaller model or context"};
}

}  // namespace

void AlignedFree::operator()(std::byte* memory) const {
#ifdef _WIN32
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

AlignedBytes allocate_aligned(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) return nullptr;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
#ifdef _WIN32
  return AlignedBytes(static_cast<std::byte*>(_aligned_malloc(rounded == 0 ? kAlignment : rounded, kAlignment)));
#else
  return AlignedBytes(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded)));
#endif
}

void ReferenceWeight::dequantize_row(int64_t row, float* out) const {
  formats::dequantize(type, blocks.get() + static_cast<size_t>(row) * row_bytes, out, static_cast<size_t>(cols));
}

ReferenceBackend::ReferenceBackend(ThreadPool& pool) : pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}

Result<void*> ReferenceBackend::allocate(size_t bytes) {
  AlignedBytes memory = allocate_aligned(bytes);
  if (memory == nullptr) return out_of_memory(bytes);
  return static_cast<void*>(memory.release());
}

void ReferenceBackend::deallocate(void* memory) {
  AlignedFree{}(static_cast<std::byte*>(memory));
}

Result<void> ReferenceBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  if (bytes != 0) std::memcpy(host, device, bytes);
  return {};
}

Result<void> ReferenceBackend::copy_from_host(void* device, const void* host, size_t bytes) {
  if (bytes != 0) std::memcpy(device, host, bytes);
  return {};
}

Result<std::unique_ptr<Weight>> ReferenceBackend::upload(TensorType type, int64_t rows, int64_t cols,
                                                         std::span<const std::byte> data, WeightUse) {
  const formats::TypeTraits* traits = formats::type_traits(static_cast<uint32_t>(type));
  if (traits == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED_TYPE, "the reference backend cannot read weights of " +
                                                    std::string(formats::type_name(static_cast<uint32_t>(type)))};
  }
  if (rows <= 0 || cols <= 0 || cols % traits->block_elements != 0) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "a " + std::string(traits->name) + " matrix of " +
                                                    std::to_string(rows) + " x " + std::to_string(cols) +
                                                    " does not consist of whole blocks"};
  }
  const size_t row_bytes = static_cast<size_t>(cols) / traits->block_elements * traits->block_bytes;
  if (data.size() / row_bytes != static_cast<size_t>(rows) || data.size() % row_bytes != 0) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "a matrix of " + std::to_string(rows) + " rows of " +
                                                    std::to_string(row_bytes) + " bytes was given " +
                                                    std::to_string(data.size()) + " bytes"};
  }
  auto weight = std::make_unique<ReferenceWeight>();
  weight->type = type;
  weight->rows = rows;
  weight->cols = cols;
  weight->row_bytes = row_bytes;
  weight->bytes = data.size();
  weight->blocks = allocate_aligned(data.size());
  if (weight->blocks == nullptr) return out_of_memory(data.size());
  for (size_t done = 0; done < data.size(); done += kCopyPiece) {
    std::memcpy(weight->blocks.get() + done, data.data() + done, std::min(kCopyPiece, data.size() - done));
    if (upload_progress_ && !upload_progress_(static_cast<float>(done) / static_cast<float>(data.size()))) {
      return Error{BANTER_ERROR_CANCELLED, "loading was cancelled"};
    }
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

Result<std::unique_ptr<Rope>> ReferenceBackend::create_rope(RopeSpec spec) {
  auto rope = std::make_unique<ReferenceRope>();
  rope->spec = std::move(spec);
  return std::unique_ptr<Rope>(std::move(rope));
}

void ReferenceBackend::begin_step(const Step& step) {
  assert(step.tokens.size() == step.positions.size());
  step_ = step;
  missing_page_.store(false, std::memory_order_relaxed);
  sequence_of_row_.assign(step.tokens.size(), -1);
  for (size_t s = 0; s < step.sequences.size(); ++s) {
    const StepSequence& sequence = step.sequences[s];
    for (int32_t r = 0; r < sequence.rows; ++r) {
      sequence_of_row_[static_cast<size_t>(sequence.first_row + r)] = static_cast<int32_t>(s);
    }
  }
}

Result<void> ReferenceBackend::end_step() {
  if (missing_page_.load(std::memory_order_relaxed)) {
    return Error{BANTER_ERROR_INTERNAL, "a step touched a position whose KV page is not held"};
  }
  return {};
}

Result<std::unique_ptr<Backend>> create_reference_backend(ThreadPool& pool) {
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>(pool));
}

}  // namespace banter::ops
