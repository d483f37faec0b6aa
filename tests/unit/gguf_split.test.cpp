// GGUF models in several files, and files of another quantiser.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "support/quantize.h"
#include "unit/gguf_fixture.h"

namespace banter::formats {
namespace {

/** Opens a set given as bytes; `opened` counts what was asked for. */
Result<Gguf> open_parts(const std::vector<std::vector<std::byte>>& parts, size_t first = 0) {
  return Gguf::open(borrow_memory(parts[first], "m.gguf"),
                    [&](uint32_t index, uint32_t) -> Result<std::shared_ptr<ByteSource>> {
                      if (index >= parts.size()) return Error{BANTER_ERROR_FILE_NOT_FOUND, "no such part."};
                      return borrow_memory(parts[index], "part" + std::to_string(index));
                    });
}

void expect_split_failure(const std::vector<std::vector<std::byte>>& parts, banter_result code, std::string_view part) {
  const auto file = open_parts(parts);
  ASSERT_FALSE(file) << part;
  EXPECT_EQ(file.error().code, code) << file.error().message;
  EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
}

TEST(GgufSplit, PartsActAsOneFile) {
  const GgufWriter writer = sample();
  const auto whole_bytes = writer.bytes();
  const auto whole = open_bytes(whole_bytes);
  ASSERT_TRUE(whole);
  for (const uint32_t count : {1u, 2u, 3u, 6u}) {  // six parts for four tensors: some hold none
    const auto parts = writer.split(count);
    const auto file = open_parts(parts);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->tensors().size(), whole->tensors().size());
    EXPECT_EQ(file->get_uint("u8"), 200u);
    std::vector<std::byte> a;
    std::vector<std::byte> b;
    for (const GgufTensor& tensor : whole->tensors()) {
      const GgufTensor* found = file->find_tensor(tensor.name);
      ASSERT_NE(found, nullptr);
      EXPECT_TRUE(std::ranges::equal(*file->read(*found, a), *whole->read(tensor, b)));
    }
  }
}

TEST(GgufSplit, PathsFindTheirPartsUnderUnicodeNames) {
  const TempFolder folder;
  const auto paths = sample().write_split(folder.file("модель-00001-of-00003-模型"), 3);
  ASSERT_EQ(paths.size(), 3u);
  const auto file = Gguf::open(paths[0]);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 4u);

  const auto second = Gguf::open(paths[1]);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("part 2 of 3"), std::string::npos) << second.error().message;
  EXPECT_NE(second.error().message.find("-00001-of-00003"), std::string::npos) << second.error().message;

  ASSERT_EQ(std::remove(paths[2].c_str()), 0);
  const auto missing = Gguf::open(paths[0]);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, BANTER_ERROR_FILE_NOT_FOUND);
  EXPECT_NE(missing.error().message.find(paths[2]), std::string::npos) << missing.error().message;

  ASSERT_TRUE(test::write_file(folder.file("renamed.gguf"), sample().split(3)[0]));
  const auto renamed = Gguf::open(folder.file("renamed.gguf"));
  ASSERT_FALSE(renamed);
  EXPECT_EQ(renamed.error().code, BANTER_ERROR_FILE_NOT_FOUND);
  EXPECT_NE(renamed.error().message.find("-00001-of-00003"), std::string::npos) << renamed.error().message;
}

TEST(GgufSplit, SetsThatDoNotBelongTogetherAreRefused) {
  const auto parts = sample().split(3);
  expect_split_failure({parts[0], parts[2], parts[1]}, BANTER_ERROR_CORRUPT, "'part1'");
  expect_split_failure({parts[0], parts[1]}, BANTER_ERROR_FILE_NOT_FOUND, "no such part");
  expect_split_failure({parts[0], sample().split(4)[1], parts[2]}, BANTER_ERROR_CORRUPT, "part 2 of 4");
  expect_split_failure({parts[0], sample().bytes(), parts[2]}, BANTER_ERROR_CORRUPT, "part 1 of 1");
  expect_split_failure({parts[1], parts[1], parts[2]}, BANTER_ERROR_NOT_A_MODEL, "part 2 of 3");
  GgufWriter other = sample();
  other.add_random("x", {32}, TensorType::kF32, 1);
  expect_split_failure({parts[0], parts[1], other.split(3)[2]}, BANTER_ERROR_CORRUPT, "announces 5 tensors");
  auto cut = parts[2];
  cut.resize(cut.size() - 64);
  expect_split_failure({parts[0], parts[1], cut}, BANTER_ERROR_FILE_TRUNCATED, "'part2'");
  const auto no_opener = Gguf::open(borrow_memory(parts[0], "m.gguf"), nullptr);
  ASSERT_FALSE(no_opener);
  EXPECT_EQ(no_opener.error().code, BANTER_ERROR_FILE_NOT_FOUND);
}

