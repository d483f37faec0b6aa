#include "support/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/quantize.h"

namespace banter::test {
namespace {

enum : uint32_t { kU16 = 2, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10 };

/** Appends an unsigned number, little-endian. */
template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
}

void put_string(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

template <class T>
std::string number(T value) {
  std::string out;
  put(out, value);
  return out;
}

/** The bytes of an array value: element type, count, elements. */
template <class Values, class Put>
std::string array(uint32_t type, const Values& values, Put&& put_one) {
  std::string out;
  put(out, type);
  put(out, static_cast<uint64_t>(values.size()));
  for (const auto& value : values) put_one(out, value);
  return out;
}

}  // namespace

GgufWriter& GgufWriter::set_version(uint32_t version) {
  version_ = version;
  return *this;
}

GgufWriter& GgufWriter::set_alignment(uint32_t alignment) {
  alignment_ = alignment;
  return set_u32("general.alignment", alignment);
}

GgufWriter& GgufWriter::set_raw(std::string_view key, uint32_t type, std::string_view value) {
  metadata_.emplace_back(key, number(type) + std::string(value));
  return *this;
}

GgufWriter& GgufWriter::set_u16(std::string_view key, uint16_t value) {
  return set_raw(key, kU16, number(value));
}
GgufWriter& GgufWriter::set_u32(std::string_view key, uint32_t value) {
  return set_raw(key, kU32, number(value));
}
GgufWriter& GgufWriter::set_u64(std::string_view key, uint64_t value) {
  return set_raw(key, kU64, number(value));
}
GgufWriter& GgufWriter::set_i32(std::string_view key, int32_t value) {
  return set_raw(key, kI32, number(static_cast<uint32_t>(value)));
}
GgufWriter& GgufWriter::set_f32(std::string_view key, float value) {
  return set_raw(key, kF32, number(std::bit_cast<uint32_t>(value)));
}
GgufWriter& GgufWriter::set_bool(std::string_view key, bool value) {
  return set_raw(key, kBool, number(static_cast<uint8_t>(value ? 1 : 0)));
}

GgufWriter& GgufWriter::set_string(std::string_view key, std::string_view value) {
  std::string out;
  put_string(out, value);
  return set_raw(key, kString, out);
}

GgufWriter& GgufWriter::set_strings(std::string_view key, std::span<const std::string> values) {
  return set_raw(key, kArray,
                 array(kString, values, [](std::string& out, const std::string& v) { put_string(out, v); }));
}

GgufWriter& GgufWriter::set_u32s(std::string_view key, std::span<const uint32_t> values) {
  return set_raw(key, kArray, array(kU32, values, [](std::string& out, uint32_t v) { put(out, v); }));
}

GgufWriter& GgufWriter::set_i32s(std::string_view key, std::span<const int32_t> values) {
  return set_raw(key, kArray,
                 array(kI32, values, [](std::string& out, int32_t v) { put(out, static_cast<uint32_t>(v)); }));
}

GgufWriter& GgufWriter::set_f32s(std::string_view key, std::span<const float> values) {
  return set_raw(key, kArray,
                 array(kF32, values, [](std::string& out, float v) { put(out, std::bit_cast<uint32_t>(v)); }));
}

GgufWriter& GgufWriter::set_bools(std::string_view key, std::span<const uint8_t> values) {
  return set_raw(key, kArray, array(kBool, values, [](std::string& out, uint8_t v) { put(out, v); }));
}

GgufWriter& GgufWriter::add_raw(std::string_view name, std::vector<uint64_t> dims, uint32_t type_id,
                                std::vector<std::byte> bytes) {
  tensors_.push_back({std::string(name), std::move(dims), type_id, std::move(bytes)});
  return *this;
}

GgufWriter& GgufWriter::add_tensor(std::string_view name, std::vector<uint64_t> dims, formats::TensorType type,
                                   std::span<const float> values) {
  return add_raw(name, std::move(dims), static_cast<uint32_t>(type), quantize(type, values));
}

GgufWriter& GgufWriter::add_random(std::string_view name, std::vector<uint64_t> dims, formats::TensorType type,
                                   uint64_t seed, float deviation) {
  size_t count = 1;
  for (const uint64_t extent : dims) count *= static_cast<size_t>(extent);
  const std::vector<float> values = random_values(count, seed, deviation);
  return add_tensor(name, std::move(dims), type, values);
}

std::vector<std::byte> GgufWriter::layout(std::span<const Entry> metadata, std::span<const Tensor> tensors) const {
  std::string out = "GGUF";
  put(out, version_);
  put(out, static_cast<uint64_t>(tensors.size()));
  put(out, static_cast<uint64_t>(metadata.size()));
  for (const Entry& entry : metadata) {
    put_string(out, entry.first);
    out += entry.second;
  }
  const auto pad = [this](uint64_t size) { return (size + alignment_ - 1) / alignment_ * alignment_; };
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t extent : tensor.dims) put(out, extent);
    put(out, tensor.type);
    put(out, offset);
    offset += pad(tensor.bytes.size());
  }
  out.resize(pad(out.size()), '\0');
  for (const Tensor& tensor : tensors) {
    out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    out.resize(pad(out.size()), '\0');
  }
  const auto* first = reinterpret_cast<const std::byte*>(out.data());
  return {first, first + out.size()};
}

std::vector<std::byte> GgufWriter::bytes() const {
  return layout(metadata_, tensors_);
}

std::vector<std::vector<std::byte>> GgufWriter::split(uint32_t count) const {
  std::vector<std::vector<std::byte>> parts;
  for (uint32_t part = 0; part < count; ++part) {
    GgufWriter header;
    if (part == 0) header.metadata_ = metadata_;
    if (part != 0 && alignment_ != 32) header.set_u32("general.alignment", static_cast<uint32_t>(alignment_));
    header.set_u16("split.no", static_cast<uint16_t>(part));
    header.set_u16("split.count", static_cast<uint16_t>(count));
    header.set_i32("split.tensors.count", static_cast<int32_t>(tensors_.size()));
    const size_t begin = tensors_.size() * part / count;
    const size_t end = tensors_.size() * (part + 1) / count;
    parts.push_back(layout(header.metadata_, std::span(tensors_).subspan(begin, end - begin)));
  }
  return parts;
}

bool GgufWriter::write(const std::string& path) const {
  return write_file(path, bytes());
}

std::vector<std::string> GgufWriter::write_split(const std::string& stem, uint32_t count) const {
  std::vector<std::string> paths;
  const auto parts = split(count);
  for (uint32_t part = 0; part < count; ++part) {
    char suffix[64];
    std::snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", part + 1, count);
    paths.push_back(stem + suffix);
    if (!write_file(paths.back(), parts[part])) return {};
  }
  return paths;
}

bool write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(std::filesystem::path(std::u8string(path.begin(), path.end())), std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good();
}

}  // namespace banter::test
