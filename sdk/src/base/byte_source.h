// Where a model's bytes come from: a file, memory, or the game's own I/O callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace banter {

/** Random access to immutable bytes. Implementations are safe to read from any one thread at a time. */
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /** Fills `out` from `offset`; fails (BANTER_ERROR_FILE_TRUNCATED, BANTER_ERROR_IO) rather than reading short. */
  virtual Result<void> read_at(uint64_t offset, std::span<std::byte> out) = 0;
  /** All bytes in memory, or nullptr where the source cannot map. Borrowed until the source is destroyed. */
  virtual const std::byte* map() = 0;
  /** For messages: a path, "memory", or what the host named it. */
  virtual const std::string& name() const = 0;
};

/** Opens a file for reading; `path` is UTF-8 (converted to UTF-16 on Windows). Mapped with mmap where possible. */
Result<std::shared_ptr<ByteSource>> open_file(const std::string& path);

/** A view of `bytes`, which must outlive the source. */
std::shared_ptr<ByteSource> borrow_memory(std::span<const std::byte> bytes, std::string name);

}  // namespace banter
