#include "base/byte_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace banter {
namespace {

std::string quoted(const std::string& path) {
  return "'" + path + "'";
}

Error out_of_range(const std::string& name, uint64_t offset, uint64_t bytes, uint64_t size) {
  return {BANTER_ERROR_FILE_TRUNCATED, quoted(name) + " is truncated: bytes " + std::to_string(offset) + " to " +
                                           std::to_string(offset + bytes) + " are needed but it has " +
                                           std::to_string(size) + "; download or copy the file again."};
}

Error changed_while_open(const std::string& name, uint64_t end, uint64_t size) {
  return {BANTER_ERROR_FILE_TRUNCATED, quoted(name) + " became shorter while it was open: it had " +
                                           std::to_string(size) + " bytes and now ends at " + std::to_string(end) +
                                           "; do not rewrite a model in place, then load it again."};
}

/** True when [offset, offset + bytes) lies within `size`; safe for any arguments. */
bool in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (!in_range(offset, out.size(), bytes_.size())) return out_of_range(name_, offset, out.size(), bytes_.size());
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }
  const std::byte* map() override { return bytes_.data(); }
  const std::string& name() const override { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

Error not_found(const std::string& path) {
  std::string message = "No file at " + quoted(path);
  std::error_code ignored;
  // A relative path is the usual cause: games start from folders that their developers do not expect.
  if (std::filesystem::path(std::u8string(path.begin(), path.end())).is_relative()) {
    const std::filesystem::path folder = std::filesystem::current_path(ignored);
    if (!ignored) {
      const auto text = folder.u8string();
      message += " (looked for in " + quoted(std::string(text.begin(), text.end())) + ")";
    }
  }
  return {BANTER_ERROR_FILE_NOT_FOUND, message + "; check the spelling, or give the full path of the model file."};
}

Error is_folder(const std::string& path) {
  return {BANTER_ERROR_IO, quoted(path) + " is a folder; give the path of the .gguf file inside it."};
}

Error not_regular(const std::string& path) {
  return {BANTER_ERROR_IO, quoted(path) + " is not a regular file; give the path of a model file on disk."};
}

Error no_permission(const std::string& path) {
  return {BANTER_ERROR_IO, "No permission to read " + quoted(path) + "; change its access rights or run as its owner."};
}

Error system_failure(const std::string& path, const char* action, const std::error_code& code) {
  return {BANTER_ERROR_IO, std::string("Could not ") + action + " " + quoted(path) + ": " + code.message() +
                               " (system error " + std::to_string(code.value()) + "); fix that and try again."};
}

#if defined(_WIN32)

std::error_code last_error() {
  return {static_cast<int>(GetLastError()), std::system_category()};
}

/** UTF-8 to UTF-16; false for invalid UTF-8. Absolute paths get the long-path prefix so more than 260 units work. */
bool to_wide(const std::string& path, std::wstring& out) {
  const int length = static_cast<int>(path.size());
  const int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path.data(), length, nullptr, 0);
  if (units <= 0) return false;
  std::wstring wide(static_cast<size_t>(units), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path.data(), length, wide.data(), units);
  const DWORD full_units = GetFullPathNameW(wide.c_str(), 0, nullptr, nullptr);
  if (full_units == 0) {
    out = std::move(wide);
    return true;
  }
  std::wstring full(full_units, L'\0');
  full.resize(GetFullPathNameW(wide.c_str(), full_units, full.data(), nullptr));
  const bool drive = full.size() >= 3 && full[1] == L':' && full[2] == L'\\';
  out = drive ? L"\\\\?\\" + full : full;
  return true;
}

class FileSource final : public ByteSource {
 public:
  FileSource(HANDLE file, uint64_t size, FileAccess access, std::string name)
      : file_(file), size_(size), access_(access), name_(std::move(name)) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (view_ != nullptr) UnmapViewOfFile(view_);
    if (mapping_ != nullptr) CloseHandle(mapping_);
    CloseHandle(file_);
  }
  uint64_t size() const override { return size_; }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (!in_range(offset, out.size(), size_)) return out_of_range(name_, offset, out.size(), size_);
    while (!out.empty()) {
      OVERLAPPED at{};
      at.Offset = static_cast<DWORD>(offset);
      at.OffsetHigh = static_cast<DWORD>(offset >> 32);
      const DWORD want = static_cast<DWORD>(std::min<size_t>(out.size(), size_t{1} << 28));
      DWORD got = 0;
      if (!ReadFile(file_, out.data(), want, &got, &at)) {
        if (GetLastError() != ERROR_HANDLE_EOF) return system_failure(name_, "read", last_error());
        got = 0;
      }
      if (got == 0) return changed_while_open(name_, offset, size_);
      offset += got;
      out = out.subspan(got);
    }
    return {};
  }
  const std::byte* map() override {
    if (view_ != nullptr || access_ == FileAccess::kRead || size_ == 0) return view_;
    if (size_ > std::numeric_limits<size_t>::max()) return nullptr;
    if (mapping_ == nullptr) mapping_ = CreateFileMappingW(file_, nullptr, PAGE_READONLY, 0, 0, nullptr);
    if (mapping_ == nullptr) return nullptr;
    view_ = static_cast<const std::byte*>(MapViewOfFile(mapping_, FILE_MAP_READ, 0, 0, 0));
    return view_;
  }
  const std::string& name() const override { return name_; }

 private:
  HANDLE file_;
  HANDLE mapping_ = nullptr;
  const std::byte* view_ = nullptr;
  uint64_t size_;
  FileAccess access_;
  std::string name_;
};

