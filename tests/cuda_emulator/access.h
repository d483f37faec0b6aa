// What is checked of a kernel's access to memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_emulator/block.h"

namespace banter::cuda_emulator {

enum class Use : uint8_t {
  kRead,
  kWrite,
  kAtomic,        // device or shared memory
  kReadShared,    // must be shared memory
  kWriteShared,   // must be shared memory
  kCopyToShared,  // must be shared memory; an asynchronous copy begins
  kReadGlobal,    // must be device memory
};

/** Ends the launch with a fault unless the thread may access [address, address + bytes) so, aligned to `alignment`. */
void check_access(Block& block, const void* address, size_t bytes, Use use, size_t alignment);

}  // namespace banter::cuda_emulator
