// Llama and what was built on its form: Mistral, SmolLM, Vicuna, …
#include "model/architectures/architecture.h"

namespace banter::model {

void configure_llama(MetadataReader& reader, ArchitectureDraft& draft) {
  RopeConfig& rope = draft.ropes[0];
  rope.adjacent_pairs = true;  // converters permute the rows of Q and K to this order
  rope.divisors = read_rope_divisors(reader, "rope_freqs.weight", rope.rotary_dims);  // Llama 3.1 and later
  // Mistral 7B v0.1; most conversions leave it out.
  const int32_t window = reader.optional_integer("attention.sliding_window", 0, 0, kMaxContext);
  for (LayerKind& layer : draft.hp.layer_kinds) layer.window = window;
}

}  // namespace banter::model
