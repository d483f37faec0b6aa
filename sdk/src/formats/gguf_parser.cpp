// All bytes are hostile: every count is checked against what the file can hold before anything is allocated for it.
#include "formats/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

#include "formats/gguf_cursor.h"
#include "formats/tensor_type.h"

namespace banter::formats {
namespace {

// Limits of our own, far above any real model; they bound work and memory where a huge (perhaps sparse) file would
// otherwise back up absurd counts.
constexpr uint64_t kMaxMetadata = 65536;
constexpr uint64_t kMaxTensors = 1u << 20;
constexpr uint64_t kMaxKeyBytes = 65535;      // GGUF's own rule
constexpr uint64_t kMaxTensorNameBytes = 63;  // GGUF's own rule
constexpr uint64_t kMaxStringBytes = 64u << 20;
constexpr uint64_t kMaxArrayElements = 1u << 25;  // all arrays of a file together
constexpr uint64_t kMaxAlignment = 1u << 30;      // the largest pages of memory there are

// The least that an entry takes in the file, so a count can be refused before a loop over it begins.
constexpr uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;  // key length, one character, type, one byte
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

enum ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/** Bytes of a value in the file; for strings the least possible; 0 for what has no size (arrays, unknown). */
uint64_t least_bytes(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
    case kString:
      return 8;
    default:
      return 0;
  }
}

/** a * b, or nullopt where that exceeds what a file offset can say (2^63 - 1). */
std::optional<uint64_t> checked_product(uint64_t a, uint64_t b) {
  constexpr uint64_t kLimit = std::numeric_limits<int64_t>::max();
  if (a != 0 && b > kLimit / a) return std::nullopt;
  return a * b;
}

class Parser {
 public:
  Parser(ByteSource& source, uint32_t part) : source_(source), cursor_(source), part_(part) {}

  Result<GgufHeader> parse() {
    if (cursor_.size() > uint64_t{std::numeric_limits<int64_t>::max()}) {  // so that sums of offsets below cannot wrap
      return Error{BANTER_ERROR_IO,
                   cursor_.file() + " reports a size of 2^63 bytes or more; correct its size callback."};
    }
    if (auto ok = read_preamble(); !ok) return ok.error();
    if (auto ok = read_metadata(); !ok) return ok.error();
    if (auto ok = find_alignment(); !ok) return ok.error();
    if (auto ok = read_tensors(); !ok) return ok.error();
    if (auto ok = place_tensors(); !ok) return ok.error();
    return std::move(header_);
  }

 private:
  // Sections, in file order.

  Result<void> read_preamble() {
    if (auto ok = read_magic(); !ok) return ok;
    auto version = cursor_.number<uint32_t>();
    if (!version) return version.error();
    // A version has always been a small number, so its bytes tell the byte order.
    if (*version != 0 && (*version & 0xFFFFu) == 0) {
      return Error{
          BANTER_ERROR_UNSUPPORTED,
          cursor_.file() + " is a GGUF of the other byte order (big-endian); get the little-endian file of the model."};
    }
    if (*version == 1) {
      return Error{
          BANTER_ERROR_UNSUPPORTED,
          cursor_.file() + " is a GGUF of version 1, which no current tool writes; convert the model again (v3)."};
    }
    if (*version == 0) return cursor_.corrupt("its version is 0");
    if (*version > 3) {
      return Error{BANTER_ERROR_UNSUPPORTED, cursor_.file() + " is a GGUF of version " + std::to_string(*version) +
                                                 ", newer than the 3 known here; update Banter or use a v3 file."};
    }
    header_.version = *version;
    auto tensors = cursor_.number<uint64_t>();
    if (!tensors) return tensors.error();
    auto entries = cursor_.number<uint64_t>();
    if (!entries) return entries.error();
    tensor_count_ = *tensors;
    metadata_count_ = *entries;
    if (auto ok = check_count(metadata_count_, kMaxMetadata, "metadata entries"); !ok) return ok;
    if (auto ok = check_count(tensor_count_, kMaxTensors, "tensors"); !ok) return ok;
    const uint64_t least = metadata_count_ * kMinMetadataBytes + tensor_count_ * kMinTensorBytes;
    if (least > cursor_.remaining()) {
      return cursor_.truncated("its directory of " + std::to_string(metadata_count_) + " metadata entries and " +
                                   std::to_string(tensor_count_) + " tensors",
                               cursor_.position() + least);
    }
    return {};
  }

  Result<void> check_count(uint64_t count, uint64_t limit, const char* of) const {
    if (count <= limit) return {};
    return cursor_.corrupt("it claims " + std::to_string(count) + " " + of + ", more than the " +
                           std::to_string(limit) + " allowed");
  }

  Result<void> read_magic();

