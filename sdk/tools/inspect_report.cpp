#include "inspect_report.h"

#include <algorithm>
#include <map>

#include "formats/tensor_type.h"
#include "model/decoder.h"
#include "model/hyperparameters.h"

namespace banter::tools {
namespace {

constexpr int32_t kPageTokens = 16;
constexpr uint64_t kPage = kPageTokens;
// What the engine's largest usual step needs: 512 rows of prefill, logits for 64 sequences.
constexpr int32_t kStepRows = 512;
constexpr int32_t kStepLogits = 64;

uint64_t whole_pages(uint64_t tokens) {
  return (tokens + kPage - 1) / kPage * kPage;
}

void add(Tally& tally, const formats::GgufTensor& tensor) {
  ++tally.tensors;
  tally.parameters += tensor.elements();
  tally.bytes += tensor.bytes;
}

Result<KvReport> analyse_kv(const formats::Gguf& file) {
  const std::string* architecture = file.get_string("general.architecture");
  const uint64_t trained = architecture == nullptr ? 0 : file.get_uint(*architecture + ".context_length").value_or(0);
  const auto hp = model::read_hyperparameters(file, static_cast<int32_t>(std::min<uint64_t>(trained, INT32_MAX)));
  if (!hp) return hp.error();
  KvReport report;
  report.trained_context = static_cast<uint64_t>(hp->trained_context);
  report.step_buffer_bytes = model::decoder_buffer_bytes(*hp, kStepRows, kStepLogits);
  for (const ops::KvType format : kKvFormats) {
    if (!ops::kv_fits(format, hp->head_dim)) continue;
    const std::vector<kv::GroupSpec> groups = model::kv_groups(*hp, format);
    for (const kv::GroupSpec& group : groups) {
      KvLayers layers;
      layers.layers = static_cast<uint64_t>(group.layers);
      layers.window = static_cast<uint64_t>(group.window);
      layers.held = group.window == 0 ? 0 : static_cast<uint64_t>(group.window + group.restorable);
      layers.bytes =
          ops::KvGeometry{group.type, group.layers, group.kv_heads, group.head_dim, kPageTokens}.bytes_per_token();
      const auto index = static_cast<int32_t>(&group - groups.data());
      layers.is_copy = std::any_of(groups.begin(), groups.end(), [&](const auto& g) { return g.companion == index; });
      report.groups[static_cast<size_t>(format)].push_back(layers);
    }
  }
  return report;
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

bool KvReport::has_windows() const {
  const std::vector<KvLayers>& layers = of(ops::KvType::kF16);
  return std::any_of(layers.begin(), layers.end(), [](const KvLayers& group) { return group.window != 0; });
}

uint64_t KvReport::bytes_per_token(ops::KvType format, bool beyond_windows) const {
  uint64_t bytes = 0;
  for (const KvLayers& group : of(format)) {
    if (!group.is_copy && (group.window == 0 || !beyond_windows)) bytes += group.bytes;
  }
  return bytes;
}

uint64_t KvReport::sequence_bytes(ops::KvType format, uint64_t tokens) const {
  return own_bytes(format, tokens, 0);
}

uint64_t KvReport::own_bytes(ops::KvType format, uint64_t tokens, uint64_t prefix) const {
  const uint64_t own = whole_pages(tokens) - std::min(tokens, prefix) / kPage * kPage;  // whole pages are shared
  uint64_t bytes = 0;
  for (const KvLayers& group : of(format)) {
    // A window rarely begins at the edge of a page, so one page more than it fills.
    bytes += group.bytes * (group.window == 0 ? own : std::min(own, whole_pages(group.held) + kPage));
  }
  return bytes;
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
  auto kv = analyse_kv(file);
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
