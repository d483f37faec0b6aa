// The supported architectures: each is one small file that sets the switches in which it differs from the common form.
//
// To add one: write architectures/<name>.cpp with a configure function, list it in registry.cpp and CMakeLists.txt, give
// weights.cpp what it stores differently, and add a tiny random model of it to tests/model against an independent
// implementation.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/hyperparameters.h"
#include "model/metadata_reader.h"
#include "model/rope.h"

namespace banter::model {

/** What configure functions fill in beside Hyperparameters: the settings from which ropes are made. */
struct ArchitectureDraft {
  Hyperparameters hp;             // common keys already read; layer_kinds has its size, all full attention
  std::vector<RopeConfig> ropes;  // one, as the common keys describe it; a configure function may add more
};

struct Architecture {
  std::string_view name;  // value of general.architecture
  void (*configure)(MetadataReader& reader, ArchitectureDraft& draft);
};

/** Null for an architecture we do not know. */
const Architecture* find_architecture(std::string_view name);
/** "gemma2, gemma3, …", for messages. */
std::string supported_architectures();

void configure_gemma2(MetadataReader& reader, ArchitectureDraft& draft);
void configure_gemma3(MetadataReader& reader, ArchitectureDraft& draft);
void configure_llama(MetadataReader& reader, ArchitectureDraft& draft);
void configure_phi3(MetadataReader& reader, ArchitectureDraft& draft);
void configure_qwen2(MetadataReader& reader, ArchitectureDraft& draft);
void configure_qwen3(MetadataReader& reader, ArchitectureDraft& draft);

/** Upper limit of windows and contexts in tokens. */
inline constexpr int32_t kMaxContext = 1 << 24;

/** Divisors of rotary frequencies from tensor `name`; empty where the file has no such tensor. Wrong lengths, types and
 *  values are faults of the reader. */
std::vector<float> read_rope_divisors(MetadataReader& reader, std::string_view name, int32_t rotary_dims);

}  // namespace banter::model
