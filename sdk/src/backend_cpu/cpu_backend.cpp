#include "backend_cpu/cpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "backend_cpu/matrix_product.h"
#include "backend_cpu/memory.h"
#include "backend_cpu/row_ops.h"
#include "base/cpuid.h"

namespace banter::cpu {
namespace {

constexpr size_t kArenaBytes = size_t{64} << 20;
/** What is packed between two progress calls: some 10 ms. */
constexpr size_t kPackBytes = size_t{8} << 20;

Error out_of_memory(uint64_t bytes, const char* what) {
  return {BANTER_ERROR_OUT_OF_MEMORY, "There is no memory for " + std::to_string((bytes + (1 << 20) - 1) >> 20) +
                                          " MiB of " + what + "; use a smaller model or free memory."};
}

/** What stands where in a page: drawn in cache-inl.h. */
ops::KvLayout page_layout(const ops::KvGeometry& geometry) {
  const auto tokens = static_cast<size_t>(geometry.page_tokens);
  const auto scales = static_cast<size_t>(ops::kv_scales(geometry.type, geometry.head_dim));
  const size_t vector = ops::kv_vector_bytes(geometry.type, geometry.head_dim) - 2 * scales;
  const size_t unit = std::max<size_t>(ops::kv_bytes_of_16(geometry.type) / 16, 1);  // INT4: two dimensions
  ops::KvLayout layout;
  auto& [keys, values] = layout.regions;
  keys.values = {.offset = 0, .runs = vector / unit, .run_bytes = unit, .token_step = unit, .run_step = unit * tokens};
  keys.scales = {.offset = vector * tokens, .runs = scales, .run_bytes = 2, .token_step = 2, .run_step = 2 * tokens};
  values.values = {.offset = 0, .runs = 1, .run_bytes = vector, .token_step = vector};
  values.scales = {.offset = vector * tokens, .runs = 1, .run_bytes = 2 * scales, .token_step = 2 * scales};
  return layout;
}

class CpuBackend final : public ops::Backend {
 public:
  CpuBackend(ThreadPool& pool, const Kernels& kernels)
      : pool_(pool),
        product_(pool, kernels),
        rows_(pool, kernels.isa),
        name_("cpu/" + std::string(isa_name(kernels.isa))) {}

  const std::string& name() const override { return name_; }

  Result<void*> allocate(size_t bytes) override {
    // The size stands in front of the memory, for deallocate().
    if (bytes > std::numeric_limits<size_t>::max() / 2) return out_of_memory(bytes, "buffers");
    auto* memory = static_cast<std::byte*>(allocate_pages(bytes + kHeader));
    if (memory == nullptr) return out_of_memory(bytes, "buffers");
    const size_t total = bytes + kHeader;
    std::memcpy(memory, &total, sizeof total);
    return static_cast<void*>(memory + kHeader);
  }
  void deallocate(void* memory) override {
    if (memory == nullptr) return;
    std::byte* start = static_cast<std::byte*>(memory) - kHeader;
    size_t total = 0;
    std::memcpy(&total, start, sizeof total);
    free_pages(start, total);
  }
  bool is_host_memory() const override { return true; }
  bool supports(ops::KvType) const override { return true; }
  bool shifts_keys() const override { return true; }
  std::optional<ops::KvLayout> kv_layout(const ops::KvGeometry& geometry) const override {
    return page_layout(geometry);
  }
  Result<void> copy_to_host(void* host, const void* device, size_t bytes) override {
    if (bytes != 0) std::memcpy(host, device, bytes);
    return {};
  }
  Result<void> copy_from_host(void* device, const void* host, size_t bytes) override {
    if (bytes != 0) std::memcpy(device, host, bytes);
    return {};
  }

  Result<void> copy(void* to, const void* from, size_t bytes) override { return copy_from_host(to, from, bytes); }

  void set_upload_progress(UploadProgress progress) override { progress_ = std::move(progress); }
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType type, int64_t rows, int64_t cols,
                                              std::span<const std::byte> data, ops::WeightUse use) override;

  Result<std::unique_ptr<ops::Rope>> create_rope(ops::RopeSpec spec) override {
    return std::unique_ptr<ops::Rope>(std::make_unique<CpuRope>(std::move(spec)));
  }

  void begin_step(const ops::Step& step) override {
    step_ = step;
    rows_.begin_step(step);
    failure_.reset();
  }
  void embed(const ops::EmbedParams& params) override { keep(product_.embed(step_.tokens, params)); }
  void norm(const ops::NormParams& params) override { rows_.norm(params); }
  void linear(const ops::LinearParams& params) override { keep(product_.linear(params)); }
  void gated(const ops::GatedParams& params) override { keep(product_.gated(params)); }
  void rope_kv(const ops::RopeKvParams& params) override { keep(rows_.rope_kv(params)); }
  void attention(const ops::AttentionParams& params) override { keep(rows_.attention(params)); }
  void logits(const ops::LogitsParams& params) override { keep(product_.logits(params)); }
  Result<void> end_step() override {
    if (failure_) return *std::exchange(failure_, std::nullopt);
    return {};
  }

