// GGUF v2 and v3: metadata, tensor directory and bytes, from one file or from a split set. All input is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace banter::formats {

/** A metadata array; one vector per element family. Integers of any width are widened to 64 bits. */
using GgufArray = std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, std::vector<bool>>;
/** A metadata value; integers of any width are widened, f32 becomes double exactly. */
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray>;

struct GgufTensor {
  std::string name;
  uint32_t type = 0;  // GGUF type id; may be one we cannot compute with (see type_traits)
  uint32_t n_dims = 0;
  uint64_t dims[4] = {1, 1, 1, 1};  // dims[0] is the fastest: the row length ("in"); dims[1] = rows ("out")
  uint32_t part = 0;                // index of the split file that holds it
  uint64_t offset = 0;              // from the start of that file; in bounds
  uint64_t bytes = 0;               // 0 when the type is unknown to GGUF as we know it (see type_layout)
  uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/** Opens part `index` (0-based) of a split set of `count` files, given the first. */
using OpenPart = std::function<Result<std::shared_ptr<ByteSource>>(uint32_t index, uint32_t count)>;

/** A parsed GGUF. Immutable after open; keeps its sources alive. find/get may be called from any threads at once;
 *  read() from one at a time, because the sources promise no more. */
class Gguf {
 public:
  /** Parses `first`; where it says that it is split, opens the other parts with `open_part`.
   *  Errors: NOT_A_MODEL, FILE_TRUNCATED, CORRUPT, UNSUPPORTED (version, endianness), each naming file, key or tensor;
   *  and what the sources and `open_part` return. Only headers are read, so this is fast; memory is bounded by what the
   *  files really hold. Limits on counts and lengths: sdk/docs/model-formats.md. */
  static Result<Gguf> open(std::shared_ptr<ByteSource> first, const OpenPart& open_part);
  /** The usual way: a path; parts are found beside it by the -00001-of-0000N naming. */
  static Result<Gguf> open(const std::string& path);

  const GgufValue* find(std::string_view key) const;
  /** Typed access that accepts any integer width; nullopt when absent or of another family or out of range. */
  std::optional<uint64_t> get_uint(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;  // integers convert
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const GgufArray* get_array(std::string_view key) const;
  /** Keys in file order, for inspection. */
  std::span<const std::pair<std::string, GgufValue>> metadata() const { return metadata_; }

  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;
  /** Bytes of a tensor: a view of the mapping where the source maps, else read into `scratch`. The view may have any
   *  alignment, is borrowed until this object or `scratch` goes, and carries the hazard told at open_file().
   *  Errors: FILE_TRUNCATED, IO, UNSUPPORTED_TYPE (a type whose size we do not know), INVALID_ARGUMENT (not ours). */
  Result<std::span<const std::byte>> read(const GgufTensor& tensor, std::vector<std::byte>& scratch) const;
  /** Copies a part of a tensor's bytes, from `offset` of it on. Errors: as read(). */
  Result<void> read_part(const GgufTensor& tensor, uint64_t offset, std::span<std::byte> out) const;
  /** The format version of the first file (2 or 3). */
  uint32_t version() const { return version_; }
  /** Total size of all parts. */
  uint64_t file_bytes() const;

 private:
  /** Opens part `index` of `count`, checks that it belongs here, and takes its tensors. */
  Result<void> add_part(uint32_t index, uint32_t count, const OpenPart& open_part);

  uint32_t version_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::map<std::string, size_t, std::less<>> metadata_index_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
  std::vector<std::shared_ptr<ByteSource>> parts_;
};

}  // namespace banter::formats
