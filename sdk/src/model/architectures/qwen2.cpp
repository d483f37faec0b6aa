// Qwen 2 and 2.5.
#include "model/architectures/architecture.h"

namespace banter::model {

void configure_qwen2(MetadataReader&, ArchitectureDraft& draft) {
  draft.hp.qkv_bias = true;
}

}  // namespace banter::model
