// Where request text waits for the engine: a fixed store of small blocks, taken and returned as chains without locks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/result.h"
#include "engine/free_list.h"
#include "engine/host.h"

namespace banter::engine {

class TextPool {
 public:
  static constexpr size_t kBlockBytes = 512;
  static constexpr uint32_t kNone = FreeList::kNone;

  Result<void> create(const HostAllocator& host, uint64_t bytes) {
    const auto blocks = static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + kBlockBytes - 1) / kBlockBytes));
    if (Result<void> made = free_.create(host, blocks); !made) return made;
    return blocks_.create(host, blocks);
  }

  size_t capacity_bytes() const { return blocks_.size() * kBlockBytes; }

  /** Takes blocks for `bytes` > 0 bytes; kNone when they are not free now. */
  uint32_t acquire(size_t bytes) {
    return free_.acquire_chain(static_cast<uint32_t>((bytes + kBlockBytes - 1) / kBlockBytes));
  }
  void release(uint32_t chain) {
    if (chain == kNone) return;
    uint32_t last = chain;
    while (free_.next(last) != kNone) last = free_.next(last);
    free_.release_chain(chain, last);
  }

 private:
  friend class ChainCursor;
  struct Block {
    std::byte bytes[kBlockBytes];
  };
  FreeList free_;
  HostArray<Block> blocks_;
};

/** Writes or reads front to back: a chain, or memory that is large enough. */
class ChainCursor {
 public:
  /** `chain` may be none when nothing is written or read. */
  ChainCursor(TextPool& pool, uint32_t chain) : pool_(&pool), block_(chain) {
    if (chain == TextPool::kNone) return;
    at_ = pool.blocks_[chain].bytes;
    left_ = TextPool::kBlockBytes;
  }
  ChainCursor(std::byte* memory, size_t bytes) : at_(memory), left_(bytes) {}

  void write(const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    step(bytes, [&](std::byte* at, size_t n) {
      std::memcpy(at, from, n);
      from += n;
    });
  }
  void read(void* data, size_t bytes) {
    auto* to = static_cast<std::byte*>(data);
    step(bytes, [&](const std::byte* at, size_t n) {
      std::memcpy(to, at, n);
      to += n;
    });
  }
  template <class T>
  void write_value(const T& value) {
    write(&value, sizeof value);
  }
  template <class T>
  T read_value() {
    T value;
    read(&value, sizeof value);
    return value;
  }

 private:
  template <class F>
  void step(size_t bytes, F&& f) {
    while (bytes > 0) {
      if (left_ == 0) {
        block_ = pool_->free_.next(block_);
        at_ = pool_->blocks_[block_].bytes;
        left_ = TextPool::kBlockBytes;
      }
      const size_t n = std::min(bytes, left_);
      f(at_, n);
      at_ += n;
      left_ -= n;
      bytes -= n;
    }
  }

  TextPool* pool_ = nullptr;
  uint32_t block_ = TextPool::kNone;
  std::byte* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace banter::engine
