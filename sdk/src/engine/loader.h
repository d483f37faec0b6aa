// Loads one model at a time on a thread of its own, so that the engine thread goes on talking.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/signal.h"

namespace banter::engine {

/** Used by the engine thread. Its thread exists only while something loads. */
class Loader {
 public:
  /** `signal` is posted on progress and at the end. */
  explicit Loader(Signal& signal) : signal_(signal) {}
  ~Loader() { stop(); }

  bool busy() const { return job_ != nullptr; }
  /** Starts; `source` and `settings` are copied. Not while busy. Errors: OUT_OF_MEMORY (no thread). */
  Result<void> start(const LoadSource& source, const LoadSettings& settings, const ThreadPoolConfig& own_thread);
  /** Asks the load to end soon; it then finishes with CANCELLED unless it was done before. */
  void cancel();
  float progress() const;
  bool finished() const;
  /** The outcome of a finished load; the loader is free again. */
  Result<std::unique_ptr<LoadedModel>> take();
  /** Cancels and waits. */
  void stop();

 private:
  struct Job {
    LoadSource source;
    LoadSettings settings;
    ThreadPoolConfig own_thread;
    std::atomic<bool> cancel{false}, finished{false};
    std::atomic<float> progress{0};
    std::optional<Result<std::unique_ptr<LoadedModel>>> outcome;
    std::thread thread;
  };
  void work(Job& job);

  Signal& signal_;
  std::unique_ptr<Job> job_;
};

}  // namespace banter::engine
