#include "backend_cuda/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backend_cuda/context.h"
#include "backend_cuda/executor.h"
#include "backend_cuda/graph_cache.h"
#include "backend_cuda/guard.h"
#include "backend_cuda/kv_device.h"
#include "backend_cuda/memory.h"
#include "backend_cuda/program.h"
#include "backend_cuda/rope.h"
#include "backend_cuda/step_upload.h"
#include "backend_cuda/weight_upload.h"

namespace banter::cuda {
namespace {

constexpr size_t kCopyBytes = size_t{4} << 20;

const DeviceWeight* device_weight(const ops::Weight* weight) {
  return static_cast<const DeviceWeight*>(weight);
}

PagesOp pages_op(const ops::KvPages* pages) {
  if (pages == nullptr) return {};
  const ops::KvGeometry& g = pages->geometry;
  const int32_t shift = pages->slabs == nullptr ? kWholeSlab : pages->slab_shift;
  return {pages->page_stride, shift, pages->group, g.type, g.layers, g.kv_heads, g.head_dim, g.page_tokens};
}

class CudaBackend final : public ops::Backend {
 public:
  CudaBackend(ThreadPool& pool, const DeviceChoice& choice, std::shared_ptr<const Context> context)
      : context_(std::move(context)),
        name_("cuda/sm_" + std::to_string(choice.compute_capability)),
        executor_({choice.compute_capability, choice.multiprocessors}),
        weights_(pool, stream_, context_) {}
  ~CudaBackend() override {
    if (last_.emplace(*context_).is_lost()) abandon();
  }

  Result<void> create() {
    const Current here(*context_);
    if (!here) return here.error();
    if (Result<void> found = find_own_kernels(); !found) return found;
    if (Result<void> made = stream_.create(); !made) return made;
    if (Result<void> made = done_.create(); !made) return made;
    return staging_.allocate(kCopyBytes, "staging");
  }

  const std::string& name() const override { return name_; }

  Result<void*> allocate(size_t bytes) override {
    return guarded([&]() -> Result<void*> {
      const Current here(*context_);
      if (!here) return here.error();
      DeviceMemory memory;
      if (Result<void> made = memory.allocate(std::max<size_t>(bytes, 1), "buffers"); !made) return made.error();
      void* const start = memory.as();
      allocated_.push_back(std::move(memory));
      return start;
    });
  }
  void deallocate(void* memory) override {
    if (memory == nullptr) return;
    const Current here(*context_);
    if (here.is_lost()) return;  // the destructor sees to it
    // A copy of pages may be under way.
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
    std::erase_if(allocated_, [&](const DeviceMemory& each) { return each.as<void>() == memory; });
    graphs_.clear();  // they may name it
  }
  bool is_host_memory() const override { return false; }
  std::optional<uint64_t> free_memory() const override {
    const Current here(*context_);
    size_t free = 0, total = 0;
    if (here && cudaMemGetInfo(&free, &total) == cudaSuccess) return free;
    if (here) static_cast<void>(cudaGetLastError());  // whoever allocates will hear of it
    return std::nullopt;
  }
  Result<void> copy_to_host(void* host, const void* device, size_t bytes) override {
    return guarded([&] { return receive(host, device, bytes); });
  }
  Result<void> copy_from_host(void* device, const void* host, size_t bytes) override {
    return guarded([&] { return send(device, host, bytes); });
  }
  Result<void> copy(void* to, const void* from, size_t bytes) override {
    return guarded([&]() -> Result<void> {
      const Current here(*context_);
      if (!here) return here.error();
      return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()), "copying pages");
    });
  }

  bool supports(ops::KvType type) const override { return type != ops::KvType::kF32; }
  bool supports_heads(ops::KvType type, int32_t head_dim) const override { return kv_heads_are_served(type, head_dim); }

  bool shifts_keys() const override { return true; }
  std::optional<ops::KvLayout> kv_layout(const ops::KvGeometry& geometry) const override;

