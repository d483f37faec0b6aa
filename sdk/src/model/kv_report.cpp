#include "model/kv_report.h"

#include <algorithm>

#include "model/decoder.h"
#include "model/hyperparameters.h"

namespace banter::model {
namespace {

constexpr int32_t kPageTokens = 16;
constexpr uint64_t kPage = kPageTokens;
// What the engine's largest usual step needs: 512 rows of prefill, logits for 64 sequences.
constexpr int32_t kStepRows = 512;
constexpr int32_t kStepLogits = 64;

uint64_t whole_pages(uint64_t tokens) {
  return (tokens + kPage - 1) / kPage * kPage;
}

}  // namespace

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

uint64_t KvReport::conversation_bytes(ops::KvType format, int32_t tokens, int32_t chunk) const {
  const std::vector<kv::GroupSpec>& of_format = specs[static_cast<size_t>(format)];
  const std::vector<ops::KvGeometry> geometry = kv::plan_geometry(of_format);
  int64_t pages = 0;
  for (size_t g = 0; g < of_format.size(); ++g)
    pages += kv::pages_of_sequence(of_format[g], geometry[g].page_tokens, tokens, chunk);
  return static_cast<uint64_t>(pages) * kv::page_stride(geometry);
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

Result<KvReport> read_kv_report(const formats::Gguf& file) {
  const std::string* architecture = file.get_string("general.architecture");
  const uint64_t trained = architecture == nullptr ? 0 : file.get_uint(*architecture + ".context_length").value_or(0);
  const auto hp = read_hyperparameters(file, static_cast<int32_t>(std::min<uint64_t>(trained, INT32_MAX)));
  if (!hp) return hp.error();
  KvReport report;
  report.trained_context = static_cast<uint64_t>(hp->trained_context);
  report.step_buffer_bytes = decoder_buffer_bytes(*hp, kStepRows, kStepLogits);
  for (const ops::KvType format : kKvFormats) {
    if (!ops::kv_fits(format, hp->head_dim)) continue;
    const std::vector<kv::GroupSpec> groups = kv_groups(*hp, format);
    report.specs[static_cast<size_t>(format)] = groups;
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

}  // namespace banter::model
