#include "banter_model.h"

#include <algorithm>

#include "errors.h"
#include "file_access_io.h"

namespace banter::godot {
namespace {

constexpr uint64_t kMegabyte = 1u << 20;
constexpr int64_t kMostMegabytes = 1 << 24, kMostTokens = 1 << 20;

banter_result measure_file(const std::string& path, int64_t context_tokens, int64_t kv_type,
                           banter_model_needs& needs) {
  needs = {};
  needs.struct_size = sizeof needs;
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path.data();
  config.path_len = path.size();
  const banter_io io = file_access_io();
  if (path.find("://") != std::string::npos) config.io = &io;
  config.context_tokens = static_cast<uint32_t>(context_tokens);
  config.kv_type = static_cast<banter_kv_type>(kv_type);
  return banter_model_measure(&config, &needs);
}

}  // namespace

ModelSettings BanterModel::settings() const {
  return {.path = path_,
          .draft_path = speculation_ == BANTER_SPECULATION_DRAFT ? draft_path_ : std::string(),
          .chat_template = chat_template_,
          .context_tokens = static_cast<uint32_t>(context_tokens_),
          .kv_budget_bytes = static_cast<uint64_t>(kv_budget_mb_) * kMegabyte,
          .kv_type = static_cast<banter_kv_type>(kv_type_),
          .speculation = static_cast<banter_speculation>(speculation_)};
}

bool BanterModel::file_exists() const {
  return godot::file_exists(path_);
}

Dictionary BanterModel::measure() const {
  banter_model_needs needs;
  const banter_result code = measure_file(path_, context_tokens_, kv_type_, needs);
  Dictionary out;
  out.set("error", error_of(code));
  out.set("message", code == BANTER_OK ? "" : banter_last_error_message());
  if (code != BANTER_OK) return out;
  out.set("file_bytes", static_cast<int64_t>(needs.file_bytes));
  out.set("weight_bytes", static_cast<int64_t>(needs.weight_bytes));
  out.set("parameters", static_cast<int64_t>(needs.parameters));
  out.set("step_buffer_bytes", static_cast<int64_t>(needs.step_buffer_bytes));
  out.set("kv_bytes", static_cast<int64_t>(needs.kv_bytes));
  out.set("kv_bytes_per_token", needs.kv_bytes_per_token);
  out.set("kv_type", needs.kv_type);
  out.set("context_tokens", needs.context_tokens);
  out.set("trained_context_tokens", needs.trained_context_tokens);
  return out;
}

int64_t BanterModel::memory_for(int64_t characters) const {
  banter_model_needs needs;
  if (measure_file(path_, context_tokens_, kv_type_, needs) != BANTER_OK) return 0;
  const auto count = static_cast<uint64_t>(std::clamp<int64_t>(characters, 0, 65536));
  uint64_t bytes = needs.weight_bytes + needs.step_buffer_bytes + count * needs.kv_bytes;
  if (speculation_ == BANTER_SPECULATION_DRAFT && !draft_path_.empty()) {
    // The draft's conversations are as long as the model's.
    banter_model_needs draft;
    if (measure_file(draft_path_, needs.context_tokens, BANTER_KV_AUTO, draft) != BANTER_OK) return 0;
    bytes += draft.weight_bytes + draft.step_buffer_bytes + count * draft.kv_bytes;
  }
  return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
}

std::vector<std::string> BanterModel::problems() const {
  std::vector<std::string> found;
  if (path_.empty()) {
    found.emplace_back("The model resource has no file: set its \"model_path\" to a GGUF file.");
  } else if (!file_exists()) {
    found.push_back("The model's file is not there: " + path_ + ".");
  }
  if (speculation_ == BANTER_SPECULATION_DRAFT) {
    if (draft_path_.empty()) {
      found.emplace_back(
          "Speculation with a draft model needs \"draft_path\": a smaller model of the same vocabulary.");
    } else if (!godot::file_exists(draft_path_)) {
      found.push_back("The draft model's file is not there: " + draft_path_ + ".");
    }
  } else if (!draft_path_.empty()) {
    found.emplace_back("\"draft_path\" is used only when \"speculation\" is Draft.");
  }
  return found;
}

void BanterModel::set_context_tokens(int64_t value) {
  assign(context_tokens_, value <= 0 ? int64_t{0} : std::clamp<int64_t>(value, 16, kMostTokens));
}

void BanterModel::set_kv_type(int64_t value) {
  assign(kv_type_, std::clamp<int64_t>(value, BANTER_KV_AUTO, BANTER_KV_INT4));
}

void BanterModel::set_kv_budget_mb(int64_t value) {
  assign(kv_budget_mb_, std::clamp<int64_t>(value, 0, kMostMegabytes));
}

void BanterModel::set_speculation(int64_t value) {
  assign(speculation_, std::clamp<int64_t>(value, BANTER_SPECULATION_NONE, BANTER_SPECULATION_DRAFT));
}

void BanterModel::register_class(Registry& registry) {
  using M = BanterModel;
  ClassBuilder<M> model(registry, "BanterModel", "Resource");
  model.property("model_path", &M::path, &M::set_path, {.hint = kHintFile, .text = "*.gguf"});
  model.property("chat_template", &M::chat_template, &M::set_chat_template, {.hint = kHintMultiline});
  model.property("context_tokens", &M::context_tokens, &M::set_context_tokens,
                 {.hint = kHintRange, .text = "0,32768,1,or_greater"});
  model.property("kv_type", &M::kv_type, &M::set_kv_type,
                 {.hint = kHintEnum, .text = "Auto,F16,BF16,F32,INT8,INT4", .class_name = "BanterEngine.KVType"});
  model.property("kv_budget_mb", &M::kv_budget_mb, &M::set_kv_budget_mb,
                 {.hint = kHintRange, .text = "0,65536,1,or_greater,suffix:MiB"});
  model.property("speculation", &M::speculation, &M::set_speculation,
                 {.hint = kHintEnum, .text = "None,N-gram,Draft", .class_name = "BanterEngine.Speculation"});
  model.property("draft_path", &M::draft_path, &M::set_draft_path, {.hint = kHintFile, .text = "*.gguf"});

  model.method("file_exists", &M::file_exists);
  model.method("measure", &M::measure);
  model.method("get_memory_needed", &M::memory_for, {"characters"}, {Variant(int64_t{1})});
}

}  // namespace banter::godot
