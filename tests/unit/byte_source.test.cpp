// Files and memory as byte sources: what is read, and what each fault says.
#include "base/byte_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "support/gguf_writer.h"
#include "support/quantize.h"
#include "support/temp_folder.h"

namespace banter {
namespace {

using test::TempFolder;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/** Expects a failure of `code` whose message names `part`. */
template <class T>
void expect_error(const Result<T>& result, banter_result code, std::string_view part) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  EXPECT_EQ(result.error().message.back(), '.');
}

TEST(ByteSource, FileGivesTheSameBytesMappedAndRead) {
  const TempFolder folder;
  const auto content = test::random_bytes(300'000, 1);
  ASSERT_TRUE(test::write_file(folder.file("m"), content));
  for (const FileAccess access : {FileAccess::kMap, FileAccess::kRead}) {
    auto source = open_file(folder.file("m"), access);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->size(), content.size());
    EXPECT_EQ((*source)->name(), folder.file("m"));
    std::vector<std::byte> part(1000);
    ASSERT_TRUE((*source)->read_at(123'457, part));
    EXPECT_EQ(std::memcmp(part.data(), content.data() + 123'457, part.size()), 0);
    const std::byte* all = (*source)->map();
    if (access == FileAccess::kRead) {
      EXPECT_EQ(all, nullptr);
    } else {
      ASSERT_NE(all, nullptr);
      EXPECT_EQ(std::memcmp(all, content.data(), content.size()), 0);
      EXPECT_EQ((*source)->map(), all);
    }
  }
}

TEST(ByteSource, ReadsBeyondTheEndFailAndNeverReadShort) {
  const TempFolder folder;
  const auto content = bytes_of("0123456789");
  ASSERT_TRUE(test::write_file(folder.file("m"), content));
  auto file = open_file(folder.file("m"));
  ASSERT_TRUE(file);
  for (const std::shared_ptr<ByteSource>& source : {*file, borrow_memory(content, "memory")}) {
    std::byte two[2];
    EXPECT_TRUE(source->read_at(8, two));
    EXPECT_TRUE(source->read_at(10, {}));
    expect_error(source->read_at(9, two), BANTER_ERROR_FILE_TRUNCATED, source->name());
    expect_error(source->read_at(11, {}), BANTER_ERROR_FILE_TRUNCATED, "has 10");
    expect_error(source->read_at(std::numeric_limits<uint64_t>::max(), two), BANTER_ERROR_FILE_TRUNCATED, "has 10");
  }
}

TEST(ByteSource, EmptyFileOpensAndHasNothing) {
  const TempFolder folder;
  ASSERT_TRUE(test::write_file(folder.file("empty"), {}));
  auto source = open_file(folder.file("empty"));
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->size(), 0u);
  EXPECT_EQ((*source)->map(), nullptr);
  EXPECT_TRUE((*source)->read_at(0, {}));
  EXPECT_EQ(borrow_memory({}, "nothing")->size(), 0u);
}

TEST(ByteSource, NonAsciiAndLongPathsWork) {
  const TempFolder folder;
  std::string deep = folder.path();
  for (const char* name : {"Masaüstü", "Модели", "模型", "👾"}) {
    deep += std::string("/") + name + std::string(100, 'x');
    ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  }
  ASSERT_GT(deep.size(), 400u);
  ASSERT_TRUE(test::write_file(deep + "/модель.gguf", bytes_of("GGUF")));
  auto source = open_file(deep + "/модель.gguf");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->size(), 4u);
}

TEST(ByteSource, FilesOverFourGibiReadAndMapAtTheirEnd) {
  const TempFolder folder;
  constexpr uint64_t kSize = (5ull << 30) + 17;
  const int file = ::open(folder.file("big").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  if (::ftruncate(file, kSize) != 0) GTEST_SKIP() << "the temporary folder allows no sparse file of 5 GiB";
  ASSERT_EQ(::pwrite(file, "tail", 4, kSize - 4), 4);
  ::close(file);
  auto source = open_file(folder.file("big"));
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ((*source)->size(), kSize);
  char tail[4];
  ASSERT_TRUE((*source)->read_at(kSize - 4, std::as_writable_bytes(std::span(tail))));
  EXPECT_EQ(std::string_view(tail, 4), "tail");
  const std::byte* all = (*source)->map();
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(std::memcmp(all + kSize - 4, "tail", 4), 0);
}

TEST(ByteSource, MissingFilesNameThePathAndTheFolder) {
  expect_error(open_file("/no/such/file.gguf"), BANTER_ERROR_FILE_NOT_FOUND, "'/no/such/file.gguf'");
  expect_error(open_file("no-such-модель.gguf"), BANTER_ERROR_FILE_NOT_FOUND, "'no-such-модель.gguf'");
  char here[4096];
  ASSERT_NE(::getcwd(here, sizeof(here)), nullptr);
  expect_error(open_file("no-such-file"), BANTER_ERROR_FILE_NOT_FOUND, here);
  expect_error(open_file(""), BANTER_ERROR_FILE_NOT_FOUND, "empty");
  expect_error(open_file(std::string("/etc/hosts\0.gguf", 16)), BANTER_ERROR_FILE_NOT_FOUND, "NUL");
  expect_error(open_file("/etc/hosts/model.gguf"), BANTER_ERROR_FILE_NOT_FOUND, "/etc/hosts/model.gguf");
  expect_error(open_file("/" + std::string(5000, 'x')), BANTER_ERROR_IO, "xxx");
}

TEST(ByteSource, FoldersPipesAndDevicesAreRefusedAtOnce) {
  const TempFolder folder;
  expect_error(open_file(folder.path()), BANTER_ERROR_IO, folder.path());
  expect_error(open_file(folder.path()), BANTER_ERROR_IO, "folder");
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  expect_error(open_file(folder.file("pipe")), BANTER_ERROR_IO,
               "not a regular file");  // and does not wait for a writer
  expect_error(open_file("/dev/null"), BANTER_ERROR_IO, "not a regular file");
}

TEST(ByteSource, UnreadableFilesSayPermission) {
  const TempFolder folder;
  ASSERT_TRUE(test::write_file(folder.file("m"), bytes_of("x")));
  ASSERT_EQ(::chmod(folder.file("m").c_str(), 0), 0);
  // Root may read everything, so become nobody for the call.
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "root may read everything, and cannot become nobody here";
  const auto source = open_file(folder.file("m"));
  ASSERT_EQ(::seteuid(user), 0);
  expect_error(source, BANTER_ERROR_IO, "permission");
}

TEST(ByteSource, FileThatShrinksWhileOpenIsAnErrorOfReading) {
  const TempFolder folder;
  ASSERT_TRUE(test::write_file(folder.file("m"), test::random_bytes(100'000, 2)));
  auto source = open_file(folder.file("m"));
  ASSERT_TRUE(source);
  ASSERT_NE((*source)->map(), nullptr);
  ASSERT_EQ(::truncate(folder.file("m").c_str(), 50'000), 0);
  std::vector<std::byte> part(60'000);
  expect_error((*source)->read_at(0, part), BANTER_ERROR_FILE_TRUNCATED, "shorter");
  EXPECT_TRUE((*source)->read_at(0, std::span(part).first(50'000)));
  EXPECT_EQ((*source)->map(), nullptr);  // so a caller that asks before it reads gets the error, not a signal
}

}  // namespace
}  // namespace banter
