// Parses the header of one GGUF file: everything before the tensor data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "formats/gguf.h"

namespace banter::formats {

/** Name to position, ordered rather than hashed: a hostile file cannot make look-ups slow with colliding names. */
using GgufIndex = std::map<std::string, size_t, std::less<>>;

/** The header of one file of a set. */
struct GgufHeader {
  uint32_t version = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  GgufIndex metadata_index;
  std::vector<GgufTensor> tensors;
  GgufIndex tensor_index;
};

/** Reads and checks the header of `source`, with read_at only. `part` is stored in the tensors.
 *  Memory is bounded by the bytes really present (about 12 bytes per byte of header at worst) and by fixed limits.
 *  Errors: as Gguf::open. */
Result<GgufHeader> parse_gguf_header(ByteSource& source, uint32_t part);

}  // namespace banter::formats
