// GGUF headers: values, tensors, and every way in which a file can be wrong. Split sets: gguf_split.test.cpp.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <new>
#include <string_view>
#include <vector>

#include "formats/tensor_type.h"
#include "support/gguf_writer.h"
#include "support/quantize.h"
#include "unit/gguf_fixture.h"

namespace {
/** The largest single allocation since it was last set to 0: shows whether counts from a file are trusted. */
std::atomic<size_t> largest_allocation{0};
}  // namespace

// Not inlined: the compiler would otherwise see malloc beside delete and warn of a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  size_t seen = largest_allocation.load();
  while (bytes > seen && !largest_allocation.compare_exchange_weak(seen, bytes)) {
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace banter::formats {
namespace {

TEST(Gguf, ReadsEveryValueType) {
  for (const uint32_t version : {2u, 3u}) {
    const auto bytes = sample().set_version(version).bytes();
    const auto file = open_bytes(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->file_bytes(), bytes.size());
    EXPECT_EQ(*file->get_string("general.architecture"), "llama");
    EXPECT_EQ(*file->get_string("text"), std::string("zürich\0x", 9));
    EXPECT_EQ(file->get_uint("u8"), 200u);
    EXPECT_EQ(file->get_uint("u16"), 65535u);
    EXPECT_EQ(file->get_uint("u32"), 4294967295u);
    EXPECT_EQ(file->get_uint("u64"), ~0ull);
    EXPECT_EQ(std::get<int64_t>(*file->find("i8")), -1);
    EXPECT_EQ(std::get<int64_t>(*file->find("i16")), -32768);
    EXPECT_EQ(std::get<int64_t>(*file->find("i32")), -5);
    EXPECT_EQ(std::get<int64_t>(*file->find("i64")), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(file->get_float("f32"), static_cast<double>(0.1f));
    EXPECT_EQ(file->get_float("f64"), 1.5);
    EXPECT_EQ(file->get_bool("yes"), true);
    EXPECT_EQ(file->get_bool("no"), false);
    EXPECT_EQ(std::get<std::vector<std::string>>(*file->get_array("strings")),
              (std::vector<std::string>{"a", "", "▁the"}));
    EXPECT_EQ(std::get<std::vector<double>>(*file->get_array("f32s")), (std::vector<double>{1.5, -2}));
    EXPECT_EQ(std::get<std::vector<int64_t>>(*file->get_array("i32s")), (std::vector<int64_t>{-1, 2}));
    EXPECT_EQ(std::get<std::vector<uint64_t>>(*file->get_array("u32s")), (std::vector<uint64_t>{7, 8, 9}));
    EXPECT_EQ(std::get<std::vector<bool>>(*file->get_array("bools")), (std::vector<bool>{true, false, true}));
    EXPECT_TRUE(std::get<std::vector<std::string>>(*file->get_array("none")).empty());
    EXPECT_EQ(file->metadata().front().first, "general.architecture");  // file order
    EXPECT_EQ(file->metadata().back().first, "none");
  }
}

TEST(Gguf, TypedAccessRefusesOtherFamiliesAndRanges) {
  const auto bytes = sample().bytes();
  const auto file = open_bytes(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->get_uint("i32"), std::nullopt);  // negative
  EXPECT_EQ(file->get_uint("f32"), std::nullopt);
  EXPECT_EQ(file->get_uint("yes"), std::nullopt);
  EXPECT_EQ(file->get_uint("absent"), std::nullopt);
  EXPECT_EQ(file->get_float("i32"), -5.0);
  EXPECT_EQ(file->get_float("text"), std::nullopt);
  EXPECT_EQ(file->get_bool("u8"), std::nullopt);
  EXPECT_EQ(file->get_string("u8"), nullptr);
  EXPECT_EQ(file->get_array("text"), nullptr);
  EXPECT_EQ(file->find(""), nullptr);
}

TEST(Gguf, TensorsHaveTheirShapesAndBytes) {
  const auto bytes = sample().bytes();
  const auto callbacks = std::make_shared<ReadOnlySource>(bytes);
  for (const std::shared_ptr<ByteSource>& source :
       {borrow_memory(bytes, "m.gguf"), std::shared_ptr<ByteSource>(callbacks)}) {
    const auto file = Gguf::open(source, nullptr);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->tensors().size(), 4u);
    const GgufTensor* tensor = file->find_tensor("c.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->n_dims, 3u);
    EXPECT_EQ(tensor->dims[0], 256u);
    EXPECT_EQ(tensor->dims[2], 3u);
    EXPECT_EQ(tensor->dims[3], 1u);
    EXPECT_EQ(tensor->elements(), 1536u);
    EXPECT_EQ(tensor->bytes, 6u * 210);
    EXPECT_EQ(file->find_tensor("e.weight"), nullptr);
    std::vector<std::byte> scratch;
    const auto data = file->read(*tensor, scratch);
    ASSERT_TRUE(data) << data.error().message;
    const auto expected = test::quantize(TensorType::kQ6_K, test::random_values(1536, 3, 0.05f));
    ASSERT_EQ(data->size(), expected.size());
    EXPECT_EQ(std::memcmp(data->data(), expected.data(), expected.size()), 0);
  }
  // A source without mapping is read in large pieces, not a value at a time: callbacks can be slow.
  EXPECT_LT(callbacks->reads, 8);
}

TEST(Gguf, FailuresOfTheSourceArePassedOn) {
  const auto source = std::make_shared<ReadOnlySource>(sample().bytes());
  source->failing = true;
  auto file = Gguf::open(source, nullptr);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, BANTER_ERROR_IO);
  EXPECT_EQ(file.error().message, "the pak is gone.");
  source->failing = false;
  file = Gguf::open(source, nullptr);
  ASSERT_TRUE(file);
  source->failing = true;
  std::vector<std::byte> scratch;
  EXPECT_EQ(file->read(file->tensors()[0], scratch).error().code, BANTER_ERROR_IO);
  GgufTensor forged = file->tensors()[0];
  forged.bytes = ~0ull;
  EXPECT_EQ(file->read(forged, scratch).error().code, BANTER_ERROR_INVALID_ARGUMENT);
  forged.part = 7;
  EXPECT_EQ(file->read(forged, scratch).error().code, BANTER_ERROR_INVALID_ARGUMENT);
}

TEST(Gguf, FileThatShrinksAfterOpeningIsAnErrorOfReading) {
  const TempFolder folder;
  const auto bytes = sample().bytes();
  ASSERT_TRUE(test::write_file(folder.file("m.gguf"), bytes));
  const auto file = Gguf::open(folder.file("m.gguf"));
  ASSERT_TRUE(file);
  std::vector<std::byte> scratch;
  ASSERT_TRUE(file->read(file->tensors()[0], scratch));
  std::error_code error;
  std::filesystem::resize_file(folder.file("m.gguf"), file->tensors()[2].offset, error);
  ASSERT_FALSE(error);
  EXPECT_TRUE(file->read(file->tensors()[0], scratch));  // what is left is still right
  const auto lost = file->read(file->tensors()[3], scratch);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, BANTER_ERROR_FILE_TRUNCATED) << lost.error().message;
}

TEST(Gguf, TruncationAnywhereSaysSo) {
  const auto bytes = sample().bytes();
  const auto whole = open_bytes(bytes);
  ASSERT_TRUE(whole);
  const GgufTensor& last = whole->tensors().back();
  const size_t needed = static_cast<size_t>(last.offset + last.bytes);
  for (size_t size = 0; size < needed; ++size) {
    const auto file = open_bytes(std::span(bytes).first(size));
    ASSERT_FALSE(file) << size;
    ASSERT_EQ(file.error().code, BANTER_ERROR_FILE_TRUNCATED) << size << file.error().message;
    ASSERT_NE(file.error().message.find("'m.gguf' is truncated"), std::string::npos) << file.error().message;
    ASSERT_NE(file.error().message.find(" has " + std::to_string(size) + ";"), std::string::npos)
        << file.error().message;
  }
  // The padding behind the last tensor holds nothing, and some writers leave it out.
  EXPECT_TRUE(open_bytes(std::span(bytes).first(needed)));
  expect_failure(std::span(bytes).first(needed - 1), BANTER_ERROR_FILE_TRUNCATED, "tensor 'd'");
  expect_failure(std::span(bytes).first(needed - 1), BANTER_ERROR_FILE_TRUNCATED, std::to_string(needed));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t in_value = text.find("none") + 4 + 4 + 4;  // behind the key, its type, and the type of the elements
  expect_failure(std::span(bytes).first(in_value), BANTER_ERROR_FILE_TRUNCATED, "the value of metadata key 'none'");
  expect_failure(std::span(bytes).first(text.find("c.weight")), BANTER_ERROR_FILE_TRUNCATED, "entry of tensor 3");
}

TEST(Gguf, AbsurdCountsFailAtOnceAndAllocateNothing) {
  const uint64_t huge = 1ull << 60;
  const std::string key = le<uint64_t>(1) + "k";
  const std::vector<std::pair<std::vector<std::byte>, banter_result>> files = {
      {header(3, 0, huge, std::string(76, '\0')), BANTER_ERROR_CORRUPT},
      {header(3, huge, 0, std::string(76, '\0')), BANTER_ERROR_CORRUPT},
      {header(3, 0, 65536, std::string(76, '\0')), BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 1u << 20, 0, std::string(76, '\0')), BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 0, 1, le(huge) + std::string(60, 'k')), BANTER_ERROR_CORRUPT},                    // key length
      {header(3, 0, 1, le<uint64_t>(65535) + std::string(60, 'k')), BANTER_ERROR_FILE_TRUNCATED},  // key length
      {header(3, 0, 1, key + le<uint32_t>(8) + le(huge) + "abc"), BANTER_ERROR_CORRUPT},           // string length
      {header(3, 0, 1, key + le<uint32_t>(8) + le<uint64_t>(60u << 20) + "abc"), BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 0, 1, key + le<uint32_t>(9) + le<uint32_t>(8) + le(huge) + "abc"), BANTER_ERROR_CORRUPT},
      {header(3, 0, 1, key + le<uint32_t>(9) + le<uint32_t>(8) + le<uint64_t>(1u << 24) + "abc"),
       BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 0, 1, key + le<uint32_t>(9) + le<uint32_t>(0) + le<uint64_t>(1u << 25) + "abc"),
       BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 0, 1, key + le<uint32_t>(9) + le<uint32_t>(7) + le<uint64_t>(1u << 25) + "abc"),
       BANTER_ERROR_FILE_TRUNCATED},
      {header(3, 1, 0, le(huge) + std::string(60, 't')), BANTER_ERROR_CORRUPT},  // tensor name length
  };
  for (const auto& [bytes, code] : files) {
    largest_allocation = 0;
    const auto file = open_bytes(bytes);
    EXPECT_LT(largest_allocation.load(), 4096u);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, code) << file.error().message;
  }
}

