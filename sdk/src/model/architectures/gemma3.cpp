// Gemma 3 (text).
#include <cmath>

#include "model/architectures/architecture.h"

namespace banter::model {

void configure_gemma3(MetadataReader& reader, ArchitectureDraft& draft) {
  Hyperparameters& hp = draft.hp;
  hp.embedding_scale = std::sqrt(static_cast<float>(hp.embedding));
  hp.post_norms = true;
  hp.qk_norm = true;
  hp.activation = ops::Activation::kGeluTanh;
  hp.attention_softcap = static_cast<float>(reader.optional_number("attn_logit_softcapping", 0.0, 0.0, 1e6));
  hp.logit_softcap = static_cast<float>(reader.optional_number("final_logit_softcapping", 0.0, 0.0, 1e6));
  constexpr int32_t kLayersOf27B = 62;  // the one size that scales by the width per head instead of head_dim
  if (hp.layers == kLayersOf27B && !reader.has("attention.scale")) {
    hp.attention_scale = 1.0f / std::sqrt(static_cast<float>(hp.embedding) / static_cast<float>(hp.heads));
  }

  // Five local layers, then a global one. Local layers turn at their own base and are never scaled.
  RopeConfig local = draft.ropes[0];
  local.base = reader.optional_number("rope.freq_base_swa", 10000.0, 1.001, 1e12);
  local.scaling = RopeScaling::kNone;
  local.factor = 1.0;
  local.attention_factor = 1.0;
  draft.ropes.push_back(local);
  const int32_t window = reader.required_integer("attention.sliding_window", 0, kMaxContext);
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const std::optional<std::vector<bool>> flags = reader.optional_flags(kPattern, hp.layers);
  const int32_t period = flags ? 6 : reader.optional_integer(kPattern, 6, 1, 1 << 16);
  for (int32_t i = 0; i < hp.layers; ++i) {
    const bool is_local = flags ? (*flags)[static_cast<size_t>(i)] : (i + 1) % period != 0;
    LayerKind& layer = hp.layer_kinds[static_cast<size_t>(i)];
    layer.window = is_local ? window : 0;
    layer.rope = is_local ? 1 : 0;
  }
}

}  // namespace banter::model
