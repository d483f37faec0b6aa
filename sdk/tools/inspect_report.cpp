#include "inspect_report.h"

#include <algorithm>
#include <map>

#include "formats/tensor_type.h"

namespace banter::tools {
namespace {

void add(Tally& tally, const formats::GgufTensor& tensor) {
  ++tally.tensors;
  tally.parameters += tensor.elements();
  tally.bytes += tensor.bytes;
}

}  // namespace

std::string_view part_name(ModelPart part) {
  constexpr std::array<std::string_view, kModelParts> kNames = {"embedding", "attention", "feed_forward",
                                                                "output",    "norms",     "other"};
  return kNames[static_cast<size_t>(part)];
}

ModelPart part_of(std::string_view name) {
  if (name.find("norm") != std::string_view::npos) return ModelPart::kNorms;
  if (name.starts_with("token_embd") || name.starts_with("position_embd")) return ModelPart::kEmbedding;
  if (name.starts_with("output.")) return ModelPart::kOutput;
  if (!name.starts_with("blk.")) return ModelPart::kOther;
  const size_t role = name.find('.', 4);
  if (role == std::string_view::npos) return ModelPart::kOther;
  name.remove_prefix(role + 1);
  if (name.starts_with("attn_")) return ModelPart::kAttention;
  if (name.starts_with("ffn_") || name.starts_with("exp_probs")) return ModelPart::kFeedForward;
  return ModelPart::kOther;
}

ModelReport analyse(const formats::Gguf& file) {
  ModelReport report;
  std::map<uint32_t, Tally> types;
  for (const formats::GgufTensor& tensor : file.tensors()) {
    add(report.parts[static_cast<size_t>(part_of(tensor.name))], tensor);
    add(types[tensor.type], tensor);
    add(report.total, tensor);
  }
  for (const auto& [type, tally] : types) report.types.emplace_back(formats::type_name(type), tally);
  std::stable_sort(report.types.begin(), report.types.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  report.tied_output = file.find_tensor("token_embd.weight") != nullptr && file.find_tensor("output.weight") == nullptr;
  auto kv = model::read_kv_report(file);
  if (kv) {
    report.kv = std::move(*kv);
  } else {
    report.kv_missing = kv.error().message;
  }
  return report;
}

uint64_t characters_that_fit(const KvReport& kv, ops::KvType format, uint64_t budget, uint64_t weights, uint64_t tokens,
                             uint64_t prefix) {
  const uint64_t fixed = weights + kv.step_buffer_bytes + kv.sequence_bytes(format, prefix);
  const uint64_t each = kv.own_bytes(format, tokens, prefix);
  return budget < fixed || each == 0 ? 0 : (budget - fixed) / each;
}

std::vector<uint64_t> context_steps(uint64_t trained) {
  std::vector<uint64_t> steps;
  for (uint64_t tokens = 1024; tokens < trained; tokens *= 2) steps.push_back(tokens);
  if (trained > 0) steps.push_back(trained);
  return steps;
}

}  // namespace banter::tools