  void set_upload_progress(UploadProgress progress) override {
    // A copy (backend_plugin.h). Without memory for it nobody is told of progress.
    guarded([&] { progress_ = progress; }, [&](banter_result, const char*) { progress_ = nullptr; });
  }
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType type, int64_t rows, int64_t cols,
                                              std::span<const std::byte> data, ops::WeightUse) override {
    return guarded([&]() -> Result<std::unique_ptr<ops::Weight>> {
      const Current here(*context_);
      if (!here) return here.error();
      graphs_.clear();  // they know weights by their addresses, and this one's may be a freed one's
      return weights_.upload(type, rows, cols, data, progress_);
    });
  }
  Result<std::unique_ptr<ops::Rope>> create_rope(ops::RopeSpec spec) override {
    return guarded([&] { return make_rope(spec); });
  }

  void begin_step(const ops::Step& step) override {
    step_ = step;
    program_.clear();
    pages_.clear();
    logit_rows_ = {};
    recorded_ = {};
  }
  void embed(const ops::EmbedParams& p) override {
    record([&] { return EmbedOp{device_weight(p.table), p.out, p.scale}; });
  }
  void norm(const ops::NormParams& p) override {
    record([&] { return NormOp{p.residual, p.delta, p.delta_norm, p.norm, p.out, counted(p.rows), p.dim, p.epsilon}; });
  }
  void linear(const ops::LinearParams& p) override;
  void gated(const ops::GatedParams& p) override {
    record(
        [&] { return GatedOp{device_weight(p.gate), device_weight(p.up), p.x, p.out, counted(p.rows), p.activation}; });
  }
  void rope_kv(const ops::RopeKvParams& p) override {
    record([&] {
      use(p.kv);
      use(p.recent);
      return RopeKvOp{p.q,
                      p.k,
                      p.v,
                      p.q_norm,
                      p.k_norm,
                      p.k_shift,
                      p.epsilon,
                      static_cast<const CudaRope*>(p.rope),
                      p.heads,
                      p.layer,
                      pages_op(p.kv),
                      pages_op(p.recent)};
    });
  }
  void attention(const ops::AttentionParams& p) override {
    record([&] {
      use(p.kv);
      use(p.recent);
      return AttentionOp{p.q,     p.out,     p.heads,        p.layer,           p.window,
                         p.scale, p.softcap, pages_op(p.kv), pages_op(p.recent)};
    });
  }
  void logits(const ops::LogitsParams& p) override {
    logit_rows_ = p.row_indices;
    record([&] { return LogitsOp{device_weight(p.head), p.x, p.logits, p.softcap}; });
  }
  bool finds_best_logits() const override { return true; }
  void best_logits() override {
    record([&] {
      const auto& logits = std::get<LogitsOp>(program_.back());
      return BestLogitsOp{logits.logits, static_cast<int32_t>(logits.head->rows)};
    });
  }
  ops::BestLogits best_row(int32_t i) const override {
    const BestRow& row = best_.as<const BestRow>()[i];
    const auto count = static_cast<size_t>(row.count);
    return {{row.ids, count}, {row.logits, count}, row.rest};
  }
  Result<void> end_step() override;

 private:
  /** Adds what `op` returns to the step, unless that failed before: what fails first is kept for end_step(). */
  template <class F>
  void record(F&& op) noexcept {
    if (!recorded_) return;
    recorded_ = guarded([&]() -> Result<void> {
      program_.push_back(op());
      return {};
    });
  }
  /** Forgets all that was made in a context which is gone. */
  void abandon() {
    stream_.abandon();
    done_.abandon();
    staging_.abandon();
    best_.abandon();
    for (DeviceMemory& memory : allocated_) memory.abandon();
    executor_.abandon();
    upload_.abandon();
    graphs_.abandon();
    weights_.abandon();
  }
  Result<void> find_own_kernels();
  int32_t counted(int32_t rows) const { return rows == step_.rows() ? kAllRows : rows; }
  void use(const ops::KvPages* pages) {
    if (pages != nullptr) pages_.add(*pages);
  }
  Result<void> receive(void* host, const void* device, size_t bytes);
  Result<void> send(void* device, const void* host, size_t bytes);
  Result<std::unique_ptr<ops::Rope>> make_rope(const ops::RopeSpec& spec);
  bool can_be_graph(const StepShape& shape) const;
  Result<void> run_step();
  Result<void> fetch_best();

  const std::shared_ptr<const Context> context_;
  const std::string name_;
  std::optional<Current> last_;  // the members below are destroyed in it
  Stream stream_;
  Event done_;
  PinnedMemory staging_, best_;
  std::vector<DeviceMemory> allocated_;
  Executor executor_;
  StepUpload upload_;
  GraphCache graphs_;
  WeightUpload weights_;
  UploadProgress progress_;
  int32_t graph_generation_ = 0;

  ops::Step step_;
  Program program_;
  Result<void> recorded_;
  PageSources pages_;
  std::span<const int32_t> logit_rows_;
};

