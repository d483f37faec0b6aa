#include "banter_engine.h"

#include "errors.h"
#include "file_access_io.h"

namespace banter::godot {
namespace {

constexpr uint64_t kMegabyte = 1u << 20;

/** A figure of Performance: what it is called there, and its key in metrics. */
struct Monitor {
  const char* title;
  const char* key;
};
constexpr Monitor kMonitors[] = {
    {"reply tokens per second", "recent_decode_tokens_per_second"},
    {"active requests", "requests_active"},
    {"characters per step", "recent_sequences_per_step"},
    {"idle share", "recent_idle_share"},
    {"weights (bytes)", "weight_bytes"},
    {"KV used (bytes)", "kv_bytes_used"},
};

bool in_editor() {
  return Variant(singleton("Engine")).call("is_editor_hint").to_bool();
}

}  // namespace

BanterEngine::BanterEngine(Object object) : Instance(object) {
  // Characters go on talking while the game's tree is paused for the dialogue.
  constexpr int64_t kAlways = 3;
  engine_call("set_process_mode", kAlways);
}

BanterEngine::~BanterEngine() {
  if (host_ != nullptr) host_->close();
}

void BanterEngine::notification(int32_t what) {
  switch (what) {
    case kEnterTree:
      return enter_tree();
    case kExitTree:
      remove_monitors();
      return refresh_warnings();
    case kProcess:
      return poll();
    default:
      return;
  }
}

std::vector<std::string> BanterEngine::configuration_warnings() const {
  std::vector<std::string> found;
  if (const auto* const model = instance_of<BanterModel>(model_)) {
    found = model->problems();
  } else if (!model_path_.empty()) {
    if (!file_exists(model_path_)) found.push_back("The model's file is not there: " + model_path_ + ".");
  } else if (auto_load_) {
    found.emplace_back(
        "No model is set: set \"model\", or \"model_path\" to a GGUF file, or switch \"auto_load\" off and call "
        "load_model() from a script.");
  }
  if (memory_budget_mb_ > 0 && kv_budget_mb_ >= memory_budget_mb_) {
    found.emplace_back(
        "\"kv_budget_mb\" leaves nothing of \"memory_budget_mb\" for the model's weights: make it smaller.");
  }
  return found;
}

uint32_t BanterEngine::property_usage(std::string_view name, uint32_t usage) const {
  if (!model_) return usage;
  for (const char* const replaced :
       {"model_path", "chat_template", "context_tokens", "kv_type", "kv_budget_mb", "speculation"}) {
    if (name == replaced) return usage | kUsageReadOnly;
  }
  return usage;
}

/** Of the characters: whether they have an engine is another matter now. */
void BanterEngine::refresh_warnings() {
  constexpr int64_t kDeferred = 2;  // a node that leaves is in its groups until it has left
  if (!in_editor()) return;
  engine_call("get_tree").call("call_group_flags", kDeferred, kCharacters, "update_configuration_warnings");
}

void BanterEngine::enter_tree() {
  engine_call("add_to_group", kGroup);
  refresh_warnings();
  if (in_editor()) return;
  if (performance_monitors_) add_monitors();
  // Here and not when ready: nodes beside this one may speak in their own _ready().
  const bool idle = host_ == nullptr || host_->model_state() == EngineHost::ModelState::kNone;
  if (auto_load_ && (model_ || !model_path_.empty()) && idle) static_cast<void>(load_model(""));
}

void BanterEngine::poll() {
  const std::shared_ptr<EngineHost> host = host_;
  if (host == nullptr) return;
  static_cast<void>(banter_engine_begin_frame(host->engine()));
  Emissions emissions;
  host->poll(emissions);
  emissions.run();  // may free this node
}

int64_t BanterEngine::refuse(banter_result code, const std::string& message) {
  Emissions emissions;
  emissions.add(id(), "failed", error_of(code), message);
  emissions.add(id(), "load_finished", error_of(code));
  emissions.run_later();
  return error_of(code);
}

int64_t BanterEngine::load_model(const std::string& path) {
  const ModelSettings settings = model_settings(path);
  if (settings.path.empty()) {
    return refuse(BANTER_ERROR_INVALID_ARGUMENT,
                  "load_model() needs a model: a path, or the property model or model_path.");
  }
  if (settings.speculation == BANTER_SPECULATION_DRAFT && settings.draft_path.empty()) {
    return refuse(BANTER_ERROR_INVALID_ARGUMENT, "The BanterModel's speculation is Draft, but it has no draft_path.");
  }
  banter_result code = BANTER_OK;
  if (host_ == nullptr || host_->settings() != engine_settings()) {
    if (host_ != nullptr) host_->close();
    host_ = EngineHost::create(id(), engine_settings(), code);
    if (host_ == nullptr) return refuse(code, banter_last_error_message());
    apply_pace();
  }
  engine_call("set_process", true);  // in the editor nothing runs unless a script of it loads a model
  code = host_->load(settings);
  if (code != BANTER_OK) return refuse(code, banter_last_error_message());
  return kOk;
}

void BanterEngine::unload_model() {
  Emissions emissions;
  if (host_ != nullptr) host_->unload(emissions);
  emissions.run_later();
}

void BanterEngine::cancel_load() {
  if (host_ != nullptr) host_->cancel_load();
}

bool BanterEngine::is_model_loaded() const {
  return host_ != nullptr && host_->model_state() == EngineHost::ModelState::kReady;
}

bool BanterEngine::is_model_loading() const {
  return host_ != nullptr && host_->model_state() == EngineHost::ModelState::kLoading;
}

EngineSettings BanterEngine::engine_settings() const {
  return {.backend = static_cast<banter_backend>(device_),
          .thread_count = static_cast<int32_t>(thread_count_),
          .memory_budget_bytes = static_cast<uint64_t>(memory_budget_mb_) * kMegabyte,
          .swap_budget_bytes = static_cast<uint64_t>(swap_budget_mb_) * kMegabyte};
}

ModelSettings BanterEngine::model_settings(const std::string& path) const {
  const auto* const model = instance_of<BanterModel>(model_);
  if (path.empty() && model != nullptr) return model->settings();
  return {.path = path.empty() ? model_path_ : path,
          .draft_path = {},
          .chat_template = chat_template_,
          .context_tokens = static_cast<uint32_t>(context_tokens_),
          .kv_budget_bytes = static_cast<uint64_t>(kv_budget_mb_) * kMegabyte,
          .kv_type = static_cast<banter_kv_type>(kv_type_),
          .speculation = static_cast<banter_speculation>(speculation_)};
}

void BanterEngine::apply_pace() {
  if (host_ == nullptr || host_->engine() == nullptr) return;
  static_cast<void>(banter_engine_set_frame_budget(host_->engine(), static_cast<float>(frame_budget_ms_)));
  static_cast<void>(banter_engine_set_cpu_share(host_->engine(), static_cast<float>(cpu_share_)));
  static_cast<void>(banter_engine_set_paused(host_->engine(), paused_ ? 1 : 0));
}

/* ------------------------------------------------------------------ what it tells */

Dictionary BanterEngine::model_info() const {
  Dictionary info;
  banter_model_info facts{};
  facts.struct_size = sizeof facts;
  if (!is_model_loaded() || banter_model_get_info(host_->model(), &facts) != BANTER_OK) return info;
  info.set("name", facts.name);
  info.set("architecture", facts.architecture);
  info.set("backend", facts.backend);
  info.set("backend_reason", facts.backend_reason);
  info.set("warning", facts.warning);
  info.set("kv_type", facts.kv_type);
  info.set("context_tokens", facts.context_tokens);
  info.set("vocabulary", facts.vocabulary);
  info.set("weight_bytes", static_cast<int64_t>(facts.weight_bytes));
  info.set("kv_pool_bytes", static_cast<int64_t>(facts.kv_pool_bytes));
  info.set("kv_bytes_per_token", facts.kv_bytes_per_token);
  info.set("has_chat_template", facts.has_chat_template != 0);
  return info;
}

std::string BanterEngine::backend_name() const {
  return model_info().get("backend").to_text();
}

std::string BanterEngine::backend_reason() const {
  return model_info().get("backend_reason").to_text();
}

Dictionary BanterEngine::metrics() const {
  Dictionary metrics;
  banter_engine_statistics s{};
  s.struct_size = sizeof s;
  if (host_ == nullptr || host_->engine() == nullptr) return metrics;
  if (banter_engine_get_statistics(host_->engine(), &s) != BANTER_OK) return metrics;
#define BANTER_COUNT(field) metrics.set(#field, static_cast<int64_t>(s.field))
#define BANTER_MEASURE(field) metrics.set(#field, s.field)
  BANTER_COUNT(steps);
  BANTER_COUNT(prefill_tokens);
  BANTER_COUNT(decode_tokens);
  BANTER_COUNT(requests_submitted);
  BANTER_COUNT(requests_finished);
  BANTER_COUNT(requests_active);
  BANTER_COUNT(requests_queued);
  BANTER_COUNT(models_loaded);
  BANTER_COUNT(weight_bytes);
  BANTER_COUNT(kv_bytes_total);
  BANTER_COUNT(kv_bytes_used);
  BANTER_COUNT(kv_pages_total);
  BANTER_COUNT(kv_pages_used);
  BANTER_COUNT(kv_pages_cached);
  BANTER_COUNT(kv_pages_swapped);
  BANTER_COUNT(preemptions);
  BANTER_COUNT(busy_microseconds);
  BANTER_MEASURE(prefill_tokens_per_second);
  BANTER_MEASURE(decode_tokens_per_second);
  BANTER_MEASURE(sequences_per_step);
  BANTER_MEASURE(idle_share);
  BANTER_MEASURE(recent_prefill_tokens_per_second);
  BANTER_MEASURE(recent_decode_tokens_per_second);
  BANTER_MEASURE(recent_sequences_per_step);
  BANTER_MEASURE(recent_idle_share);
#undef BANTER_COUNT
#undef BANTER_MEASURE
  return metrics;
}

double BanterEngine::monitor(const std::string& name) const {
  return metrics().get(name).to_float();
}

void BanterEngine::add_monitors() {
  const Variant performance(singleton("Performance"));
  const std::string title = "Banter " + engine_call("get_name").to_text();
  std::string category = title;
  const auto is_taken = [&] {
    return performance.call("has_custom_monitor", category + "/" + kMonitors[0].title).to_bool();
  };
  for (int number = 2; is_taken(); number++) category = title + " " + std::to_string(number);  // engines of one name
  for (const Monitor& monitor : kMonitors) {
    const std::string name = category + "/" + monitor.title;
    Array arguments;
    arguments.append(monitor.key);
    performance.call("add_custom_monitor", name, Callable(object(), StringName("get_monitor")), arguments);
    monitors_.push_back(name);
  }
}

void BanterEngine::remove_monitors() {
  const Variant performance(singleton("Performance"));
  for (const std::string& name : monitors_) performance.call("remove_custom_monitor", name);
  monitors_.clear();
}

}  // namespace banter::godot
