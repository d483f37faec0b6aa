// What a model file holds and needs, as numbers: the part of `banter inspect` that does not print.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "model/kv_report.h"

namespace banter::tools {

/** Where weights are used. */
enum class ModelPart : uint8_t { kEmbedding, kAttention, kFeedForward, kOutput, kNorms, kOther };
inline constexpr size_t kModelParts = 6;
std::string_view part_name(ModelPart part);
/** The part that a tensor belongs to, by its name. */
ModelPart part_of(std::string_view tensor_name);

/** Some tensors together. */
struct Tally {
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;
};

using model::kKvFormats, model::KvLayers, model::KvReport;

struct ModelReport {
  std::array<Tally, kModelParts> parts;
  std::vector<std::pair<std::string, Tally>> types;  // by GGUF type, most bytes first
  Tally total;
  bool tied_output = false;  // the embedding serves as output matrix
  std::optional<KvReport> kv;
  std::string kv_missing;  // why there is none
};

ModelReport analyse(const formats::Gguf& file);

/** How many characters fit `budget` bytes beside `weights` and one shared prefix. */
uint64_t characters_that_fit(const KvReport& kv, ops::KvType format, uint64_t budget, uint64_t weights, uint64_t tokens,
                             uint64_t prefix);

/** Context lengths worth showing: 1024, 2048, … up to and with `trained`. */
std::vector<uint64_t> context_steps(uint64_t trained);

}  // namespace banter::tools