/** UNSUPPORTED where this build, or the driver, has no code for the card. */
Result<void> CudaBackend::find_own_kernels() {
  int32_t capability = 0;
  const cudaError_t status = find_kernels(capability);
  if (status == cudaSuccess) {
    executor_.limit(capability);
    return {};
  }
  static_cast<void>(cudaGetLastError());
  switch (status) {
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
      return Error{BANTER_ERROR_UNSUPPORTED, "This build of the CUDA backend has no kernels for " + name_ +
                                                 "; build it with that architecture in CMAKE_CUDA_ARCHITECTURES. (" +
                                                 cudaGetErrorString(status) + ".)"};
    default:
      return check(status, "looking for the kernels");
  }
}

Result<void> CudaBackend::receive(void* host, const void* device, size_t bytes) {
  const Current here(*context_);
  if (!here) return here.error();
  for (size_t at = 0; at < bytes; at += kCopyBytes) {
    const size_t now = std::min(kCopyBytes, bytes - at);
    const auto* const from = static_cast<const std::byte*>(device) + at;
    Result<void> copied = check(cudaMemcpyAsync(staging_.as(), from, now, cudaMemcpyDeviceToHost, stream_.get()),
                                "copying from the card");
    if (copied) copied = check(cudaStreamSynchronize(stream_.get()), "copying from the card");
    if (!copied) return copied;
    std::memcpy(static_cast<std::byte*>(host) + at, staging_.as(), now);
  }
  return {};
}

Result<void> CudaBackend::send(void* device, const void* host, size_t bytes) {
  const Current here(*context_);
  if (!here) return here.error();
  for (size_t at = 0; at < bytes; at += kCopyBytes) {
    const size_t now = std::min(kCopyBytes, bytes - at);
    std::memcpy(staging_.as(), static_cast<const std::byte*>(host) + at, now);
    auto* const to = static_cast<std::byte*>(device) + at;
    Result<void> copied =
        check(cudaMemcpyAsync(to, staging_.as(), now, cudaMemcpyHostToDevice, stream_.get()), "copying to the card");
    if (copied) copied = check(cudaStreamSynchronize(stream_.get()), "copying to the card");
    if (!copied) return copied;
  }
  return {};
}

/** As kv_device.h says. */
std::optional<ops::KvLayout> CudaBackend::kv_layout(const ops::KvGeometry& geometry) const {
  const auto scales = 2 * static_cast<size_t>(ops::kv_scales(geometry.type, geometry.head_dim));
  const size_t vector = ops::kv_vector_bytes(geometry.type, geometry.head_dim) - scales;
  const ops::KvLayout::Region region = {.values = {.offset = 0, .runs = 1, .run_bytes = vector, .token_step = vector},
                                        .scales = {.offset = vector * static_cast<size_t>(geometry.page_tokens),
                                                   .runs = 1,
                                                   .run_bytes = scales,
                                                   .token_step = scales}};
  return ops::KvLayout{{region, region}};
}

Result<std::unique_ptr<ops::Rope>> CudaBackend::make_rope(const ops::RopeSpec& spec) {
  auto rope = std::make_unique<CudaRope>(context_);
  rope->pairs = static_cast<int32_t>(spec.inverse_frequency.size());
  rope->adjacent_pairs = spec.adjacent_pairs;
  std::vector<float> table;
  table.reserve(2 * spec.inverse_frequency.size() * static_cast<size_t>(spec.max_positions));
  for (int32_t p = 0; p < spec.max_positions; ++p) {
    for (const double frequency : spec.inverse_frequency) {
      const double angle = p * frequency;
      table.push_back(static_cast<float>(std::cos(angle) * spec.magnitude));
      table.push_back(static_cast<float>(std::sin(angle) * spec.magnitude));
    }
  }
  const size_t bytes = table.size() * sizeof(float);
  const Current here(*context_);
  if (!here) return here.error();
  if (Result<void> made = rope->table.allocate(std::max<size_t>(bytes, 1), "the rotary table"); !made) {
    return made.error();
  }
  if (Result<void> sent = copy_from_host(rope->table.as(), table.data(), bytes); !sent) return sent.error();
  graphs_.clear();  // as in upload()
  return std::unique_ptr<ops::Rope>(std::move(rope));
}

