#include "engine/host_io.h"

#include <cstdio>

namespace banter::engine {
namespace {

class HostFile final : public ByteSource {
 public:
  HostFile(const banter_io& io, void* file, std::string name)
      : io_(io), file_(file), size_(io.size(file, io.user_data)), name_(std::move(name)) {}
  ~HostFile() override { io_.close(file_, io_.user_data); }
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  uint64_t size() const override { return size_; }

  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (out.empty()) return {};
    if (offset > size_ || out.size() > size_ - offset) {
      return Error{BANTER_ERROR_FILE_TRUNCATED, "\"" + name_ + "\" ends at byte " + std::to_string(size_) + ", but " +
                                                    std::to_string(out.size()) + " bytes at " + std::to_string(offset) +
                                                    " are needed; the file is cut off."};
    }
    const banter_result code = io_.read_at(file_, offset, out.data(), out.size(), io_.user_data);
    if (code == BANTER_OK) return {};
    return Error{BANTER_ERROR_IO, "The game's read_at callback failed (" + std::to_string(code) + ") for " +
                                      std::to_string(out.size()) + " bytes at " + std::to_string(offset) + " of \"" +
                                      name_ + "\"."};
  }

  const std::byte* map() override { return nullptr; }
  const std::string& name() const override { return name_; }

 private:
  banter_io io_;
  void* file_;
  uint64_t size_;
  std::string name_;
};

}  // namespace

Result<std::shared_ptr<ByteSource>> open_host_file(const banter_io& io, const std::string& path) {
  void* file = nullptr;
  const banter_result code = io.open(path.c_str(), &file, io.user_data);
  if (code == BANTER_OK) {
    // Memory may run out before the object that closes the file is there.
    struct Closer {
      const banter_io& io;
      void* file;
      ~Closer() {
        if (file != nullptr) io.close(file, io.user_data);
      }
    } closer{io, file};
    std::shared_ptr<ByteSource> source = std::make_shared<HostFile>(io, file, path);
    closer.file = nullptr;
    return source;
  }
  if (code == BANTER_ERROR_FILE_NOT_FOUND) {
    return Error{code, "The game's open callback found no \"" + path + "\"."};
  }
  return Error{BANTER_ERROR_IO, "The game's open callback failed (" + std::to_string(code) + ") for \"" + path + "\"."};
}

Result<formats::Gguf> open_host_gguf(const banter_io& io, const std::string& path) {
  auto first = open_host_file(io, path);
  if (!first) return first.error();
  const auto open_part = [&](uint32_t index, uint32_t count) -> Result<std::shared_ptr<ByteSource>> {
    char mark[32], part[32];
    std::snprintf(mark, sizeof mark, "-%05u-of-%05u", 1u, count);
    std::snprintf(part, sizeof part, "-%05u-of-%05u", index + 1, count);
    const size_t at = path.rfind(mark);
    if (at == std::string::npos) {
      return Error{BANTER_ERROR_FILE_NOT_FOUND,
                   "\"" + path + "\" is the first of " + std::to_string(count) + " files, but its name has no \"" +
                       mark + "\" from which to tell the others; give the parts their names back."};
    }
    std::string name = path;
    name.replace(at, std::char_traits<char>::length(mark), part);
    return open_host_file(io, name);
  };
  return formats::Gguf::open(*first, open_part);
}

}  // namespace banter::engine
