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

/** How a file's bytes are reached. */
enum class FileAccess {
  kMap,   // map() gives the whole file where the system can; the mapping is made at the first map()
  kRead,  // map() gives nullptr, so every byte is copied by read_at
};

/** Opens a regular file for reading; `path` is UTF-8 (converted to UTF-16 on Windows), files over 4 GiB included.
 *
 *  Hazard of kMap on POSIX: a file that another program shortens while its mapping is being read raises SIGBUS at the
 *  first touch of a lost page, which no library can turn into an error without installing a signal handler in its host.
 *  map() gives nullptr once the file has become shorter, and read_at never uses the mapping and reports
 *  BANTER_ERROR_FILE_TRUNCATED, so the hazard is the time between map() and the last use of its pointer. Choose kRead
 *  where model files may be rewritten in place under a running game (patchers should write a new file and rename it).
 *  Windows refuses to shorten a mapped file.
 *
 *  Errors: BANTER_ERROR_FILE_NOT_FOUND (nothing there, empty path), BANTER_ERROR_IO (a folder, a device, no permission,
 *  any other failure of the system); each names the path and what to do. */
Result<std::shared_ptr<ByteSource>> open_file(const std::string& path, FileAccess access = FileAccess::kMap);

/** A view of `bytes`, which must outlive the source. */
std::shared_ptr<ByteSource> borrow_memory(std::span<const std::byte> bytes, std::string name);

}  // namespace banter
