// A model on a backend, without an engine: for commands that measure the model itself (logits, perplexity).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend_options.h"
#include "base/thread_pool.h"
#include "kv/page_pool.h"
#include "model/model.h"
#include "ops/backend.h"

namespace banter::tools {

/** Options that every command with a bare model has. */
struct ModelOptions {
  std::string model;
  BackendOptions device;
  int32_t threads = 0;  // 0: default_thread_count()
  std::string kv;       // "" or a name of ops::kv_type_name()
};
void add_model_options(CLI::App& app, ModelOptions& options);

/** Threads, backend, model and a KV pool for one sequence. One thread; members live in this order. */
struct ModelSession {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<kv::PagePool> pool;

  /** Computes `tokens` behind what `cache` holds and calls `take(row, logits)` for the last `rows_wanted` of them, `row`
   *  counting from the first token. The chunking does not change the numbers. Errors: those of Model::forward. */
  template <class Take>
  Result<void> run(kv::SequenceCache& cache, std::span<const model::TokenId> tokens, size_t rows_wanted, Take&& take);
};

/** Opens, loads with a progress line on stderr when that is a terminal, and makes a pool for one sequence of
 *  `context_length` tokens (0 = the model's own context, at most 8192). The reason of a failure is printed on stderr and
 *  nullopt returned. */
std::optional<ModelSession> open_model(const ModelOptions& options, int32_t context_length);

/** −log softmax(logits)[token], natural, in float64. */
double negative_log_likelihood(std::span<const float> logits, model::TokenId token);

/** Prints "banter COMMAND: MESSAGE" on stderr; returns 1, an exit code. */
int report_failure(const char* command, const std::string& message);

template <class Take>
Result<void> ModelSession::run(kv::SequenceCache& cache, std::span<const model::TokenId> tokens, size_t rows_wanted,
                               Take&& take) {
  const size_t first_wanted = tokens.size() - std::min(rows_wanted, tokens.size());
  const size_t vocabulary = static_cast<size_t>(model->hyperparameters().vocabulary);
  model::Batch batch;
  batch.chunks.resize(1);
  for (size_t done = 0; done < tokens.size();) {
    const bool wanted = done >= first_wanted;
    const size_t end = wanted ? tokens.size() : first_wanted;
    const size_t limit = static_cast<size_t>(wanted ? model->max_logit_rows() : model->max_rows());
    const size_t count = std::min(end - done, limit);
    batch.chunks[0] = {&cache, tokens.subspan(done, count), wanted ? model::LogitRows::kAll : model::LogitRows::kNone};
    if (Result<void> reserved = cache.reserve(static_cast<int32_t>(count)); !reserved) return reserved;
    const Result<std::span<float>> logits = model->forward(*pool, batch);
    if (!logits) return logits.error();
    for (size_t row = 0; wanted && row < count; ++row) {
      take(done + row, std::span<const float>(logits->subspan(row * vocabulary, vocabulary)));
    }
    done += count;
  }
  return {};
}

}  // namespace banter::tools
