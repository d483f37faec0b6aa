// Typed, range-checked access to one architecture's metadata, for the code that reads hyper-parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace banter::model {

/** Reads keys below "<architecture>.". The first fault is remembered and every getter goes on with a harmless value, so
 *  callers read everything in a row and ask for error() once. Per-layer arrays count as one value where all are equal.
 *  Borrows the file. */
class MetadataReader {
 public:
  MetadataReader(const formats::Gguf& file, std::string architecture);

  /** An integer in [min, max]; missing or out of range is a fault, and `min` is returned. */
  int32_t required_integer(std::string_view key, int32_t min, int32_t max);
  /** As above, or `fallback` (not checked) when the key is missing. */
  int32_t optional_integer(std::string_view key, int32_t fallback, int32_t min, int32_t max);
  /** A finite number in [min, max], or `fallback` when the key is missing. */
  double optional_number(std::string_view key, double fallback, double min, double max);
  /** A string, or "" when the key is missing. */
  std::string optional_text(std::string_view key);
  /** A per-layer array of booleans or numbers (not 0 = true); nullopt when the key is missing or not an array. */
  std::optional<std::vector<bool>> optional_flags(std::string_view key, int32_t layers);
  bool has(std::string_view key) const;

  /** Records a fault unless there was one already. */
  void fail(banter_result code, std::string message);
  const std::optional<Error>& error() const { return error_; }
  const formats::Gguf& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }

 private:
  std::string full_key(std::string_view key) const { return architecture_ + "." + std::string(key); }
  /** The number of a key; an array of equal numbers counts as one. nullopt: missing, or a fault was recorded. */
  std::optional<double> number(std::string_view key);

  const formats::Gguf& file_;
  std::string architecture_;
  std::optional<Error> error_;
};

}  // namespace banter::model
