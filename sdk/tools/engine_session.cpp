#include "engine_session.h"

#include <unistd.h>

#include <cstdio>

namespace banter::tools {
namespace {

void log_line(banter_log_level level, const char* message, void* user_data) {
  const bool verbose = *static_cast<bool*>(user_data);
  // Errors come as FAILED events or messages too, and are printed from there.
  if (verbose || level == BANTER_LOG_WARNING) std::fprintf(stderr, "banter: %s\n", message);
}

bool report(const char* what) {
  std::fprintf(stderr, "banter: %s: %s\n", what, banter_last_error_message());
  return false;
}

}  // namespace

void add_engine_options(CLI::App& app, EngineOptions& options) {
  app.add_option("--model,-m", options.model, "GGUF file")->required()->envname("BANTER_MODEL");
  add_backend_options(app, options.device);
  app.add_option("--threads", options.threads, "threads that compute; 0: physical cores, less two for a game")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--ctx", options.context, "most tokens of one conversation; 0: the model's, at most 8192")
      ->check(CLI::Range(0u, 1u << 24))
      ->capture_default_str();
  add_trace_option(app, options);
  app.add_option("--kv", options.kv,
                 "how keys and values are kept: f16, bf16, f32, int8, int4; default: as suits the model")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "int8", "int4"}));
  app.add_flag("--verbose,-v", options.verbose, "show the engine's log");
}

void add_trace_option(CLI::App& app, EngineOptions& options) {
  app.add_option("--trace", options.trace,
                 "write a timeline of steps and requests to this file, for chrome://tracing or Perfetto");
}

void add_thinking_options(CLI::App& app, ThinkingOptions& options) {
  app.add_option("--think", options.think,
                 "whether a thinking model thinks first: on, off, or auto as its template has it")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->capture_default_str();
  app.add_option("--thinking-budget", options.budget, "most tokens of thoughts; 0: no limit")->capture_default_str();
  app.add_flag("--show-thoughts", options.show, "print thoughts, to stderr");
}

void ThinkingOptions::apply(banter_request_config& config) const {
  config.thinking = think == "on" ? BANTER_THINKING_ON : think == "off" ? BANTER_THINKING_OFF : BANTER_THINKING_AUTO;
  config.thinking_budget_tokens = budget;
  if (show) config.flags |= BANTER_REQUEST_REPORT_THOUGHT;
}

void print_thought(const std::string& text) {
  const bool dim = isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%s%s%s", dim ? "\x1b[2m" : "", text.c_str(), dim ? "\x1b[0m" : "");
}

void add_tuning_options(CLI::App& app, EngineOptions& options) {
  app.add_option("--chunk", options.chunk, "tokens that one step computes, so of a prompt at once; 0: the engine's 256")
      ->check(CLI::Range(0u, 4096u))
      ->capture_default_str();
  app.add_option("--stream-slowdown", options.slowdown,
                 "what prompts may make of the time between the tokens of those who stream; 0: the engine's 1.5 times")
      ->check(CLI::Range(0.0f, 1000.0f));
  app.add_option("--speculate", options.speculate, "guess tokens ahead: ngram, or the path of a smaller (draft) model");
  app.add_option("--swap", options.swap_mib, "MiB of memory for what the KV pool has no room for")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  app.add_flag("--no-prefix-sharing", options.no_prefix_sharing, "compute every prompt from its beginning");
}

EngineSession::~EngineSession() {
  if (engine_ != nullptr && !trace_path_.empty()) write_trace();
  banter_engine_destroy(engine_);
}

void EngineSession::write_trace() {
  std::FILE* const file = std::fopen(trace_path_.c_str(), "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "banter: cannot write %s\n", trace_path_.c_str());
    return;
  }
  const banter_result written = banter_engine_trace_stop(
      engine_,
      [](const char* bytes, size_t size, void* to) -> banter_result {
        return std::fwrite(bytes, 1, size, static_cast<std::FILE*>(to)) == size ? BANTER_OK : BANTER_ERROR_IO;
      },
      file);
  if (written != BANTER_OK) report("cannot write the trace");
  if (std::fclose(file) != 0 && written == BANTER_OK) {
    std::fprintf(stderr, "banter: cannot write %s\n", trace_path_.c_str());
  }
}

std::string metrics_json(banter_engine* engine) {
  char line[4096];
  size_t length = 0;
  if (banter_engine_get_metrics_json(engine, line, sizeof line, &length) != BANTER_OK) return "{}";
  return line;
}

bool EngineSession::open(const EngineOptions& options) {
  static bool verbose = false;
  verbose = options.verbose;
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.backend = options.device.kind();
  config.cuda_device = options.device.device;
  if (!options.device.library.empty()) config.cuda_library_path = options.device.library.c_str();
  config.thread_count = options.threads;
  config.flags = BANTER_ENGINE_NORMAL_PRIORITY;  // a command line tool has no game to yield to
  config.log = log_line;
  config.log_user_data = &verbose;
  config.step_tokens = static_cast<int32_t>(options.chunk);
  config.stream_slowdown = options.slowdown;
  config.swap_budget_bytes = static_cast<uint64_t>(options.swap_mib) << 20;
  config.max_requests = options.max_requests;
  if (banter_engine_create(BANTER_API_VERSION, &config, &engine_) != BANTER_OK)
    return report("cannot start the engine");
  if (!options.trace.empty()) {
    if (banter_engine_trace_start(engine_, 1u << 20) != BANTER_OK) return report("cannot record a trace");
    trace_path_ = options.trace;
  }

  banter_model* draft = nullptr;
  const bool drafts = !options.speculate.empty() && options.speculate != "ngram";
  if (drafts && !load(options, options.speculate, nullptr, &draft)) return false;
  return load(options, options.model, draft, &model_);
}

banter_kv_type EngineSession::kv_type(const std::string& name) {
  return name == "f16"    ? BANTER_KV_F16
         : name == "bf16" ? BANTER_KV_BF16
         : name == "f32"  ? BANTER_KV_F32
         : name == "int8" ? BANTER_KV_INT8
         : name == "int4" ? BANTER_KV_INT4
                          : BANTER_KV_AUTO;
}

/** A model that drafts for another is loaded with `draft` null and options.speculate naming its path. */
bool EngineSession::load(const EngineOptions& options, const std::string& path, banter_model* draft,
                         banter_model** model) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path.data();
  config.path_len = path.size();
  config.context_tokens = options.context;
  config.kv_type = kv_type(options.kv);
  config.kv_budget_bytes = options.kv_budget_bytes;
  if (options.no_prefix_sharing) config.flags |= BANTER_MODEL_NO_PREFIX_SHARING;
  if (options.speculate == "ngram") config.speculation = BANTER_SPECULATION_NGRAM;
  if (draft != nullptr) {
    config.speculation = BANTER_SPECULATION_DRAFT;
    config.draft_model = draft;
  }
  banter_request_id request = 0;
  if (banter_model_load(engine_, &config, model, &request) != BANTER_OK) return report("cannot load the model");
  return wait_for_load(request);
}

bool EngineSession::wait_for_load(banter_request_id load) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  for (;;) {
    banter_wait(engine_, 1000);
    banter_event events[16];
    uint32_t count = 0;
    if (banter_poll(engine_, events, sizeof events[0], 16, &count) != BANTER_OK) return report("poll");
    for (uint32_t i = 0; i < count; ++i) {
      const banter_event& event = events[i];
      if (event.request != load) continue;
      if (event.kind == BANTER_EVENT_LOAD_PROGRESS && terminal)
        std::fprintf(stderr, "\rloading %3.0f %%", static_cast<double>(event.progress) * 100);
      if (event.kind == BANTER_EVENT_MODEL_READY) {
        if (terminal) std::fprintf(stderr, "\r              \r");
        return true;
      }
      if (event.kind == BANTER_EVENT_FAILED || event.kind == BANTER_EVENT_CANCELLED) {
        std::fprintf(stderr, "%sbanter: %s\n", terminal ? "\r" : "", event.text);
        return false;
      }
    }
  }
}

