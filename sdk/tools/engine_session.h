// An engine with one model, for commands that talk through the C ABI: loads with a progress line, pumps events.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend_options.h"
#include "banter/banter.h"

namespace banter::tools {

/** Options that every command with an engine has. */
struct EngineOptions {
  std::string model;
  BackendOptions device;
  int threads = 0;
  uint32_t context = 0;
  std::string kv;  // "": as suits the model
  bool verbose = false;
  std::string trace;      // file for a timeline; "": none
  uint32_t chunk = 0;     // tokens of one step; 0: the engine's default
  float slowdown = 0;     // of a step with prompt tokens while others stream; 0: the engine's default
  std::string speculate;  // "": none, "ngram", or the path of a draft model
  uint32_t swap_mib = 0;  // host memory for pages that the pool has no room for
  bool no_prefix_sharing = false;
  uint64_t kv_budget_bytes = 0;  // 0: the engine's default
  uint32_t max_requests = 0;     // 0: the engine's default
};
void add_engine_options(CLI::App& app, EngineOptions& options);
/** How the engine goes about its work, which changes no reply: --chunk, --stream-slowdown, --speculate, --swap, --no-prefix-sharing. */
void add_tuning_options(CLI::App& app, EngineOptions& options);
void add_trace_option(CLI::App& app, EngineOptions& options);

/** Everything known about a request that has ended. */
struct Reply {
  std::string text, thought;
  std::vector<int32_t> prompt_ids, output_ids;
  std::string finish_reason;  // "stop", "length", "context", "cancelled", "error"
  banter_request_statistics statistics = {};
  std::string error;  // of FAILED
};

/** Owns engine and model. One thread. */
class EngineSession {
 public:
  EngineSession() = default;
  ~EngineSession();
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;

  /** Creates the engine and loads the model, with a progress line on stderr; starts the trace. False: the reason was printed. */
  bool open(const EngineOptions& options);
  /** `see` gets every event of requests that finish() is not asked about. */
  void watch_others(std::function<void(const banter_event&)> see) { see_other_ = std::move(see); }
  banter_engine* engine() const { return engine_; }
  banter_model* model() const { return model_; }
  /** Sees the thoughts of all replies from now on, piece by piece; null: nobody. */
  void watch_thoughts(std::function<void(const std::string&)> watcher) { on_thought_ = std::move(watcher); }
  /** Pumps events until `request` ends. `on_text` sees each piece of text as it comes; when `interrupted` (may be null)
   *  becomes true the request is cancelled. */
  Reply finish(banter_request_id request, const std::function<void(const std::string&)>& on_text,
               const volatile bool* interrupted = nullptr);

 private:
  static banter_kv_type kv_type(const std::string& name);
  bool load(const EngineOptions& options, const std::string& path, banter_model* draft, banter_model** model);
  bool wait_for_load(banter_request_id load);
  void write_trace();
  std::string trace_path_;
  banter_engine* engine_ = nullptr;
  banter_model* model_ = nullptr;
  std::function<void(const std::string&)> on_thought_;
  std::function<void(const banter_event&)> see_other_;
};

/** Options of thinking models: `--think`, `--thinking-budget`, `--show-thoughts`. */
struct ThinkingOptions {
  std::string think = "auto";
  uint32_t budget = 0;
  bool show = false;

  void apply(banter_request_config& config) const;
};
void add_thinking_options(CLI::App& app, ThinkingOptions& options);
/** Prints thoughts, dimmed where stderr is a terminal, to stderr. */
void print_thought(const std::string& text);

/** banter_engine_get_metrics_json() as a string. */
std::string metrics_json(banter_engine* engine);

const char* finish_name(banter_finish_reason reason);

}  // namespace banter::tools
