// Gemma 2.
#include <cmath>

#include "model/architectures/architecture.h"

namespace banter::model {

void configure_gemma2(MetadataReader& reader, ArchitectureDraft& draft) {
  Hyperparameters& hp = draft.hp;
  hp.embedding_scale = std::sqrt(static_cast<float>(hp.embedding));
  hp.post_norms = true;
  hp.activation = ops::Activation::kGeluTanh;
  hp.attention_softcap = static_cast<float>(reader.optional_number("attn_logit_softcapping", 50.0, 0.0, 1e6));
  hp.logit_softcap = static_cast<float>(reader.optional_number("final_logit_softcapping", 30.0, 0.0, 1e6));
  constexpr int32_t kLayersOf27B = 46;  // the one size that scales by the width per head instead of head_dim
  if (hp.layers == kLayersOf27B && !reader.has("attention.scale")) {
    hp.attention_scale = 1.0f / std::sqrt(static_cast<float>(hp.embedding) / static_cast<float>(hp.heads));
  }
  const int32_t window = reader.optional_integer("attention.sliding_window", 4096, 0, kMaxContext);
  for (size_t layer = 0; layer < hp.layer_kinds.size(); layer += 2) hp.layer_kinds[layer].window = window;
}

}  // namespace banter::model