Reply EngineSession::finish(banter_request_id request, const std::function<void(const std::string&)>& on_text,
                            const volatile bool* interrupted) {
  Reply reply;
  bool cancelled = false;
  for (;;) {
    if (interrupted != nullptr && *interrupted && !cancelled) {
      banter_cancel(engine_, request);
      cancelled = true;
    }
    banter_wait(engine_, 50);
    banter_event events[32];
    uint32_t count = 0;
    if (banter_poll(engine_, events, sizeof events[0], 32, &count) != BANTER_OK) {
      reply.finish_reason = "error";
      reply.error = banter_last_error_message();
      return reply;
    }
    for (uint32_t i = 0; i < count; ++i) {
      const banter_event& event = events[i];
      if (event.request != request) {
        if (see_other_) see_other_(event);
        continue;
      }
      if (event.kind == BANTER_EVENT_PROMPT) {
        reply.prompt_ids.insert(reply.prompt_ids.end(), event.tokens, event.tokens + event.token_count);
        continue;
      }
      if (event.kind == BANTER_EVENT_THOUGHT) {
        reply.output_ids.insert(reply.output_ids.end(), event.tokens, event.tokens + event.token_count);
        reply.thought.append(event.text, event.text_len);
        if (on_thought_) on_thought_(std::string(event.text, event.text_len));
        continue;
      }
      if (event.kind == BANTER_EVENT_CONTEXT_TRIMMED) {
        std::fprintf(stderr, "\n[%u old turns forgotten to make room]\n", event.dropped_turns);
        continue;
      }
      if (event.kind != BANTER_EVENT_FAILED) {
        reply.output_ids.insert(reply.output_ids.end(), event.tokens, event.tokens + event.token_count);
        const std::string text(event.text, event.text_len);
        if (!text.empty()) {
          reply.text += text;
          if (on_text) on_text(text);
        }
      }
      if (event.statistics != nullptr) reply.statistics = *event.statistics;
      if (event.kind == BANTER_EVENT_DONE || event.kind == BANTER_EVENT_CANCELLED) {
        reply.finish_reason = event.kind == BANTER_EVENT_DONE ? finish_name(event.finish_reason) : "cancelled";
        return reply;
      }
      if (event.kind == BANTER_EVENT_FAILED) {
        reply.finish_reason = "error";
        reply.error.assign(event.text, event.text_len);
        return reply;
      }
    }
  }
}

const char* finish_name(banter_finish_reason reason) {
  switch (reason) {
    case BANTER_FINISH_END:
      return "stop";
    case BANTER_FINISH_STOP_STRING:
      return "stop_string";
    case BANTER_FINISH_STOP_TOKEN:
      return "stop_token";
    case BANTER_FINISH_LENGTH:
      return "length";
    case BANTER_FINISH_CONTEXT:
      return "context";
    default:
      return "none";
  }
}

}  // namespace banter::tools
