// Weight types as they stand in files, and their exact meaning: dequantisation by definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace banter::formats {

/** Element types of tensors; the values are GGUF's type ids. */
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct TypeTraits {
  TensorType type;
  std::string_view name;    // as GGUF tools print it: "Q4_K"
  uint32_t block_elements;  // elements a block holds (1 for the float types)
  uint32_t block_bytes;
};

/** Traits of a GGUF type id, or nullptr for a type we cannot read. */
const TypeTraits* type_traits(uint32_t gguf_type_id);
inline const TypeTraits& type_traits(TensorType type) {
  return *type_traits(static_cast<uint32_t>(type));
}

/** Name of any GGUF type id, known to us or not ("IQ2_XS", "type 77"), for messages. Ids above 255: "unknown type". */
std::string_view type_name(uint32_t gguf_type_id);

/** Block geometry of a GGUF type id. */
struct BlockLayout {
  uint32_t elements;
  uint32_t bytes;
};

/** Geometry of any type that GGUF defines, those that we cannot compute with included; nullptr for other ids. */
const BlockLayout* type_layout(uint32_t gguf_type_id);

/** All types we read, for tests and tables. */
std::span<const TypeTraits> all_types();

/** Dequantises `count` elements (a whole number of blocks) from `blocks` into `out`, bit-equal to the format's
 *  definition evaluated in float32 (formulas: sdk/docs/model-formats.md). `blocks` may have any alignment. */
void dequantize(TensorType type, const std::byte* blocks, float* out, size_t count);

}  // namespace banter::formats