TEST(Gguf, MemoryStaysProportionalToTheFile) {
  // Arrays of the smallest elements grow most when widened; all of it must be backed by bytes of the file.
  const std::string array = le<uint64_t>(1) + "k" + le<uint32_t>(9) + le<uint32_t>(0) + le<uint64_t>(1 << 20);
  const auto bytes = header(3, 0, 1, array + std::string(1 << 20, '\1'));
  largest_allocation = 0;
  ASSERT_TRUE(open_bytes(bytes));
  EXPECT_LE(largest_allocation.load(), 8u * bytes.size());
}

TEST(Gguf, OtherFilesAreNamedForWhatTheyAre) {
  const std::string rest(100, 'x');
  const auto kind = [&](const std::string& head, std::string_view part) {
    expect_failure(text_bytes(head + rest), BANTER_ERROR_NOT_A_MODEL, part);
  };
  kind("hello", "does not begin with 'GGUF'");
  kind("<!DOCTYPE html>", "web page");
  kind("version https://git-lfs.github.com/spec/v1", "Git LFS");
  kind("PK\x03\x04", "zip");
  kind("\x1f\x8b\x08", "gzip");
  kind("ggjt", "before GGUF");
  kind("FUGG", "another order");
  kind(le<uint64_t>(90) + "{\"__metadata__\"", "safetensors");
  expect_failure(text_bytes("GGX"), BANTER_ERROR_NOT_A_MODEL, "GGUF");
  expect_failure({}, BANTER_ERROR_FILE_TRUNCATED, "has 0");
}

