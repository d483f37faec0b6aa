#include "formats/gguf.h"

#include <cstdio>
#include <limits>
#include <utility>

#include "formats/gguf_cursor.h"
#include "formats/gguf_parser.h"
#include "formats/tensor_type.h"

namespace banter::formats {
namespace {

constexpr uint64_t kMaxParts = 65535;  // split.count is a u16

std::optional<uint64_t> as_uint(const GgufValue& value) {
  if (const auto* wide = std::get_if<uint64_t>(&value)) return *wide;
  if (const auto* wide = std::get_if<int64_t>(&value); wide != nullptr && *wide >= 0)
    return static_cast<uint64_t>(*wide);
  return std::nullopt;
}

/** What a file says about the set that it belongs to. */
struct SplitInfo {
  uint64_t number = 0;
  uint64_t count = 1;
  std::optional<uint64_t> tensors;  // of all parts together
};

Error corrupt(const ByteSource& source, const std::string& what) {
  return {BANTER_ERROR_CORRUPT, "'" + source.name() + "' is damaged or was split by a faulty tool: " + what +
                                    "; download or split the model again."};
}

Result<std::optional<uint64_t>> split_key(const GgufHeader& header, const ByteSource& source, std::string_view key) {
  const auto entry = header.metadata_index.find(key);
  if (entry == header.metadata_index.end()) return std::optional<uint64_t>();
  const auto value = as_uint(header.metadata[entry->second].second);
  if (!value) return corrupt(source, "metadata key '" + std::string(key) + "' is not a whole number from 0 up");
  return value;
}

Result<SplitInfo> split_info(const GgufHeader& header, const ByteSource& source) {
  const auto number = split_key(header, source, "split.no");
  if (!number) return number.error();
  const auto count = split_key(header, source, "split.count");
  if (!count) return count.error();
  const auto tensors = split_key(header, source, "split.tensors.count");
  if (!tensors) return tensors.error();
  SplitInfo info;
  info.number = number->value_or(0);
  info.count = count->value_or(1);
  if (info.count == 0) info.count = 1;  // how some writers say "not split"
  info.tensors = *tensors;
  if (info.count > kMaxParts) {
    return corrupt(source, "it claims to be one of " + std::to_string(info.count) + " parts");
  }
  if (info.number >= info.count) {
    return corrupt(source,
                   "it claims to be part " + std::to_string(info.number + 1) + " of " + std::to_string(info.count));
  }
  return info;
}

/** "-00001-of-00003": 1-based number and count. */
std::string part_suffix(uint64_t number, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "-%05llu-of-%05llu", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(count));
  return text;
}

/** Finds parts beside the first one by the naming that gguf-split gives them. */
Result<std::shared_ptr<ByteSource>> open_sibling(const std::string& first, uint32_t index, uint32_t count) {
  const std::string suffix = part_suffix(1, count);
  const size_t folder = first.find_last_of("/\\");
  const size_t at = first.rfind(suffix);
  if (at == std::string::npos || (folder != std::string::npos && at < folder)) {
    return Error{BANTER_ERROR_FILE_NOT_FOUND, "'" + first + "' is the first of " + std::to_string(count) +
                                                  " parts, which are found by name, but its name lacks '" + suffix +
                                                  "'; give all parts their original names."};
  }
  std::string path = first;
  path.replace(at, suffix.size(), part_suffix(uint64_t{index} + 1, count));
  auto source = open_file(path);
  if (!source && source.error().code == BANTER_ERROR_FILE_NOT_FOUND) {
    return Error{source.error().code, "Part " + std::to_string(index + 1) + " of " + std::to_string(count) +
                                          " of the model is missing: no file at '" + path +
                                          "'; put all parts into one folder under their original names."};
  }
  return source;
}

}  // namespace

Result<Gguf> Gguf::open(const std::string& path) {
  auto source = open_file(path);
  if (!source) return source.error();
  return open(std::move(*source), [&path](uint32_t index, uint32_t count) { return open_sibling(path, index, count); });
}

Result<Gguf> Gguf::open(std::shared_ptr<ByteSource> first, const OpenPart& open_part) {
  auto header = parse_gguf_header(*first, 0);
  if (!header) return header.error();
  const auto info = split_info(*header, *first);
  if (!info) return info.error();
  if (info->number != 0) {
    return Error{BANTER_ERROR_NOT_A_MODEL, "'" + first->name() + "' is part " + std::to_string(info->number + 1) +
                                               " of " + std::to_string(info->count) +
                                               " of a model; open its first part (…" + part_suffix(1, info->count) +
                                               ".gguf)."};
  }
  Gguf file;
  file.version_ = header->version;
  file.metadata_ = std::move(header->metadata);
  file.metadata_index_ = std::move(header->metadata_index);
  file.tensors_ = std::move(header->tensors);
  file.tensor_index_ = std::move(header->tensor_index);
  file.parts_.push_back(std::move(first));
  for (uint64_t part = 1; part < info->count; ++part) {
    if (auto ok = file.add_part(static_cast<uint32_t>(part), static_cast<uint32_t>(info->count), open_part); !ok) {
      return ok.error();
    }
  }
  if (info->tensors && *info->tensors != file.tensors_.size()) {
    return corrupt(*file.parts_[0], "its parts hold " + std::to_string(file.tensors_.size()) + " tensors where " +
                                        std::to_string(*info->tensors) + " are announced");
  }
  return file;
}

