// Qwen 3 (dense).
#include "model/architectures/architecture.h"

namespace banter::model {

void configure_qwen3(MetadataReader&, ArchitectureDraft& draft) {
  draft.hp.qk_norm = true;
}

}  // namespace banter::model