 private:
  static constexpr size_t kHeader = 64;

  void keep(Result<void> result) {
    if (!result && !failure_) failure_ = result.error();
  }
  std::byte* take_from_arena(size_t bytes, std::shared_ptr<Arena>& owner);

  ThreadPool& pool_;
  MatrixProduct product_;
  RowOps rows_;
  std::string name_;
  UploadProgress progress_;
  std::weak_ptr<Arena> arena_;  // the one with most room; weights own it
  ops::Step step_;
  std::optional<Error> failure_;
};

std::byte* CpuBackend::take_from_arena(size_t bytes, std::shared_ptr<Arena>& owner) {
  const std::shared_ptr<Arena> current = arena_.lock();
  if (current != nullptr) {
    if (std::byte* memory = current->take(bytes)) {
      owner = current;
      return memory;
    }
  }
  owner = Arena::create(std::max(kArenaBytes, bytes));
  if (owner == nullptr) owner = Arena::create(bytes);
  if (owner == nullptr) return nullptr;
  std::byte* memory = owner->take(bytes);
  if (current == nullptr || owner->left() > current->left()) arena_ = owner;
  return memory;
}

Result<std::unique_ptr<ops::Weight>> CpuBackend::upload(ops::TensorType type, int64_t rows, int64_t cols,
                                                        std::span<const std::byte> data, ops::WeightUse) {
  const formats::TypeTraits* traits = formats::type_traits(static_cast<uint32_t>(type));
  if (traits == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED_TYPE, "The CPU backend cannot compute with " +
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
  auto weight = std::make_unique<PackedWeight>();
  weight->type = type;
  weight->rows = rows;
  weight->cols = cols;
  weight->form = form_of(type);
  weight->panel_bytes = panel_bytes(weight->form, cols);
  weight->bytes = weight->panel_bytes * static_cast<size_t>(weight->panel_count());
  auto* panels = reinterpret_cast<uint8_t*>(take_from_arena(weight->bytes, weight->arena));
  if (panels == nullptr) return out_of_memory(weight->bytes, "weights");
  weight->panels = panels;
  const int64_t count = weight->panel_count();
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kPackBytes / weight->panel_bytes));
  for (int64_t first = 0; first < count; first += step) {
    pool_.for_each(static_cast<int32_t>(std::min(step, count - first)), [&](int32_t unit, int32_t) {
      const int64_t panel = first + unit;
      pack_panel(type, rows, cols, data.data(), panel, panels + static_cast<size_t>(panel) * weight->panel_bytes);
    });
    const auto fraction = static_cast<float>(std::min(count, first + step)) / static_cast<float>(count);
    if (progress_ && !progress_(fraction)) {
      return Error{BANTER_ERROR_CANCELLED, "Loading was cancelled while weights were packed."};
    }
  }
  return std::unique_ptr<ops::Weight>(std::move(weight));
}

struct IsaList {
  Isa sets[4];
  size_t count = 0;
};

IsaList detect() {
  const CpuFeatures features = cpu_features();
  IsaList list;
  list.sets[list.count++] = Isa::kScalar;
  if (features.avx2) list.sets[list.count++] = Isa::kAvx2;
  if (features.avx512) list.sets[list.count++] = Isa::kAvx512;
  if (features.avx512_vnni) list.sets[list.count++] = Isa::kAvx512Vnni;
  return list;
}

}  // namespace

const Kernels& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return scalar_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kAvx512:
      return avx512_kernels();
    case Isa::kAvx512Vnni:
      return avx512_vnni_kernels();
  }
  return scalar_kernels();
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
  }
  return "scalar";
}

std::span<const Isa> available_isas() {
  static const IsaList list = detect();
  return {list.sets, list.count};
}

Isa best_isa() {
  const std::span<const Isa> available = available_isas();
  const char* cap = std::getenv("BANTER_CPU_ISA");
  if (cap != nullptr) {
    for (const Isa isa : available) {
      if (isa_name(isa) == cap) return isa;
    }
  }
  return available.back();
}

Result<std::unique_ptr<ops::Backend>> create_backend(ThreadPool& pool, Isa isa) {
  const std::span<const Isa> available = available_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end()) {
    return Error{BANTER_ERROR_UNSUPPORTED, "This processor has no " + std::string(isa_name(isa)) + "; choose " +
                                               std::string(isa_name(available.back())) + " or a weaker one."};
  }
  return std::unique_ptr<ops::Backend>(std::make_unique<CpuBackend>(pool, kernels_of(isa)));
}

}  // namespace banter::cpu
