// Phi-3, Phi-3.5, Phi-4 and Phi-4-mini (dense).
#include "model/architectures/architecture.h"

namespace banter::model {

void configure_phi3(MetadataReader& reader, ArchitectureDraft& draft) {
  Hyperparameters& hp = draft.hp;
  hp.fused_qkv = true;
  hp.fused_gate_up = true;
  RopeConfig& rope = draft.ropes[0];
  // The long factors serve contexts beyond the one the model was first trained with, the short ones shorter contexts.
  const bool is_long = hp.context > rope.original_context;
  rope.divisors =
      read_rope_divisors(reader, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight", rope.rotary_dims);
  const int32_t window = reader.optional_integer("attention.sliding_window", 0, 0, kMaxContext);
  for (LayerKind& layer : hp.layer_kinds) layer.window = window;
}

}  // namespace banter::model
