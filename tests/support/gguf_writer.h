// Writes GGUF files for tests: to memory, to disk, as split sets, valid or (through the raw calls) broken on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/tensor_type.h"

namespace banter::test {

/** Collects metadata and tensors, then lays out the file. Calls chain; keys and tensors keep their order. */
class GgufWriter {
 public:
  GgufWriter& set_version(uint32_t version);      // default 3
  GgufWriter& set_alignment(uint32_t alignment);  // writes general.alignment, and uses it

  GgufWriter& set_u32(std::string_view key, uint32_t value);
  GgufWriter& set_i32(std::string_view key, int32_t value);
  GgufWriter& set_u64(std::string_view key, uint64_t value);
  GgufWriter& set_u16(std::string_view key, uint16_t value);
  GgufWriter& set_f32(std::string_view key, float value);
  GgufWriter& set_bool(std::string_view key, bool value);
  GgufWriter& set_string(std::string_view key, std::string_view value);
  GgufWriter& set_strings(std::string_view key, std::span<const std::string> values);
  GgufWriter& set_u32s(std::string_view key, std::span<const uint32_t> values);
  GgufWriter& set_i32s(std::string_view key, std::span<const int32_t> values);
  GgufWriter& set_f32s(std::string_view key, std::span<const float> values);
  GgufWriter& set_bools(std::string_view key, std::span<const uint8_t> values);
  /** Any value: `type` is the GGUF value type, `value` its bytes as they stand in the file. */
  GgufWriter& set_raw(std::string_view key, uint32_t type, std::string_view value);

  /** `dims[0]` is the row length. Quantises `values` (as many as the shape says) to `type`. */
  GgufWriter& add_tensor(std::string_view name, std::vector<uint64_t> dims, formats::TensorType type,
                         std::span<const float> values);
  /** A tensor of bell-shaped random weights; the same for the same seed. */
  GgufWriter& add_random(std::string_view name, std::vector<uint64_t> dims, formats::TensorType type, uint64_t seed,
                         float deviation = 0.05f);
  /** A tensor of any type id with its bytes as they stand in the file. */
  GgufWriter& add_raw(std::string_view name, std::vector<uint64_t> dims, uint32_t type_id,
                      std::vector<std::byte> bytes);

  /** The whole file. */
  std::vector<std::byte> bytes() const;
  /** The file cut into `count` parts as gguf-split does: metadata in the first, split keys in all. */
  std::vector<std::vector<std::byte>> split(uint32_t count) const;
  /** Writes bytes() to `path` (UTF-8); false where the system refuses. */
  [[nodiscard]] bool write(const std::string& path) const;
  /** Writes split() as `<stem>-00001-of-0000N.gguf` …; returns the paths, none where the system refuses. */
  std::vector<std::string> write_split(const std::string& stem, uint32_t count) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    std::vector<std::byte> bytes;
  };
  using Entry = std::pair<std::string, std::string>;  // key; type and value as bytes

  std::vector<std::byte> layout(std::span<const Entry> metadata, std::span<const Tensor> tensors) const;

  uint32_t version_ = 3;
  uint64_t alignment_ = 32;
  std::vector<Entry> metadata_;
  std::vector<Tensor> tensors_;
};

/** Writes `bytes` to `path` (UTF-8); false where the system refuses. */
[[nodiscard]] bool write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace banter::test
