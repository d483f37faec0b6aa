// GGUF files in memory, and what is expected of broken ones.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/tensor_type.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace banter::formats {

using test::GgufWriter;
using test::TempFolder;

inline constexpr uint32_t kF32 = 0;

/** A source as a game's callbacks would give it: reads only, no mapping. */
class ReadOnlySource final : public ByteSource {
 public:
  explicit ReadOnlySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    if (failing) return Error{BANTER_ERROR_IO, "the pak is gone."};
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }
  const std::byte* map() override { return nullptr; }
  const std::string& name() const override { return name_; }
  int reads = 0;
  bool failing = false;

 private:
  std::vector<std::byte> bytes_;
  std::string name_ = "pak:/model.gguf";
};

inline Result<Gguf> open_bytes(std::span<const std::byte> bytes) {
  return Gguf::open(borrow_memory(bytes, "m.gguf"), nullptr);
}

/** Opens `bytes`, which must fail with `code` and a message that names the file and contains `part`. */
inline void expect_failure(std::span<const std::byte> bytes, banter_result code, std::string_view part) {
  const auto file = open_bytes(bytes);
  ASSERT_FALSE(file) << "opened where it should say: " << part;
  const std::string& message = file.error().message;
  EXPECT_EQ(file.error().code, code) << message;
  EXPECT_NE(message.find("'m.gguf'"), std::string::npos) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.back(), '.') << message;
}

inline void expect_corrupt(const GgufWriter& writer, std::string_view part) {
  expect_failure(writer.bytes(), BANTER_ERROR_CORRUPT, part);
}

/** Little-endian bytes of a number, for raw values. */
template <class T>
std::string le(T value) {
  std::string out(sizeof(T), '\0');
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
  return out;
}

inline std::vector<std::byte> text_bytes(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/** A file header with any counts, and `rest` behind it. */
inline std::vector<std::byte> header(uint32_t version, uint64_t tensors, uint64_t entries,
                                     const std::string& rest = {}) {
  return text_bytes("GGUF" + le(version) + le(tensors) + le(entries) + rest);
}

/** A small file with every value type and several weight types. */
inline GgufWriter sample() {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama").set_string("text", std::string("zürich\0x", 9));
  writer.set_u16("u16", 65535).set_u32("u32", 4294967295u).set_u64("u64", ~0ull).set_i32("i32", -5);
  writer.set_raw("u8", 0, le<uint8_t>(200)).set_raw("i8", 1, le<uint8_t>(0xFF)).set_raw("i16", 3, le<uint16_t>(0x8000));
  writer.set_raw("i64", 11, le<uint64_t>(1ull << 63)).set_raw("f64", 12, le<uint64_t>(0x3FF8000000000000));
  writer.set_f32("f32", 0.1f).set_bool("yes", true).set_bool("no", false);
  writer.set_strings("strings", std::vector<std::string>{"a", "", "▁the"});
  writer.set_f32s("f32s", std::vector<float>{1.5f, -2.0f}).set_i32s("i32s", std::vector<int32_t>{-1, 2});
  writer.set_u32s("u32s", std::vector<uint32_t>{7, 8, 9}).set_bools("bools", std::vector<uint8_t>{1, 0, 1});
  writer.set_strings("none", {});
  writer.add_random("a.weight", {64, 3}, TensorType::kQ4_0, 1).add_random("b.weight", {5}, TensorType::kF32, 2);
  writer.add_random("c.weight", {256, 2, 3}, TensorType::kQ6_K, 3).add_random("d", {1, 2, 3, 4}, TensorType::kBF16, 4);
  return writer;
}

}  // namespace banter::formats