Result<std::shared_ptr<ByteSource>> open_native(const std::string& path, FileAccess access) {
  std::wstring wide;
  if (!to_wide(path, wide)) {
    return Error{BANTER_ERROR_FILE_NOT_FOUND, "The path " + quoted(path) + " is not valid UTF-8; pass paths as UTF-8."};
  }
  const DWORD attributes = GetFileAttributesW(wide.c_str());
  if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return is_folder(path);
  const HANDLE file = CreateFileW(wide.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_SEQUENTIAL_SCAN, nullptr);
  if (file == INVALID_HANDLE_VALUE) {
    const DWORD code = GetLastError();
    if (code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND || code == ERROR_INVALID_NAME) {
      return not_found(path);
    }
    if (code == ERROR_ACCESS_DENIED) return no_permission(path);
    return system_failure(path, "open", {static_cast<int>(code), std::system_category()});
  }
  LARGE_INTEGER size{};
  if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size)) {
    CloseHandle(file);
    return not_regular(path);
  }
  return std::shared_ptr<ByteSource>(
      std::make_shared<FileSource>(file, static_cast<uint64_t>(size.QuadPart), access, path));
}

#else

class FileSource final : public ByteSource {
 public:
  FileSource(int file, uint64_t size, FileAccess access, std::string name)
      : file_(file), size_(size), access_(access), name_(std::move(name)) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (view_ != nullptr) ::munmap(view_, static_cast<size_t>(size_));
    ::close(file_);
  }
  uint64_t size() const override { return size_; }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (!in_range(offset, out.size(), size_)) return out_of_range(name_, offset, out.size(), size_);
    while (!out.empty()) {
      const size_t want = std::min<size_t>(out.size(), size_t{1} << 30);  // Linux reads at most 2 GiB at once
      const ssize_t got = ::pread(file_, out.data(), want, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_failure(name_, "read", {errno, std::generic_category()});
      if (got == 0) return changed_while_open(name_, offset, size_);
      offset += static_cast<uint64_t>(got);
      out = out.subspan(static_cast<size_t>(got));
    }
    return {};
  }
  const std::byte* map() override {
    if (access_ == FileAccess::kRead || size_ == 0) return nullptr;
    // Asked each time, so that a file that has shrunk is found by read_at's error and not by a signal. It can still
    // shrink while the caller reads, but the window is small.
    struct stat info {};
    if (::fstat(file_, &info) != 0 || static_cast<uint64_t>(info.st_size) < size_) return nullptr;
    if (view_ != nullptr) return static_cast<const std::byte*>(view_);
    if (size_ > std::numeric_limits<size_t>::max()) return nullptr;
    void* view = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_PRIVATE, file_, 0);
    if (view == MAP_FAILED) return nullptr;
    // Weights are read once, front to back, when they are repacked: read ahead, and let go of what was passed.
    ::madvise(view, static_cast<size_t>(size_), MADV_SEQUENTIAL);
    view_ = view;
    return static_cast<const std::byte*>(view_);
  }
  const std::string& name() const override { return name_; }

 private:
  int file_;
  void* view_ = nullptr;
  uint64_t size_;
  FileAccess access_;
  std::string name_;
};

Result<std::shared_ptr<ByteSource>> open_native(const std::string& path, FileAccess access) {
  static_assert(sizeof(off_t) >= 8, "build with 64-bit file offsets (_FILE_OFFSET_BITS=64)");
  // O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
  int file = -1;
  do {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file < 0 && errno == EINTR);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return not_found(path);
    if (errno == EACCES || errno == EPERM) return no_permission(path);
    return system_failure(path, "open", {errno, std::generic_category()});
  }
  struct stat info {};
  if (::fstat(file, &info) != 0) {
    const std::error_code code(errno, std::generic_category());
    ::close(file);
    return system_failure(path, "examine", code);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(file);
    return S_ISDIR(info.st_mode) ? is_folder(path) : not_regular(path);
  }
  return std::shared_ptr<ByteSource>(
      std::make_shared<FileSource>(file, static_cast<uint64_t>(info.st_size), access, path));
}

#endif

}  // namespace

Result<std::shared_ptr<ByteSource>> open_file(const std::string& path, FileAccess access) {
  if (path.empty()) {
    return Error{BANTER_ERROR_FILE_NOT_FOUND, "The model path is empty; give the path of a model file."};
  }
  // A NUL would silently cut the path short and open some other file.
  if (path.find('\0') != std::string::npos) {
    return Error{BANTER_ERROR_FILE_NOT_FOUND,
                 "The model path contains a NUL byte after '" + path.substr(0, path.find('\0')) + "'; remove it."};
  }
  return open_native(path, access);
}

std::shared_ptr<ByteSource> borrow_memory(std::span<const std::byte> bytes, std::string name) {
  return std::make_shared<MemorySource>(bytes, std::move(name));
}

}  // namespace banter