TEST(Gguf, VersionsAndByteOrderAreToldApart) {
  const std::string rest(64, '\0');
  expect_failure(header(1, 0, 0, rest), BANTER_ERROR_UNSUPPORTED, "version 1");
  expect_failure(header(4, 0, 0, rest), BANTER_ERROR_UNSUPPORTED, "version 4");
  expect_failure(header(0, 0, 0, rest), BANTER_ERROR_CORRUPT, "version is 0");
  expect_failure(header(3u << 24, 0, 0, rest), BANTER_ERROR_UNSUPPORTED, "byte order");
  expect_failure(header(2u << 24, 0, 0, rest), BANTER_ERROR_UNSUPPORTED, "byte order");
  const auto empty = header(3, 0, 0);
  EXPECT_TRUE(open_bytes(empty));  // nothing in it, but nothing wrong with it
}

TEST(Gguf, BrokenMetadataIsCorrupt) {
  expect_corrupt(GgufWriter().set_u32("k", 1).set_u32("k", 2), "'k' occurs twice");
  expect_corrupt(GgufWriter().set_u32("", 1), "no name");
  expect_corrupt(GgufWriter().set_u32(std::string(65536, 'k'), 1), "65536 bytes");
  EXPECT_TRUE(open_bytes(GgufWriter().set_u32(std::string(65535, 'k'), 1).bytes()));
  expect_corrupt(GgufWriter().set_raw("k", 13, le<uint64_t>(0)), "value type 13");
  expect_corrupt(GgufWriter().set_raw("k", 7, "\2"), "truth value of 2");
  expect_corrupt(GgufWriter().set_raw("k", 9, le<uint32_t>(7) + le<uint64_t>(2) + "\1\2"), "truth value of 2");
  expect_corrupt(GgufWriter().set_raw("k", 9, le<uint32_t>(13) + le<uint64_t>(1) + "\1"), "value type 13");
  const std::string inner = le<uint32_t>(4) + le<uint64_t>(1) + le<uint32_t>(5);
  expect_corrupt(GgufWriter().set_raw("nest", 9, le<uint32_t>(9) + le<uint64_t>(1) + inner), "array of arrays");
  // Names are hostile too: control characters must not reach a log or a terminal.
  expect_corrupt(GgufWriter().set_raw("a\x1b[31m\n", 13, ""), "'a\\x1b[31m\\x0a'");
}