  Result<void> read_metadata() {
    header_.metadata.reserve(static_cast<size_t>(metadata_count_));  // checked against the file's size above
    for (uint64_t index = 0; index < metadata_count_; ++index) {
      cursor_.enter(GgufCursor::Place::kKey, index);
      std::string key;
      if (auto ok = cursor_.string(key, kMaxKeyBytes); !ok) return ok;
      if (key.empty()) return cursor_.corrupt("metadata entry " + std::to_string(index + 1) + " has no name");
      cursor_.enter_value(key);
      auto type = cursor_.number<uint32_t>();
      if (!type) return type.error();
      GgufValue value;
      if (auto ok = *type == kArray ? read_array(value) : read_scalar(*type, value); !ok) return ok;
      if (!header_.metadata_index.emplace(key, header_.metadata.size()).second) {
        return cursor_.corrupt("metadata key " + quote_for_message(key) + " occurs twice");
      }
      header_.metadata.emplace_back(std::move(key), std::move(value));
    }
    return {};
  }

  template <class Stored, class Wide>
  Result<void> scalar(GgufValue& out) {
    auto value = cursor_.number<Stored>();
    if (!value) return value.error();
    out = static_cast<Wide>(*value);
    return {};
  }

  Result<void> read_scalar(uint32_t type, GgufValue& out) {
    switch (type) {
      case kU8:
        return scalar<uint8_t, uint64_t>(out);
      case kI8:
        return scalar<int8_t, int64_t>(out);
      case kU16:
        return scalar<uint16_t, uint64_t>(out);
      case kI16:
        return scalar<int16_t, int64_t>(out);
      case kU32:
        return scalar<uint32_t, uint64_t>(out);
      case kI32:
        return scalar<int32_t, int64_t>(out);
      case kF32:
        return scalar<float, double>(out);
      case kU64:
        return scalar<uint64_t, uint64_t>(out);
      case kI64:
        return scalar<int64_t, int64_t>(out);
      case kF64:
        return scalar<double, double>(out);
      case kBool: {
        auto value = cursor_.number<uint8_t>();
        if (!value) return value.error();
        if (*value > 1) return bad_bool(*value);
        out = *value == 1;
        return {};
      }
      case kString: {
        std::string text;
        if (auto ok = cursor_.string(text, kMaxStringBytes); !ok) return ok;
        out = std::move(text);
        return {};
      }
      default:
        return unknown_value_type(type);
    }
  }

  Error bad_bool(uint8_t value) const {
    return cursor_.corrupt(cursor_.where() + " is a truth value of " + std::to_string(value) +
                           " where only 0 and 1 exist");
  }

  Error unknown_value_type(uint32_t type) const {
    return cursor_.corrupt(cursor_.where() + " has the unknown value type " + std::to_string(type));
  }

  Result<void> read_array(GgufValue& out) {
    auto type = cursor_.number<uint32_t>();
    if (!type) return type.error();
    auto count = cursor_.number<uint64_t>();
    if (!count) return count.error();
    if (*type == kArray)
      return cursor_.corrupt(cursor_.where() + " is an array of arrays, which GGUF readers do not accept");
    const uint64_t element_bytes = least_bytes(*type);
    if (element_bytes == 0) return unknown_value_type(*type);
    if (*count > kMaxArrayElements - array_elements_) {
      return cursor_.corrupt(cursor_.where() + " claims " + std::to_string(*count) + " elements, more than the " +
                             std::to_string(kMaxArrayElements) + " that all arrays of a file may have");
    }
    array_elements_ += *count;
    if (*count * element_bytes > cursor_.remaining())
      return cursor_.truncated(cursor_.where(), cursor_.position() + *count * element_bytes);
    const auto elements = static_cast<size_t>(*count);
    GgufArray array;
    Result<void> ok = read_elements(*type, elements, array);
    if (!ok) return ok;
    out = std::move(array);
    return {};
  }

  template <class Stored, class Wide>
  Result<void> elements(size_t count, GgufArray& out) {
    std::vector<Wide> values;
    values.reserve(count);  // backed by at least `count` bytes of file
    constexpr size_t kChunk = GgufCursor::kWindowBytes / sizeof(Stored);
    while (values.size() < count) {
      const size_t step = std::min(kChunk, count - values.size());
      auto at = cursor_.take(step * sizeof(Stored));
      if (!at) return at.error();
      for (size_t i = 0; i < step; ++i) values.push_back(static_cast<Wide>(load_le<Stored>(*at + i * sizeof(Stored))));
    }
    out = std::move(values);
    return {};
  }