std::vector<std::byte> part_of(uint32_t number, uint32_t count, int32_t tensors, const std::string& name) {
  GgufWriter writer;
  writer.set_u32("split.no", number).set_u32("split.count", count).set_i32("split.tensors.count", tensors);
  return writer.add_random(name, {8}, TensorType::kF32, 1).bytes();
}

TEST(GgufSplit, KeysAreChecked) {
  EXPECT_TRUE(open_parts({part_of(0, 2, 2, "a"), part_of(1, 2, 2, "b")}));
  EXPECT_TRUE(open_parts({part_of(0, 0, 1, "a")}));  // "not split", as some writers say it
  expect_split_failure({part_of(0, 2, 2, "a"), part_of(1, 2, 2, "a")}, BANTER_ERROR_CORRUPT, "'a' is already");
  expect_split_failure({part_of(0, 2, 3, "a"), part_of(1, 2, 3, "b")}, BANTER_ERROR_CORRUPT, "3 are announced");
  expect_split_failure({part_of(0, 2, -1, "a"), part_of(1, 2, -1, "b")}, BANTER_ERROR_CORRUPT, "split.tensors.count");
  expect_split_failure({part_of(5, 2, 2, "a")}, BANTER_ERROR_CORRUPT, "part 6 of 2");
  expect_split_failure({part_of(1, 1, 1, "a")}, BANTER_ERROR_CORRUPT, "part 2 of 1");
  expect_split_failure({part_of(0, 4'000'000'000u, 1, "a")}, BANTER_ERROR_CORRUPT, "4000000000");
  const auto text = GgufWriter().set_string("split.count", "two").bytes();
  expect_split_failure({text}, BANTER_ERROR_CORRUPT, "split.count");
}

/** Relative distance of two tensors, as the root of the mean of squares. */
double distance(std::span<const float> values, std::span<const float> original) {
  double error = 0;
  double total = 0;
  for (size_t i = 0; i < original.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - original[i], 2);
    total += std::pow(static_cast<double>(original[i]), 2);
  }
  return total == 0 ? std::sqrt(error) : std::sqrt(error / total);
}

/** All weights of `file`, by name. */
std::map<std::string, std::vector<float>> weights_of(const Gguf& file) {
  std::map<std::string, std::vector<float>> out;
  std::vector<std::byte> scratch;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto data = file.read(tensor, scratch);
    const TypeTraits* traits = type_traits(tensor.type);
    if (!data || traits == nullptr) continue;
    auto& values = out[tensor.name];
    values.resize(static_cast<size_t>(tensor.elements()));
    dequantize(traits->type, data->data(), values.data(), values.size());
  }
  return out;
}

TEST(GgufPeer, FilesOfAnotherQuantiserDecodeNearTheirOriginals) {
  const char* goldens = std::getenv("BANTER_GOLDENS");
  if (goldens == nullptr) GTEST_SKIP() << "BANTER_GOLDENS does not name the folder of right answers";
  const std::filesystem::path models = std::filesystem::path(goldens) / ".." / "models";
  // Four bits in 16 even steps over about +-2.4 deviations: 4.8 / 16 / sqrt(12) = 0.087, and half of that per bit more.
  const std::map<std::string, double> bounds = {{"Q8_0", 0.007}, {"Q4_0", 0.1},  {"Q4_1", 0.1},
                                                {"Q5_0", 0.055}, {"Q5_1", 0.05}, {"IQ4_NL", 0.1}};
  for (const std::string model : {"babyllama105", "stories260K"}) {
    const auto original = Gguf::open((models / model / (model + ".F32.gguf")).string());
    ASSERT_TRUE(original) << original.error().message;
    const auto expected = weights_of(*original);
    for (const auto& [type, bound] : bounds) {
      const auto file = Gguf::open((models / model / "peer" / (model + "." + type + ".llamacpp.gguf")).string());
      ASSERT_TRUE(file) << file.error().message;
      const auto weights = weights_of(*file);
      ASSERT_EQ(weights.size(), expected.size());
      for (const auto& [name, values] : expected) EXPECT_LT(distance(weights.at(name), values), bound) << type << name;
    }
  }
}

}  // namespace
}  // namespace banter::formats