TEST(Gguf, AlignmentMustBeAPowerOfTwo) {
  for (const uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufWriter writer;
    writer.set_alignment(alignment).add_random("a", {3}, TensorType::kF32, 1).add_random("b", {3}, TensorType::kF16, 2);
    const auto bytes = writer.bytes();
    const auto file = open_bytes(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tensors()[1].offset % alignment, 0u);
    std::vector<std::byte> scratch;
    const auto expected = test::quantize(TensorType::kF16, test::random_values(3, 2, 0.05f));
    EXPECT_TRUE(std::ranges::equal(*file->read(file->tensors()[1], scratch), expected));
  }
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 31}) {
    expect_corrupt(GgufWriter().set_u32("general.alignment", alignment), "power of two");
  }
  expect_corrupt(GgufWriter().set_i32("general.alignment", -32), "power of two");
  expect_corrupt(GgufWriter().set_string("general.alignment", "32"), "power of two");
  EXPECT_TRUE(open_bytes(GgufWriter().set_u64("general.alignment", 32).bytes()));  // any integer type
}

/** One directory entry. */
std::string entry(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  std::string out = le<uint64_t>(name.size()) + name + le(static_cast<uint32_t>(dims.size()));
  for (const uint64_t extent : dims) out += le(extent);
  return out + le(type) + le(offset);
}

void expect_directory(const std::vector<std::string>& entries, banter_result code, std::string_view part) {
  std::string rest;
  for (const std::string& e : entries) rest += e;
  expect_failure(header(3, entries.size(), 0, rest + std::string(4096, '\0')), code, part);
}

TEST(Gguf, BrokenTensorEntriesAreCorrupt) {
  const auto corrupt = [](const std::vector<std::string>& entries, std::string_view part) {
    expect_directory(entries, BANTER_ERROR_CORRUPT, part);
  };
  corrupt({entry("", {4}, kF32, 0)}, "no name");
  corrupt({entry(std::string(64, 't'), {4}, kF32, 0)}, "64 bytes");
  corrupt({entry("t", {4}, kF32, 0), entry("t", {4}, kF32, 32)}, "'t' occurs twice");
  corrupt({entry("t", {4, 1, 1, 1, 1}, kF32, 0)}, "5 dimensions");
  corrupt({entry("t", {4, 0}, kF32, 0)}, "dimension of 0");
  corrupt({entry("t", {1ull << 32, 1ull << 32}, kF32, 0)}, "overflows");
  corrupt({entry("t", {1ull << 31, 1ull << 31, 1ull << 31, 1ull << 31}, kF32, 0)}, "overflows");
  corrupt({entry("t", {~0ull}, kF32, 0)}, "overflows");
  corrupt({entry("t", {1ull << 62}, kF32, 0)}, "overflows");  // as bytes
  corrupt({entry("t", {1ull << 63}, kF32, 0)}, "overflows");
  corrupt({entry("t", {48}, 2, 0)}, "blocks of 32");
  corrupt({entry("t", {128, 2}, 12, 0)}, "Q4_K blocks of 256");
  corrupt({entry("t", {4}, kF32, 16)}, "multiple of the alignment 32");
  corrupt({entry("a", {16}, kF32, 0), entry("b", {4}, kF32, 32)}, "'b' overlaps that of tensor 'a'");
  corrupt({entry("a", {4}, kF32, 32), entry("b", {4}, kF32, 0)}, "hole of 32 bytes before the data of tensor 'a'");
  corrupt({entry("a", {4}, kF32, 0), entry("b", {4}, kF32, 64)}, "hole of 32 bytes before the data of tensor 'b'");
  corrupt({entry("a", {4}, kF32, 0), entry("b", {4}, kF32, ~31ull)}, "hole");
  expect_directory({entry("t", {1ull << 60}, kF32, 0)}, BANTER_ERROR_FILE_TRUNCATED, "tensor 't'");
  expect_directory({entry("a", {8}, kF32, 0), entry("b", {5000}, kF32, 32)}, BANTER_ERROR_FILE_TRUNCATED, "'b'");
}

