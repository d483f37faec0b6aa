// Large blocks of memory on huge pages, and arenas that weights are packed into one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace banter::cpu {

/** `bytes` of zeroed memory, 64-byte aligned; from 2 MiB on, whole pages of the system with huge pages asked for (a weight
 *  stream over 4 KiB pages loses a tenth of the bandwidth to address translation). nullptr when there is no memory. */
void* allocate_pages(size_t bytes);
/** Takes what allocate_pages() gave, with the same size; nullptr is fine. */
void free_pages(void* memory, size_t bytes);

/** A block that many weights share; freed when the last of them goes. Not thread-safe. */
class Arena {
 public:
  /** nullptr when there is no memory. */
  static std::shared_ptr<Arena> create(size_t bytes);
  Arena(std::byte* base, size_t capacity) : base_(base), capacity_(capacity) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /** 64-byte aligned, or nullptr when the rest does not suffice. */
  std::byte* take(size_t bytes);
  size_t left() const { return capacity_ - used_; }

 private:
  std::byte* base_;
  size_t capacity_;
  size_t used_ = 0;
};

/** A scratch buffer that only grows, so that after the first steps nothing is allocated any more. */
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { free_pages(memory_, bytes_); }
  /** At least `bytes`, 64-byte aligned, contents undefined; nullptr when there is no memory (the old buffer stays). */
  void* reserve(size_t bytes);

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace banter::cpu
