#include <array>

#include "model/architectures/architecture.h"

namespace banter::model {

namespace {

constexpr std::array kArchitectures = {
    Architecture{"gemma2", configure_gemma2}, Architecture{"gemma3", configure_gemma3},
    Architecture{"llama", configure_llama},   Architecture{"phi3", configure_phi3},
    Architecture{"qwen2", configure_qwen2},   Architecture{"qwen3", configure_qwen3},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string supported_architectures() {
  std::string list;
  for (const Architecture& architecture : kArchitectures) {
    if (!list.empty()) list += ", ";
    list += architecture.name;
  }
  return list;
}

}  // namespace banter::model