Result<void> Gguf::add_part(uint32_t index, uint32_t count, const OpenPart& open_part) {
  if (!open_part) {
    return Error{BANTER_ERROR_FILE_NOT_FOUND, "'" + parts_[0]->name() + "' is the first of " + std::to_string(count) +
                                                  " parts, and no way to open the others was given; join the parts "
                                                  "into one file with gguf-split --merge."};
  }
  auto source = open_part(index, count);
  if (!source) return source.error();
  if (*source == nullptr) return Error{BANTER_ERROR_INTERNAL, "open_part gave no source; please report this."};
  auto header = parse_gguf_header(**source, index);
  if (!header) return header.error();
  const auto info = split_info(*header, **source);
  if (!info) return info.error();
  if (info->number != index || info->count != count) {
    return corrupt(**source, "it says that it is part " + std::to_string(info->number + 1) + " of " +
                                 std::to_string(info->count) + " where part " + std::to_string(index + 1) + " of " +
                                 std::to_string(count) + " is expected");
  }
  if (const auto announced = get_uint("split.tensors.count");
      announced && info->tensors && announced != info->tensors) {
    return corrupt(**source, "it announces " + std::to_string(*info->tensors) + " tensors for the whole model, but '" +
                                 parts_[0]->name() + "' announces " + std::to_string(*announced));
  }
  for (GgufTensor& tensor : header->tensors) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return corrupt(**source, "tensor " + quote_for_message(tensor.name) + " is already in an earlier part");
    }
    tensors_.push_back(std::move(tensor));
  }
  parts_.push_back(std::move(*source));
  return {};
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto entry = metadata_index_.find(key);
  return entry == metadata_index_.end() ? nullptr : &metadata_[entry->second].second;
}

std::optional<uint64_t> Gguf::get_uint(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : as_uint(*value);
}

std::optional<double> Gguf::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<bool> Gguf::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  const bool* truth = value == nullptr ? nullptr : std::get_if<bool>(value);
  return truth == nullptr ? std::nullopt : std::optional<bool>(*truth);
}

const std::string* Gguf::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? nullptr : std::get_if<std::string>(value);
}

const GgufArray* Gguf::get_array(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? nullptr : std::get_if<GgufArray>(value);
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto entry = tensor_index_.find(name);
  return entry == tensor_index_.end() ? nullptr : &tensors_[entry->second];
}

Result<std::span<const std::byte>> Gguf::read(const GgufTensor& tensor, std::vector<std::byte>& scratch) const {
  if (tensor.part >= parts_.size() || tensor.offset > parts_[tensor.part]->size() ||
      tensor.bytes > parts_[tensor.part]->size() - tensor.offset) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT,
                 "Tensor " + quote_for_message(tensor.name) + " is not of this file; pass one of tensors()."};
  }
  ByteSource& source = *parts_[tensor.part];
  if (tensor.bytes == 0) {
    return Error{BANTER_ERROR_UNSUPPORTED_TYPE, "Tensor " + quote_for_message(tensor.name) + " of '" + source.name() +
                                                    "' has " + std::string(type_name(tensor.type)) +
                                                    ", which Banter does not know; use another quantisation."};
  }
  if (tensor.bytes > std::numeric_limits<size_t>::max()) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "Tensor " + quote_for_message(tensor.name) + " of '" + source.name() +
                                                 "' is too large for this machine; use a smaller model."};
  }
  const auto bytes = static_cast<size_t>(tensor.bytes);
  if (const std::byte* all = source.map()) return std::span(all + tensor.offset, bytes);
  scratch.resize(bytes);
  if (auto ok = source.read_at(tensor.offset, scratch); !ok) return ok.error();
  return std::span<const std::byte>(scratch);
}

Result<void> Gguf::read_part(const GgufTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  if (tensor.part >= parts_.size() || offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT,
                 "Tensor " + quote_for_message(tensor.name) + " has no such part; pass one of tensors()."};
  }
  return parts_[tensor.part]->read_at(tensor.offset + offset, out);
}

uint64_t Gguf::file_bytes() const {
  uint64_t total = 0;
  for (const auto& part : parts_) total += part->size();
  return total;
}

}  // namespace banter::formats