void CudaBackend::linear(const ops::LinearParams& p) {
  constexpr size_t kMost = std::size(LinearOp{}.weights);
  for (size_t first = 0; first < p.targets.size(); first += kMost) {
    LinearOp op{};
    op.x = p.x;
    op.rows = counted(p.rows);
    op.targets = static_cast<int32_t>(std::min(kMost, p.targets.size() - first));
    for (size_t t = 0; t < static_cast<size_t>(op.targets); ++t) {
      const ops::LinearTarget& target = p.targets[first + t];
      op.weights[t] = device_weight(target.weight);
      op.biases[t] = target.bias;
      op.ys[t] = target.y;
    }
    record([&] { return op; });
  }
}

bool CudaBackend::can_be_graph(const StepShape& shape) const {
  if (!shape.is_decode || graph_rows(shape.rows) == 0) return false;
  return std::none_of(program_.begin(), program_.end(), [](const Op& op) {
    const auto all = [](const auto* each) { return each == nullptr || each->rows == kAllRows; };
    return !all(std::get_if<NormOp>(&op)) || !all(std::get_if<LinearOp>(&op)) || !all(std::get_if<GatedOp>(&op));
  });
}

Result<void> CudaBackend::run_step() {
  const StepShape shape = upload_.measure(step_, logit_rows_);
  StepShape grid = shape;
  const bool graph = can_be_graph(shape);
  if (graph) {
    grid.rows = grid.logit_rows = grid.tiles = graph_rows(shape.rows);
    while (grid.splits & (grid.splits - 1)) ++grid.splits;  // powers of two, so that few graphs serve all lengths
  }
  if (Result<void> room = executor_.prepare(program_, grid); !room) return room;
  if (Result<void> sent = upload_.send(step_, logit_rows_, pages_, stream_); !sent) return sent;
  if (!graph) return executor_.issue(program_, grid, false, upload_, pages_, stream_.get());
  const int32_t generation = upload_.generation() + executor_.generation();
  if (generation != graph_generation_) graphs_.clear();
  graph_generation_ = generation;
  return graphs_.run(program_, grid, stream_,
                     [&](KernelQueue queue) { return executor_.issue(program_, grid, true, upload_, pages_, queue); });
}

Result<void> CudaBackend::fetch_best() {
  if (program_.empty() || !std::holds_alternative<BestLogitsOp>(program_.back())) return {};
  const size_t bytes = logit_rows_.size() * sizeof(BestRow);
  if (bytes > best_.bytes()) {
    if (Result<void> made = best_.allocate(bytes, "the best logits"); !made) return made;
  }
  return check(cudaMemcpyAsync(best_.as(), executor_.best_rows(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
               "fetching the best logits");
}

Result<void> CudaBackend::end_step() {
  const Current here(*context_);
  Result<void> outcome = std::exchange(recorded_, {});
  if (!here) {
    if (outcome) outcome = guarded([&]() -> Result<void> { return here.error(); });
    step_ = {};
    return outcome;
  }
  if (outcome) outcome = guarded([&] { return run_step(); });
  if (outcome) outcome = guarded([&] { return fetch_best(); });
  // Waited for in any case: the step's data must not change under kernels that were queued before something failed.
  Result<void> waited = guarded([&]() -> Result<void> {
    Result<void> recorded = done_.record(stream_);
    return recorded ? done_.wait() : recorded;
  });
  if (outcome) outcome = std::move(waited);
  step_ = {};
  return outcome;
}

}  // namespace

Result<std::unique_ptr<ops::Backend>> create_backend(ThreadPool& pool, int32_t device,
                                                     const banter_cuda_context* context) {
  const Result<DeviceChoice> choice = choose_device(device, context);
  if (!choice) return choice.error();
  Result<std::shared_ptr<const Context>> opened = Context::open(*choice, context);
  if (!opened) return opened.error();
  auto backend = std::make_unique<CudaBackend>(pool, *choice, std::move(*opened));
  if (Result<void> made = backend->create(); !made) return made.error();
  return std::unique_ptr<ops::Backend>(std::move(backend));
}

}  // namespace banter::cuda
