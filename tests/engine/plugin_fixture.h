// Engines whose CUDA library is the tests' plugin.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/test_host.h"

namespace banter::test {

inline constexpr const char* kPlugin = BANTER_TEST_PLUGIN_FILE;

/** Log lines, and an engine whose CUDA library is the test's plugin with the given faults. */
class PluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("BANTER_CUDA_LIBRARY");
    spoil("");
  }
  void TearDown() override { unsetenv("BANTER_TEST_PLUGIN"); }
  static void spoil(const char* faults) { setenv("BANTER_TEST_PLUGIN", faults, 1); }

  std::unique_ptr<Host> host(banter_backend backend, const char* path = kPlugin,
                             const std::function<void(banter_engine_config&)>& change = nullptr) {
    return std::make_unique<Host>([&](banter_engine_config& config) {
      config.backend = backend;
      config.cuda_library_path = path;
      config.log = [](banter_log_level level, const char* message, void* self) {
        auto* const test = static_cast<PluginTest*>(self);
        const std::lock_guard lock(test->mutex_);
        test->log_.append(level == BANTER_LOG_WARNING ? "warning: " : "").append(message).append("\n");
      };
      config.log_user_data = this;
      if (change) change(config);
    });
  }
  /** Loads, which may fail. */
  Outcome load(Host& host) {
    model_ = nullptr;
    return host.finish(host.start_load(bytes_, &model_));
  }
  banter_model_info info() { return info_of(model_); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  void clear_log() {
    const std::lock_guard lock(mutex_);
    log_.clear();
  }
  std::string greeting(Host& host) { return host.finish(say(host.npc(model_), "Hello", Ask(12, kGoOn))).text; }

  const std::vector<std::byte> bytes_ = tiny_model();
  banter_model* model_ = nullptr;

 private:
  std::mutex mutex_;
  std::string log_;
};

}  // namespace banter::test
