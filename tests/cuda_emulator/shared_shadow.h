// What is known of each byte of a block's shared memory: who wrote and who read it last, and when. Time is counted in
// barriers of the block, and within these in __syncwarp of the accessing warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace banter::cuda_emulator {

/** Who accesses, and when. */
struct Stamp {
  uint32_t barrier;
  uint32_t warp_epoch;
  uint16_t thread;
  uint8_t warp;
};

enum class SharedFault : uint8_t { kNone, kUninitialised, kRaceWithWriter, kRaceWithReader, kNotArrived };

class SharedShadow {
 public:
  void resize(size_t bytes);
  /** A new block begins at this barrier count: everything is uninitialised. */
  void begin(uint32_t barrier) { begin_ = barrier; }
  /** A new launch: words are tracked as wholes again. */
  void begin_launch();

  // [offset, offset + bytes) lies in the shared memory. Each returns the first fault; `other` is the other thread.
  SharedFault read(size_t offset, size_t bytes, Stamp by, uint16_t* other);
  SharedFault write(size_t offset, size_t bytes, Stamp by, uint16_t* other);
  SharedFault atomic(size_t offset, size_t bytes, Stamp by, uint16_t* other);
  /** An asynchronous copy writes here from now until arrive(). */
  SharedFault start_copy(size_t offset, size_t bytes, Stamp by, uint16_t* other);
  void arrive(size_t offset, size_t bytes, Stamp by);

 private:
  enum WriterKind : uint8_t { kPlain, kAtomic, kCopying };
  enum ReaderKind : uint8_t { kOne, kWarp, kMany };
  struct Access {
    uint32_t barrier = 0;  // 0: never
    uint32_t warp_epoch = 0;
    uint16_t thread = 0;
    uint8_t warp = 0;
    uint8_t kind = 0;
  };
  struct Cell {
    Access writer, reader;
  };
  template <class Check>
  SharedFault for_cells(size_t offset, size_t bytes, Check&& check);
  void split(size_t word);
  static bool unordered(const Access& before, Stamp by);
  SharedFault check_write(const Cell& cell, Stamp by, bool atomic, uint16_t* other) const;

  std::vector<Cell> cells_;       // one a byte; in whole words only the first of four
  std::vector<uint8_t> by_byte_;  // [word] accesses smaller than a word were seen
  uint32_t begin_ = 0;
};

}  // namespace banter::cuda_emulator
