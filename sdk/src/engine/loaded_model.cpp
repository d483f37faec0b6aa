#include "engine/loaded_model.h"

#include <algorithm>
#include <cstdio>

#include "base/byte_source.h"
#include "engine/host_io.h"
#include "formats/gguf.h"
#include "model/key_shift.h"

namespace banter::engine {
namespace {

constexpr uint64_t kDefaultConversations = 8;
constexpr uint64_t kDefaultKvLimit = uint64_t{1} << 30;
/** A pool that holds less than this of one conversation is of no use to anybody. */
constexpr int32_t kLeastContext = 32;

std::string megabytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

uint64_t tensor_bytes(const formats::Gguf& file) {
  uint64_t bytes = 0;
  for (const formats::GgufTensor& tensor : file.tensors()) bytes += tensor.bytes;
  return bytes;
}

/** Bytes of KV pages that one conversation of `tokens` tokens holds at most, page rounding aside. */
uint64_t conversation_bytes(std::span<const kv::GroupSpec> groups, int32_t tokens, int32_t chunk) {
  uint64_t bytes = 0;
  for (const kv::GroupSpec& group : groups) {
    const ops::KvGeometry geometry{group.type, group.layers, group.kv_heads, group.head_dim, 16};
    const int32_t held = group.window == 0 ? tokens : std::min(tokens, group.window + group.restorable + chunk + 16);
    bytes += geometry.bytes_per_token() * static_cast<uint64_t>(held + 15);
  }
  return bytes;
}

Result<void> create_pool(LoadedModel& loaded, const LoadSettings& settings) {
  const std::vector<kv::GroupSpec> groups = loaded.model->kv_groups();
  const int32_t wanted = loaded.model->context_length();
  uint64_t budget = settings.kv_budget_bytes;
  if (budget == 0) {
    const uint64_t one = conversation_bytes(groups, wanted, loaded.chunk_tokens);
    budget = std::max(std::min(one * kDefaultConversations, kDefaultKvLimit), std::min(one, 2 * kDefaultKvLimit));
    // A card that is nearly full rather keeps fewer conversations than none; some of it stays for the steps' own buffers.
    const auto free = loaded.backend->free_memory();
    if (free && *free - *free / 8 >= one) budget = std::min(budget, *free - *free / 8);
  }
  const uint64_t weights = loaded.model->weight_bytes();
  if (settings.memory_left != UINT64_MAX) {
    const uint64_t left = settings.memory_left > weights ? settings.memory_left - weights : 0;
    if (settings.kv_budget_bytes == 0) budget = std::min(budget, left);
    if (left == 0 || budget > left) {
      return Error{BANTER_ERROR_BUDGET_EXCEEDED,
                   "The model needs " + megabytes(weights) + " for weights and " + megabytes(budget) +
                       " for conversations, but only " + megabytes(settings.memory_left) +
                       " of the engine's memory budget are left; raise memory_budget_bytes or choose a smaller model."};
    }
  }
  auto pool = kv::PagePool::create(*loaded.backend, groups, budget);
  if (!pool) return pool.error();
  loaded.pool = std::move(*pool);
  auto prefixes = kv::PrefixIndex::create(*loaded.pool, settings.swap_budget_bytes);
  if (!prefixes) return prefixes.error();
  loaded.prefixes = std::move(*prefixes);
  loaded.prefixes->set_enabled(settings.share_prefixes);
  loaded.kv_bytes = static_cast<uint64_t>(loaded.pool->total_pages()) * loaded.pool->page_stride();
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].window != 0) continue;
    const ops::KvGeometry& geometry = loaded.pool->pages(static_cast<int32_t>(g)).geometry;
    loaded.kv_bytes_per_token += static_cast<uint32_t>(geometry.bytes_per_token());
  }
  loaded.context_tokens = tokens_that_fit(*loaded.pool, wanted, loaded.chunk_tokens);
  if (loaded.context_tokens < std::min(kLeastContext, wanted)) {
    return Error{BANTER_ERROR_BUDGET_EXCEEDED,
                 "A KV pool of " + megabytes(budget) + " holds no more than " + std::to_string(loaded.context_tokens) +
                     " tokens of this model; raise kv_budget_bytes to " +
                     megabytes(conversation_bytes(groups, wanted, loaded.chunk_tokens)) + " for a full context."};
  }
  if (loaded.context_tokens < wanted) {
    loaded.warn("The KV pool of " + megabytes(loaded.kv_bytes) + " holds conversations of " +
                std::to_string(loaded.context_tokens) + " tokens, not of " + std::to_string(wanted) +
                "; raise kv_budget_bytes for longer ones.");
  }
  return {};
}

/** Whether another backend may do what ended with this: the device is full, fails, or lacks a type. */
bool is_for_another_backend(banter_result code) {
  const banter_result kind = banter_result_class(code);
  return code != BANTER_ERROR_BUDGET_EXCEEDED &&
         (kind == BANTER_ERROR_OUT_OF_MEMORY || kind == BANTER_ERROR_BACKEND || kind == BANTER_ERROR_UNSUPPORTED);
}

