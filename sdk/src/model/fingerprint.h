// What tells one model from another: whether numbers computed with the one mean anything to the other.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/gguf.h"
#include "model/model.h"

namespace banter::model {

/** Equal for the same model file, different for another architecture, shape, vocabulary, quantisation, fine-tune, or way
 *  to encode positions (a longer context may choose another). The weights' part looks at samples of every tensor: it
 *  finds any training, but not one number changed by hand. */
struct Fingerprint {
  std::string architecture;
  std::string name;
  uint64_t hyperparameters = 0;
  uint64_t vocabulary = 0;
  uint64_t weights = 0;

  bool operator==(const Fingerprint&) const = default;
};

/** `file` is what `model` was loaded from. Reads about 256 bytes of each tensor. Errors: those of Gguf::read_part(). */
Result<Fingerprint> fingerprint_of(const formats::Gguf& file, const Model& model);

}  // namespace banter::model