  Result<void> read_elements(uint32_t type, size_t count, GgufArray& out) {
    switch (type) {
      case kU8:
        return elements<uint8_t, uint64_t>(count, out);
      case kI8:
        return elements<int8_t, int64_t>(count, out);
      case kU16:
        return elements<uint16_t, uint64_t>(count, out);
      case kI16:
        return elements<int16_t, int64_t>(count, out);
      case kU32:
        return elements<uint32_t, uint64_t>(count, out);
      case kI32:
        return elements<int32_t, int64_t>(count, out);
      case kF32:
        return elements<float, double>(count, out);
      case kU64:
        return elements<uint64_t, uint64_t>(count, out);
      case kI64:
        return elements<int64_t, int64_t>(count, out);
      case kF64:
        return elements<double, double>(count, out);
      case kBool: {
        std::vector<bool> values(count);
        for (size_t i = 0; i < count; ++i) {
          auto value = cursor_.number<uint8_t>();
          if (!value) return value.error();
          if (*value > 1) return bad_bool(*value);
          values[i] = *value == 1;
        }
        out = std::move(values);
        return {};
      }
      default:
        return read_strings(count, out);
    }
  }

  Result<void> read_strings(size_t count, GgufArray& out) {
    std::vector<std::string> values(count);  // 32 bytes each, backed by at least 8 bytes of file each
    for (std::string& value : values) {
      if (auto ok = cursor_.string(value, kMaxStringBytes); !ok) return ok;
    }
    out = std::move(values);
    return {};
  }

  Result<void> find_alignment() {
    const auto entry = header_.metadata_index.find("general.alignment");
    if (entry == header_.metadata_index.end()) return {};
    const GgufValue& value = header_.metadata[entry->second].second;
    uint64_t alignment = 0;
    if (const auto* wide = std::get_if<uint64_t>(&value)) alignment = *wide;
    if (const auto* wide = std::get_if<int64_t>(&value); wide != nullptr && *wide > 0) {
      alignment = static_cast<uint64_t>(*wide);
    }
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
      return cursor_.corrupt("metadata key 'general.alignment' is not a power of two from 1 to " +
                             std::to_string(kMaxAlignment));
    }
    alignment_ = alignment;
    return {};
  }

