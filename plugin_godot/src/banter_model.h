// The resource BanterModel: a model's file and how it is loaded.
#pragma once

#include <string>
#include <vector>

#include "engine_host.h"

namespace banter::godot {

/** Main thread only. Methods and properties are documented in doc_classes/BanterModel.xml. */
class BanterModel final : public Instance {
 public:
  explicit BanterModel(Object object) : Instance(object) {}
  static void register_class(Registry& registry);

  ModelSettings settings() const;
  bool file_exists() const;
  Dictionary measure() const;
  int64_t memory_for(int64_t characters) const;
  /** Sentences for people who set it up. */
  std::vector<std::string> problems() const;

 private:
  template <class Value>
  void assign(Value& member, Value value) {
    if (member == value) return;
    member = std::move(value);
    static_cast<void>(engine_call("emit_changed"));
  }

  std::string path_, draft_path_, chat_template_;
  int64_t context_tokens_ = 0, kv_type_ = BANTER_KV_AUTO, kv_budget_mb_ = 0, speculation_ = BANTER_SPECULATION_NONE;

 public:
  // Properties, one pair each.
  std::string path() const { return path_; }
  void set_path(const std::string& value) { assign(path_, value); }
  std::string draft_path() const { return draft_path_; }
  void set_draft_path(const std::string& value) { assign(draft_path_, value); }
  std::string chat_template() const { return chat_template_; }
  void set_chat_template(const std::string& value) { assign(chat_template_, value); }
  int64_t context_tokens() const { return context_tokens_; }
  void set_context_tokens(int64_t value);
  int64_t kv_type() const { return kv_type_; }
  void set_kv_type(int64_t value);
  int64_t kv_budget_mb() const { return kv_budget_mb_; }
  void set_kv_budget_mb(int64_t value);
  int64_t speculation() const { return speculation_; }
  void set_speculation(int64_t value);
};

}  // namespace banter::godot
