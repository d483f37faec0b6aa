// Bytes of a snapshot on their way between a host's thread and the engine thread.
#pragma once

#include <cstddef>
#include <vector>

namespace banter::engine {

/** Freed by the engine thread: a poll only hands it back. */
struct Blob {
  Blob* next = nullptr;
  std::vector<std::byte> bytes;
};

}  // namespace banter::engine