/** Warns where INT4 pages probably spoil the model's words. */
Result<void> look_at_keys(LoadedModel& loaded, const formats::Gguf& file) {
  if (loaded.model->kv_type() != ops::KvType::kI4) return {};
  const model::Hyperparameters& hp = loaded.model->hyperparameters();
  auto left = model::key_bias_left(file, hp, model::can_shift_keys(hp, *loaded.backend));
  if (!left) return left.error();
  if (*left <= 1) return {};
  char times[32];
  std::snprintf(times, sizeof times, "%.1f", *left);
  loaded.warn(std::string("INT4 KV pages harm this model: the biases of its keys are up to ") + times +
              " times what tokens contribute to them; use INT8, or measure first with `banter perplexity --kv int4`.");
  return {};
}

/** Everything of the model but its threads, which must outlive it. */
Result<std::unique_ptr<LoadedModel>> load_on(BackendChoice backend, const formats::Gguf& file,
                                             const LoadSettings& settings, const model::LoadProgress& progress) {
  auto loaded = std::make_unique<LoadedModel>();
  loaded->backend = std::move(backend.backend);
  loaded->backend_reason = std::move(backend.reason);
  loaded->is_cuda = backend.is_cuda;

  model::LoadOptions options;
  options.context_length = settings.context_tokens;
  options.max_rows = settings.step_tokens;
  options.max_logit_rows = std::min(settings.step_tokens, settings.max_sequences);
  options.kv_type = settings.kv_type;
  auto model = model::Model::load(file, *loaded->backend, options, progress);
  if (!model) return model.error();
  loaded->model = std::move(*model);
  loaded->chunk_tokens = loaded->model->max_rows();
  auto fingerprint = model::fingerprint_of(file, *loaded->model);
  if (!fingerprint) return fingerprint.error();
  loaded->fingerprint = std::move(*fingerprint);

  auto format =
      dialogue::ChatFormat::create(loaded->model->tokenizer(), settings.chat_template, loaded->model->chat_template());
  if (!format) return format.error();
  loaded->format = std::move(*format);
  if (Result<void> made = create_pool(*loaded, settings); !made) return made.error();
  if (Result<void> looked = look_at_keys(*loaded, file); !looked) return looked.error();
  if (!loaded->format->template_problem().empty()) {
    loaded->warn("The model's chat template is not used: " + loaded->format->template_problem());
  }

  const text::Tokenizer& tokenizer = loaded->model->tokenizer();
  for (size_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_unused(static_cast<text::TokenId>(id))) {
      loaded->unused_tokens.push_back(static_cast<text::TokenId>(id));
    }
  }
  // Rows of the head behind the vocabulary (padding of the matrix) name no token either.
  for (auto id = static_cast<int32_t>(tokenizer.size()); id < loaded->model->hyperparameters().vocabulary; ++id) {
    loaded->unused_tokens.push_back(id);
  }
  loaded->workspace = sampling::make_workspace();
  return loaded;
}

}  // namespace

Result<formats::Gguf> open_source(const LoadSource& source) {
  if (!source.memory.empty()) {
    const auto no_parts = [](uint32_t, uint32_t) -> Result<std::shared_ptr<ByteSource>> {
      return Error{
          BANTER_ERROR_UNSUPPORTED,
          "The model in memory is one part of a split set; join the parts, or load them by path or callbacks."};
    };
    return formats::Gguf::open(borrow_memory(source.memory, "the model in memory"), no_parts);
  }
  if (source.io) return open_host_gguf(*source.io, source.path);
  return formats::Gguf::open(source.path);
}

void LoadedModel::warn(const std::string& sentence) {
  if (!warning.empty()) warning += ' ';
  warning += sentence;
}

int32_t tokens_that_fit(const kv::PagePool& pool, int32_t wanted, int32_t chunk) {
  int32_t low = 0, high = wanted;
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    if (pool.pages_for(middle, chunk) <= pool.total_pages()) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Result<std::unique_ptr<LoadedModel>> load_model(const LoadSource& source, const LoadSettings& settings,
                                                const model::LoadProgress& progress) {
  auto file = open_source(source);
  if (!file) return file.error();
  const uint64_t bytes = tensor_bytes(*file);
  if (bytes > settings.memory_left || settings.kv_budget_bytes > settings.memory_left - bytes) {
    return Error{BANTER_ERROR_BUDGET_EXCEEDED,
                 "The model's weights take " + megabytes(bytes) + ", but only " + megabytes(settings.memory_left) +
                     " of the engine's memory budget are left; raise memory_budget_bytes or choose a smaller model."};
  }

  auto threads = ThreadPool::create(settings.threads);
  if (!threads) return threads.error();
  const uint64_t limit = settings.memory_left == UINT64_MAX ? 0 : settings.memory_left;
  auto backend = choose_backend(settings.backend, settings.cuda, **threads, limit, settings.log);
  if (!backend) return backend.error();
  const bool may_change = settings.backend == BANTER_BACKEND_AUTO && backend->is_cuda;
  auto loaded = load_on(std::move(*backend), *file, settings, progress);
  if (!loaded && may_change && is_for_another_backend(loaded.error().code)) {
    std::string reason = "CUDA is not used: " + loaded.error().message;
    settings.log.write(BANTER_LOG_WARNING, reason);
    backend = create_cpu_backend(**threads, std::move(reason));
    if (!backend) return backend.error();
    loaded = load_on(std::move(*backend), *file, settings, progress);
  }
  if (loaded) (*loaded)->threads = std::move(*threads);
  return loaded;
}

}  // namespace banter::engine
