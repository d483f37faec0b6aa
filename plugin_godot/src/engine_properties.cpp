// The properties of BanterEngine, and how it presents itself to Godot.
#include <algorithm>

#include "banter_engine.h"

namespace banter::godot {
namespace {

constexpr int64_t kMostMegabytes = 1 << 24;

}  // namespace

void BanterEngine::set_model_path(const std::string& value) {
  model_path_ = value;
  engine_call("update_configuration_warnings");
}

void BanterEngine::set_model(const Reference& value) {
  const Reference before = model_;
  model_ = instance_of<BanterModel>(value) != nullptr ? value : Reference();
  follow(object(), "_model_changed", before, model_);
  engine_call("notify_property_list_changed");
  model_changed();
}

void BanterEngine::model_changed() {
  engine_call("update_configuration_warnings");
}

void BanterEngine::set_device(int64_t value) {
  const bool known = value == BANTER_BACKEND_AUTO || value == BANTER_BACKEND_CPU || value == BANTER_BACKEND_CUDA;
  device_ = known ? value : static_cast<int64_t>(BANTER_BACKEND_AUTO);
}

void BanterEngine::set_thread_count(int64_t value) {
  thread_count_ = std::clamp<int64_t>(value, 0, 256);
  engine_call("update_configuration_warnings");
}

void BanterEngine::set_memory_budget_mb(int64_t value) {
  memory_budget_mb_ = std::clamp<int64_t>(value, 0, kMostMegabytes);
  engine_call("update_configuration_warnings");
}

void BanterEngine::set_swap_budget_mb(int64_t value) {
  swap_budget_mb_ = std::clamp<int64_t>(value, 0, kMostMegabytes);
}

void BanterEngine::set_kv_budget_mb(int64_t value) {
  kv_budget_mb_ = std::clamp<int64_t>(value, 0, kMostMegabytes);
  engine_call("update_configuration_warnings");
}

void BanterEngine::set_context_tokens(int64_t value) {
  context_tokens_ = value <= 0 ? 0 : std::clamp<int64_t>(value, 16, 1 << 20);
}

void BanterEngine::set_kv_type(int64_t value) {
  kv_type_ = std::clamp<int64_t>(value, BANTER_KV_AUTO, BANTER_KV_INT4);
}

void BanterEngine::set_speculation(int64_t value) {
  speculation_ = std::clamp<int64_t>(value, BANTER_SPECULATION_NONE, BANTER_SPECULATION_NGRAM);
}

void BanterEngine::set_frame_budget_ms(double value) {
  frame_budget_ms_ = std::clamp(value, 0.0, 1000.0);
  apply_pace();
}

void BanterEngine::set_cpu_share(double value) {
  cpu_share_ = std::clamp(value, 0.01, 1.0);
  apply_pace();
}

void BanterEngine::set_paused(bool value) {
  paused_ = value;
  apply_pace();
}

void BanterEngine::set_performance_monitors(bool value) {
  performance_monitors_ = value;
  if (!engine_call("is_inside_tree").to_bool()) return;
  remove_monitors();
  if (value) add_monitors();
}

void BanterEngine::register_class(Registry& registry) {
  using E = BanterEngine;
  ClassBuilder<E> engine(registry, "BanterEngine", "Node");
  engine.constant("Device", "DEVICE_AUTO", BANTER_BACKEND_AUTO);
  engine.constant("Device", "DEVICE_CPU", BANTER_BACKEND_CPU);
  engine.constant("Device", "DEVICE_CUDA", BANTER_BACKEND_CUDA);
  engine.constant("KVType", "KV_AUTO", BANTER_KV_AUTO);
  engine.constant("KVType", "KV_F16", BANTER_KV_F16);
  engine.constant("KVType", "KV_BF16", BANTER_KV_BF16);
  engine.constant("KVType", "KV_F32", BANTER_KV_F32);
  engine.constant("KVType", "KV_INT8", BANTER_KV_INT8);
  engine.constant("KVType", "KV_INT4", BANTER_KV_INT4);
  engine.constant("Speculation", "SPECULATION_NONE", BANTER_SPECULATION_NONE);
  engine.constant("Speculation", "SPECULATION_NGRAM", BANTER_SPECULATION_NGRAM);
  engine.constant("Speculation", "SPECULATION_DRAFT", BANTER_SPECULATION_DRAFT);

  engine.property("model", &E::model, &E::set_model,
                  {.hint = kHintResource, .text = "BanterModel", .class_name = "BanterModel"});
  engine.property("model_path", &E::model_path, &E::set_model_path, {.hint = kHintFile, .text = "*.gguf"});
  engine.property("auto_load", &E::auto_load, &E::set_auto_load);
  engine.property("chat_template", &E::chat_template, &E::set_chat_template, {.hint = kHintMultiline});
  engine.property("context_tokens", &E::context_tokens, &E::set_context_tokens,
                  {.hint = kHintRange, .text = "0,32768,1,or_greater"});
  engine.property("kv_type", &E::kv_type, &E::set_kv_type,
                  {.hint = kHintEnum, .text = "Auto,F16,BF16,F32,INT8,INT4", .class_name = "BanterEngine.KVType"});
  engine.property("speculation", &E::speculation, &E::set_speculation,
                  {.hint = kHintEnum, .text = "None,N-gram", .class_name = "BanterEngine.Speculation"});
  engine.group("Device");
  engine.property("device", &E::device, &E::set_device,
                  {.hint = kHintEnum, .text = "Auto:0,CPU:1,CUDA:3", .class_name = "BanterEngine.Device"});
  engine.property("thread_count", &E::thread_count, &E::set_thread_count, {.hint = kHintRange, .text = "0,256,1"});
  engine.group("Budgets");
  const Hint megabytes{.hint = kHintRange, .text = "0,65536,1,or_greater,suffix:MiB"};
  engine.property("memory_budget_mb", &E::memory_budget_mb, &E::set_memory_budget_mb, megabytes);
  engine.property("kv_budget_mb", &E::kv_budget_mb, &E::set_kv_budget_mb, megabytes);
  engine.property("swap_budget_mb", &E::swap_budget_mb, &E::set_swap_budget_mb, megabytes);
  engine.property("frame_budget_ms", &E::frame_budget_ms, &E::set_frame_budget_ms,
                  {.hint = kHintRange, .text = "0,33,0.1,or_greater,suffix:ms"});
  engine.property("cpu_share", &E::cpu_share, &E::set_cpu_share, {.hint = kHintRange, .text = "0.01,1,0.01"});
  engine.property("paused", &E::paused, &E::set_paused);
  engine.property("performance_monitors", &E::performance_monitors, &E::set_performance_monitors);
  engine.read_only("backend_name", &E::backend_name);
  engine.read_only("backend_reason", &E::backend_reason);
  engine.read_only("model_info", &E::model_info);
  engine.read_only("metrics", &E::metrics);
  engine.read_only("load_fraction", &E::load_fraction);

  engine.method("load_model", &E::load_model, {"path"}, {Variant("")}, "Error");
  engine.method("get_setup_problems", &E::setup_problems);
  engine.method("_model_changed", &E::model_changed);
  engine.method("unload_model", &E::unload_model);
  engine.method("cancel_load", &E::cancel_load);
  engine.method("is_model_loaded", &E::is_model_loaded);
  engine.method("is_model_loading", &E::is_model_loading);
  engine.method("get_monitor", &E::monitor, {"name"});

  engine.signal("load_progress", {{"fraction", GDEXTENSION_VARIANT_TYPE_FLOAT}});
  engine.signal("model_ready");
  engine.signal("load_finished", {{"error", GDEXTENSION_VARIANT_TYPE_INT}});
  engine.signal("failed", {{"code", GDEXTENSION_VARIANT_TYPE_INT}, {"message", GDEXTENSION_VARIANT_TYPE_STRING}});
}

}  // namespace banter::godot
