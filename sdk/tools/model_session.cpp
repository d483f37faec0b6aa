#include "model_session.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "engine/backend_loader.h"
#include "formats/gguf.h"

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace banter::tools {

namespace {

// Logits of 128 rows of the largest vocabularies take 128 MiB; fewer rows would leave matrix kernels half idle.
constexpr int32_t kMaxLogitRows = 128;

bool stderr_is_terminal() {
#ifdef _WIN32
  return _isatty(2) != 0;
#else
  return isatty(2) != 0;
#endif
}

Result<ModelSession> open(const ModelOptions& options, int32_t context_length) {
  ModelSession session;
  const int32_t count = options.threads > 0 ? options.threads : default_thread_count();
  Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create({.threads = count, .low_priority = false});
  if (!threads) return threads.error();
  session.threads = std::move(*threads);
  auto backend = engine::choose_backend(options.device.kind(), options.device.cuda(), *session.threads, 0, {});
  if (!backend) return backend.error();
  session.backend = std::move(backend->backend);

  const Result<formats::Gguf> file = formats::Gguf::open(options.model);
  if (!file) return file.error();
  const bool shows = stderr_is_terminal();
  int shown = -1;
  const auto progress = [&](float fraction) {
    const int percent = static_cast<int>(fraction * 100.0f);
    if (shows && percent != shown) std::fprintf(stderr, "\rloading %3d %%", shown = percent);
    return true;
  };
  model::LoadOptions load;
  load.context_length = context_length;
  load.max_logit_rows = kMaxLogitRows;
  for (int type = 0; type < ops::kKvTypes; ++type) {
    if (options.kv == ops::kv_type_name(static_cast<ops::KvType>(type))) load.kv_type = static_cast<ops::KvType>(type);
  }
  Result<std::unique_ptr<model::Model>> loaded = model::Model::load(*file, *session.backend, load, progress);
  if (shows && shown >= 0) std::fprintf(stderr, "\r\033[K");
  if (!loaded) return loaded.error();
  session.model = std::move(*loaded);

  // One sequence in every group, computed in the largest chunks, and a page more where a window's ends are unaligned.
  const std::vector<kv::GroupSpec> groups = session.model->kv_groups();
  size_t pages = 0, stride = 0;
  for (const ops::KvGeometry& geometry : kv::plan_geometry(groups)) {
    pages += static_cast<size_t>(session.model->context_length() / geometry.page_tokens) + 2;
    stride = std::max(stride, geometry.page_bytes() + 64);
  }
  Result<std::unique_ptr<kv::PagePool>> pool = kv::PagePool::create(*session.backend, groups, pages * stride);
  if (!pool) return pool.error();
  session.pool = std::move(*pool);
  return session;
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("--model,-m", options.model, "a GGUF file")->required()->envname("BANTER_MODEL");
  add_backend_options(app, options.device);
  app.add_option("--threads", options.threads, "worker threads; 0: as many as suit the machine")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--kv", options.kv,
                 "how keys and values are kept: f16, bf16, f32, int8, int4; default: as suits the model")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "int8", "int4"}));
}

std::optional<ModelSession> open_model(const ModelOptions& options, int32_t context_length) {
  Result<ModelSession> session = open(options, context_length);
  if (session) return std::move(*session);
  std::fprintf(stderr, "banter: %s\n", session.error().message.c_str());
  return {};
}

double negative_log_likelihood(std::span<const float> logits, model::TokenId token) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return std::log(sum) + highest - logits[static_cast<size_t>(token)];
}

int report_failure(const char* command, const std::string& message) {
  std::fprintf(stderr, "banter %s: %s\n", command, message.c_str());
  return 1;
}

}  // namespace banter::tools