TEST(Gguf, TypesBeyondOursAreListedButNotRead) {
  // IQ2_XS: GGUF defines it, we cannot compute with it, its size is known. Type 77: nobody knows.
  const std::string rest = entry("a", {256}, 17, 0) + entry("b", {10}, 77, 96) + entry("c", {4}, kF32, 960);
  const auto bytes = header(3, 3, 0, rest + std::string(4096, '\7'));
  const auto file = open_bytes(bytes);
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::byte> scratch;
  EXPECT_EQ(file->find_tensor("a")->bytes, 74u);
  EXPECT_TRUE(file->read(*file->find_tensor("a"), scratch));
  EXPECT_EQ(file->find_tensor("b")->bytes, 0u);
  const auto unknown = file->read(*file->find_tensor("b"), scratch);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, BANTER_ERROR_UNSUPPORTED_TYPE);
  EXPECT_NE(unknown.error().message.find("type 77"), std::string::npos) << unknown.error().message;
  EXPECT_EQ(file->read(*file->find_tensor("c"), scratch)->size(), 16u);
  expect_directory({entry("a", {10}, 77, 64), entry("b", {4}, kF32, 32)}, BANTER_ERROR_CORRUPT, "hole");
  expect_directory({entry("a", {10}, 77, 0), entry("b", {4}, 77, 1ull << 40)}, BANTER_ERROR_FILE_TRUNCATED, "'b'");
}

TEST(Gguf, MutationsNeverCrashAndKeepTensorsInBounds) {
  const auto original = sample().bytes();
  const size_t directory_end = static_cast<size_t>(open_bytes(original)->tensors()[0].offset);
  const auto random = test::random_bytes(4 * 20'000, 11);
  int opened = 0;
  for (size_t round = 0; round < 20'000; ++round) {
    auto bytes = original;
    const auto* r = reinterpret_cast<const uint8_t*>(random.data()) + 4 * round;
    for (int i = 0; i < 1 + r[3] % 2; ++i) bytes[(r[i] * 256u + r[i + 1]) % directory_end] = std::byte{r[2]};
    const auto file = open_bytes(bytes);
    if (!file) continue;
    ++opened;
    std::vector<std::byte> scratch;
    for (const GgufTensor& tensor : file->tensors()) {
      const auto data = file->read(tensor, scratch);
      const TypeTraits* traits = type_traits(tensor.type);
      if (!data || traits == nullptr) continue;
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      dequantize(traits->type, data->data(), values.data(), values.size());
    }
  }
  EXPECT_GT(opened, 1000);
}

TEST(Gguf, LargeVocabulariesLoadFast) {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (int i = 0; i < 160'000; ++i) {
    tokens.push_back("token" + std::to_string(i));
    merges.push_back("left" + std::to_string(i) + " right");
  }
  GgufWriter writer;
  writer.set_strings("tokenizer.ggml.tokens", tokens).set_strings("tokenizer.ggml.merges", merges);
  writer.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(tokens.size(), 1));
  const auto bytes = writer.bytes();
  const std::clock_t begin = std::clock();  // processor time: other programs may be busy
  const auto file = open_bytes(bytes);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(std::get<std::vector<std::string>>(*file->get_array("tokenizer.ggml.tokens")).back(), "token159999");
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 0.3);
#endif
}

// Split sets.

}  // namespace
}  // namespace banter::formats
