#include "engine/loader.h"

#include "engine/guard.h"

namespace banter::engine {

Result<void> Loader::start(const LoadSource& source, const LoadSettings& settings, const ThreadPoolConfig& own_thread) {
  return guarded([&]() -> Result<void> {
    auto job = std::make_unique<Job>();
    job->source = source;
    job->settings = settings;
    job->own_thread = own_thread;
    Job* const raw = job.get();
    job->thread = std::thread([this, raw] { work(*raw); });
    job_ = std::move(job);
    return {};
  });
}

void Loader::work(Job& job) {
  configure_this_thread("banter-load", job.own_thread.affinity_mask, job.own_thread.low_priority);
  const auto on_progress = [&](float fraction) {
    const float shown = job.progress.load(std::memory_order_relaxed);
    if (fraction >= shown + 0.01f || fraction >= 1.0f) {
      job.progress.store(fraction, std::memory_order_relaxed);
      signal_.post();
    }
    return !job.cancel.load(std::memory_order_relaxed);
  };
  job.outcome.emplace(guarded([&] { return load_model(job.source, job.settings, on_progress); }));
  job.finished.store(true, std::memory_order_release);
  signal_.post();
}

void Loader::cancel() {
  if (job_ != nullptr) job_->cancel.store(true, std::memory_order_relaxed);
}

float Loader::progress() const {
  return job_ == nullptr ? 0.0f : job_->progress.load(std::memory_order_relaxed);
}

bool Loader::finished() const {
  return job_ != nullptr && job_->finished.load(std::memory_order_acquire);
}

Result<std::unique_ptr<LoadedModel>> Loader::take() {
  job_->thread.join();
  Result<std::unique_ptr<LoadedModel>> outcome = std::move(*job_->outcome);
  job_.reset();
  return outcome;
}

void Loader::stop() {
  if (job_ == nullptr) return;
  cancel();
  job_->thread.join();
  job_.reset();
}

}  // namespace banter::engine
