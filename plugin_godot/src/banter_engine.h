// The node BanterEngine: one engine with its model, polled once a frame.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banter_model.h"
#include "engine_host.h"

namespace banter::godot {

/** Main thread only, as nodes are. Methods and properties are documented in doc_classes/BanterEngine.xml. */
class BanterEngine final : public Instance {
 public:
  /** Group of the tree that every BanterEngine is in while it is in the tree. */
  static constexpr const char* kGroup = "banter_engines";
  /** The same of every BanterNPC. */
  static constexpr const char* kCharacters = "banter_characters";

  explicit BanterEngine(Object object);
  ~BanterEngine() override;
  static void register_class(Registry& registry);

  void notification(int32_t what) override;
  std::vector<std::string> configuration_warnings() const override;
  PackedStringArray setup_problems() const { return PackedStringArray(configuration_warnings()); }
  uint32_t property_usage(std::string_view name, uint32_t usage) const override;

  int64_t load_model(const std::string& path);
  void unload_model();
  void cancel_load();
  bool is_model_loaded() const;
  bool is_model_loading() const;
  double load_fraction() const { return host_ != nullptr ? host_->progress() : 0.0; }
  std::string backend_name() const;
  std::string backend_reason() const;
  Dictionary model_info() const;
  Dictionary metrics() const;
  double monitor(const std::string& name) const;

  // For BanterNPC. nullptr before the first load.
  const std::shared_ptr<EngineHost>& host() const { return host_; }

 private:
  void enter_tree();
  void refresh_warnings();
  void poll();
  void apply_pace();
  void add_monitors();
  void remove_monitors();
  EngineSettings engine_settings() const;
  ModelSettings model_settings(const std::string& path) const;
  void model_changed();
  int64_t refuse(banter_result code, const std::string& message);

  std::shared_ptr<EngineHost> host_;
  std::vector<std::string> monitors_;

  // Properties.
  Reference model_;  // a BanterModel
  std::string model_path_, chat_template_;
  bool auto_load_ = true, paused_ = false, performance_monitors_ = true;
  int64_t device_ = BANTER_BACKEND_AUTO, thread_count_ = 0, memory_budget_mb_ = 0, swap_budget_mb_ = 0,
          kv_budget_mb_ = 0;
  int64_t context_tokens_ = 0, kv_type_ = BANTER_KV_AUTO, speculation_ = BANTER_SPECULATION_NONE;
  double frame_budget_ms_ = 0, cpu_share_ = 1;

 public:
  // Properties, one pair each.
  Reference model() const { return model_; }
  void set_model(const Reference& value);
  std::string model_path() const { return model_path_; }
  void set_model_path(const std::string& value);
  std::string chat_template() const { return chat_template_; }
  void set_chat_template(const std::string& value) { chat_template_ = value; }
  bool auto_load() const { return auto_load_; }
  void set_auto_load(bool value) { auto_load_ = value; }
  int64_t device() const { return device_; }
  void set_device(int64_t value);
  int64_t thread_count() const { return thread_count_; }
  void set_thread_count(int64_t value);
  int64_t memory_budget_mb() const { return memory_budget_mb_; }
  void set_memory_budget_mb(int64_t value);
  int64_t swap_budget_mb() const { return swap_budget_mb_; }
  void set_swap_budget_mb(int64_t value);
  int64_t kv_budget_mb() const { return kv_budget_mb_; }
  void set_kv_budget_mb(int64_t value);
  int64_t context_tokens() const { return context_tokens_; }
  void set_context_tokens(int64_t value);
  int64_t kv_type() const { return kv_type_; }
  void set_kv_type(int64_t value);
  int64_t speculation() const { return speculation_; }
  void set_speculation(int64_t value);
  double frame_budget_ms() const { return frame_budget_ms_; }
  void set_frame_budget_ms(double value);
  double cpu_share() const { return cpu_share_; }
  void set_cpu_share(double value);
  bool paused() const { return paused_; }
  void set_paused(bool value);
  bool performance_monitors() const { return performance_monitors_; }
  void set_performance_monitors(bool value);
};

}  // namespace banter::godot