  Result<void> read_tensors() {
    header_.tensors.reserve(static_cast<size_t>(tensor_count_));  // checked against the file's size
    for (uint64_t index = 0; index < tensor_count_; ++index) {
      cursor_.enter(GgufCursor::Place::kTensor, index);
      GgufTensor tensor;
      tensor.part = part_;
      if (auto ok = cursor_.string(tensor.name, kMaxTensorNameBytes); !ok) return ok;
      if (tensor.name.empty()) return cursor_.corrupt("tensor " + std::to_string(index + 1) + " has no name");
      if (auto ok = read_shape(tensor); !ok) return ok;
      auto type = cursor_.number<uint32_t>();
      if (!type) return type.error();
      tensor.type = *type;
      if (auto ok = size_tensor(tensor); !ok) return ok;
      auto offset = cursor_.number<uint64_t>();
      if (!offset) return offset.error();
      tensor.offset = *offset;
      if (!header_.tensor_index.emplace(tensor.name, header_.tensors.size()).second) {
        return cursor_.corrupt("tensor " + quote_for_message(tensor.name) + " occurs twice");
      }
      header_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  Result<void> read_shape(GgufTensor& tensor) {
    auto n_dims = cursor_.number<uint32_t>();
    if (!n_dims) return n_dims.error();
    if (*n_dims > 4) {
      return cursor_.corrupt("tensor " + quote_for_message(tensor.name) + " has " + std::to_string(*n_dims) +
                             " dimensions, more than 4");
    }
    tensor.n_dims = *n_dims;
    std::optional<uint64_t> elements = 1;
    for (uint32_t i = 0; i < *n_dims; ++i) {
      auto extent = cursor_.number<uint64_t>();
      if (!extent) return extent.error();
      if (*extent == 0) return cursor_.corrupt("tensor " + quote_for_message(tensor.name) + " has a dimension of 0");
      elements = checked_product(*elements, *extent);
      if (!elements)
        return cursor_.corrupt("the number of elements of tensor " + quote_for_message(tensor.name) + " overflows");
      tensor.dims[i] = *extent;
    }
    return {};
  }

  /** Fills `bytes` from shape and type. */
  Result<void> size_tensor(GgufTensor& tensor) const {
    const BlockLayout* layout = type_layout(tensor.type);
    if (layout == nullptr) return {};
    if (tensor.dims[0] % layout->elements != 0) {
      return cursor_.corrupt("the rows of tensor " + quote_for_message(tensor.name) + " have " +
                             std::to_string(tensor.dims[0]) + " elements, not a whole number of " +
                             std::string(type_name(tensor.type)) + " blocks of " + std::to_string(layout->elements));
    }
    const auto bytes = checked_product(tensor.elements() / layout->elements, layout->bytes);
    if (!bytes) return cursor_.corrupt("the size of tensor " + quote_for_message(tensor.name) + " overflows");
    tensor.bytes = *bytes;
    return {};
  }

  /** Checks that tensors follow each other without overlap or hole, and turns offsets into places in the file. */
  Result<void> place_tensors() {
    if (header_.tensors.empty()) return {};
    const uint64_t data_start = padded(cursor_.position());
    uint64_t expected = 0;  // where the next tensor must begin; at most 2^63 + alignment, so sums do not wrap
    bool exact = true;      // false after a tensor whose size is unknown to us
    const std::string* previous = nullptr;
    for (GgufTensor& tensor : header_.tensors) {
      const std::string name = quote_for_message(tensor.name);
      if (tensor.offset % alignment_ != 0) {
        return cursor_.corrupt("the data of tensor " + name + " begins at " + std::to_string(tensor.offset) +
                               ", which is not a multiple of the alignment " + std::to_string(alignment_));
      }
      if (tensor.offset < expected) {
        return cursor_.corrupt("the data of tensor " + name + " overlaps that of tensor " +
                               quote_for_message(previous != nullptr ? *previous : std::string()));
      }
      if (exact && tensor.offset != expected) {
        return cursor_.corrupt("there is a hole of " + std::to_string(tensor.offset - expected) +
                               " bytes before the data of tensor " + name);
      }
      if (tensor.offset > cursor_.size() || data_start > cursor_.size() - tensor.offset ||
          tensor.bytes > cursor_.size() - tensor.offset - data_start) {
        return truncated_data(tensor, data_start);
      }
      expected = padded(tensor.offset + tensor.bytes);
      exact = type_layout(tensor.type) != nullptr;
      previous = &tensor.name;
      tensor.offset += data_start;
    }
    return {};
  }

  Error truncated_data(const GgufTensor& tensor, uint64_t data_start) const {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();  // an offset may be anything: saturate, never wrap
    uint64_t end = tensor.offset > kMost - data_start ? kMost : tensor.offset + data_start;
    end = tensor.bytes > kMost - end ? kMost : end + tensor.bytes;
    return cursor_.truncated("the data of tensor " + quote_for_message(tensor.name), end);
  }

  uint64_t padded(uint64_t position) const { return (position + alignment_ - 1) & ~(alignment_ - 1); }

  ByteSource& source_;
  GgufCursor cursor_;
  uint32_t part_;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  uint64_t array_elements_ = 0;
  uint64_t alignment_ = 32;
  GgufHeader header_;
};

/** What a file that is no GGUF seems to be, and what to do about it. */
std::string_view guess_kind(std::string_view head) {
  if (head.starts_with("ggjt") || head.starts_with("tjgg") || head.starts_with("lmgg") || head.starts_with("fmgg")) {
    return "it is a GGML file from before GGUF; convert the original model to GGUF";
  }
  if (head.starts_with("FUGG")) return "its bytes are in another order; get the little-endian file of the model";
  if (head.starts_with("version https://git-lfs")) {
    return "it is a Git LFS pointer; run 'git lfs pull' to get the real file";
  }
  if (head.starts_with("<") || head.starts_with("\n<")) {
    return "it is a web page, so the download went wrong; download the file itself";
  }
  if (head.starts_with("PK\x03\x04")) {
    return "it is a zip archive or PyTorch checkpoint; unpack it, or convert the model to GGUF";
  }
  if (head.starts_with("\x1f\x8b")) return "it is compressed with gzip; unpack it first";
  if (head.size() > 8 && head[8] == '{') return "it looks like safetensors; convert the model to GGUF";
  return "it does not begin with 'GGUF'; give the path of a .gguf file";
}

Result<void> Parser::read_magic() {
  constexpr std::string_view kMagic = "GGUF";
  std::byte head[32];
  const auto have = static_cast<size_t>(std::min<uint64_t>(cursor_.size(), sizeof(head)));
  if (auto ok = source_.read_at(0, std::span(head, have)); !ok) return ok;
  const std::string_view text(reinterpret_cast<const char*>(head), have);
  if (have < kMagic.size() && kMagic.starts_with(text)) return cursor_.truncated(cursor_.where(), kMagic.size());
  if (!text.starts_with(kMagic)) {
    return Error{BANTER_ERROR_NOT_A_MODEL,
                 cursor_.file() + " is not a GGUF model: " + std::string(guess_kind(text)) + "."};
  }
  auto magic = cursor_.take(kMagic.size());
  return magic ? Result<void>() : Result<void>(magic.error());
}

}  // namespace

Result<GgufHeader> parse_gguf_header(ByteSource& source, uint32_t part) {
  return Parser(source, part).parse();
}

}  // namespace banter::formats
