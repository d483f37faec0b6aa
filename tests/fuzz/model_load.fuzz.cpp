// A GGUF file as a model: reading hyper-parameters, binding tensors and loading must end with a model or an error; a
// model that loads must run a few tokens, whatever its numbers are.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kv/page_pool.h"
#include "model/model.h"
#include "ops/reference.h"

namespace {

using namespace banter;

void require(bool condition) {
  if (!condition) std::abort();
}

/** Runs everything on the caller. */
class InlinePool final : public ThreadPool {
 public:
  int32_t threads() const override { return 1; }
  void run(int32_t units, Body body, void* context) override {
    for (int32_t unit = 0; unit < units; ++unit) body(context, unit, 0);
  }
};

void run_tokens(model::Model& model, ops::Backend& backend) {
  std::vector<kv::GroupSpec> groups = model.kv_groups();
  size_t budget = 0;
  for (const ops::KvGeometry& geometry : kv::plan_geometry(groups)) budget += 4 * (geometry.page_bytes() + 64);
  if (budget > (size_t{1} << 24)) return;  // wide heads: right, but too slow to fuzz
  const Result<std::unique_ptr<kv::PagePool>> pool = kv::PagePool::create(backend, std::move(groups), budget);
  require(static_cast<bool>(pool));
  kv::SequenceCache cache(**pool, model.context_length());
  const std::vector<int32_t> tokens(2, model.hyperparameters().vocabulary - 1);
  for (int step = 0; step < 3 && cache.reserve(2); ++step) {
    model::Batch batch;
    batch.chunks.push_back({&cache, tokens, model::LogitRows::kLast});
    const Result<std::span<float>> logits = model.forward(**pool, batch);
    require(static_cast<bool>(logits));
    require(logits->size() == static_cast<size_t>(model.hyperparameters().vocabulary));
  }
  cache.clear();
  require((*pool)->free_pages() == (*pool)->total_pages());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto source = borrow_memory({reinterpret_cast<const std::byte*>(bytes), size}, "fuzz");
  const Result<formats::Gguf> file = formats::Gguf::open(source, {});
  if (!file) return 0;
  InlinePool threads;
  const std::unique_ptr<ops::Backend> backend = std::move(*ops::create_reference_backend(threads));
  const Result<std::unique_ptr<model::Model>> model =
      model::Model::load(*file, *backend, {.max_rows = 4, .max_logit_rows = 2}, {});
  if (model) {
    run_tokens(**model, *backend);
  } else {
    require(model.error().code != BANTER_OK && !model.error().message.empty());
  }
  return 0;
}
