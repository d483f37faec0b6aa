#include "cuda_emulator/shared_shadow.h"

#include <algorithm>

namespace banter::cuda_emulator {

void SharedShadow::resize(size_t bytes) {
  cells_.assign((bytes + 3) / 4 * 4, {});
  by_byte_.assign((bytes + 3) / 4, 0);
}

void SharedShadow::begin_launch() {
  std::fill(by_byte_.begin(), by_byte_.end(), 0);
}

void SharedShadow::split(size_t word) {
  by_byte_[word] = 1;
  for (size_t i = 1; i < 4; ++i) cells_[4 * word + i] = cells_[4 * word];
}

/** Calls check(cell) for what stands for the bytes: whole words where only whole words were ever touched. */
template <class Check>
SharedFault SharedShadow::for_cells(size_t offset, size_t bytes, Check&& check) {
  const size_t end = offset + bytes;
  while (offset < end) {
    const size_t word = offset / 4;
    const bool whole = offset % 4 == 0 && end - offset >= 4;
    if (!whole && by_byte_[word] == 0) split(word);
    const size_t stop = std::min(end, 4 * (word + 1));
    if (by_byte_[word] == 0) {
      if (const SharedFault fault = check(cells_[offset]); fault != SharedFault::kNone) return fault;
      offset = stop;
      continue;
    }
    for (; offset < stop; ++offset) {
      if (const SharedFault fault = check(cells_[offset]); fault != SharedFault::kNone) return fault;
    }
  }
  return SharedFault::kNone;
}

/** No barrier, and no __syncwarp of a warp that both belong to, stands between the access and now. */
bool SharedShadow::unordered(const Access& before, Stamp by) {
  return before.barrier == by.barrier && !(before.warp == by.warp && before.warp_epoch < by.warp_epoch);
}

SharedFault SharedShadow::check_write(const Cell& cell, Stamp by, bool atomic, uint16_t* other) const {
  const Access& w = cell.writer;
  if (w.barrier >= begin_ && w.kind == kCopying) {
    *other = w.thread;
    return SharedFault::kNotArrived;
  }
  if (unordered(w, by) && w.thread != by.thread && !(atomic && w.kind == kAtomic)) {
    *other = w.thread;
    return SharedFault::kRaceWithWriter;
  }
  const Access& r = cell.reader;
  if (unordered(r, by) && (r.kind != kOne || r.thread != by.thread)) {
    *other = r.thread;
    return SharedFault::kRaceWithReader;
  }
  return SharedFault::kNone;
}

SharedFault SharedShadow::read(size_t offset, size_t bytes, Stamp by, uint16_t* other) {
  return for_cells(offset, bytes, [&](Cell& cell) {
    const Access& w = cell.writer;
    if (w.barrier < begin_) return SharedFault::kUninitialised;
    if (w.kind == kCopying) {
      *other = w.thread;
      return SharedFault::kNotArrived;
    }
    if (w.thread != by.thread && unordered(w, by)) {
      *other = w.thread;
      return SharedFault::kRaceWithWriter;
    }
    Access& r = cell.reader;
    const Access mine = {by.barrier, by.warp_epoch, by.thread, by.warp, kOne};
    if (r.barrier != by.barrier) {
      r = mine;
    } else if (r.kind == kMany) {
      // stays so: some reader is of another warp than any writer
    } else if (r.warp != by.warp) {
      r.kind = kMany;
    } else if (r.warp_epoch < by.warp_epoch) {
      r = mine;  // earlier reads of this warp are ordered before it, and other warps see this one
    } else if (r.thread != by.thread) {
      r.kind = kWarp;
    }
    return SharedFault::kNone;
  });
}

SharedFault SharedShadow::write(size_t offset, size_t bytes, Stamp by, uint16_t* other) {
  return for_cells(offset, bytes, [&](Cell& cell) {
    const SharedFault fault = check_write(cell, by, false, other);
    if (fault == SharedFault::kNone) cell.writer = {by.barrier, by.warp_epoch, by.thread, by.warp, kPlain};
    return fault;
  });
}

SharedFault SharedShadow::atomic(size_t offset, size_t bytes, Stamp by, uint16_t* other) {
  return for_cells(offset, bytes, [&](Cell& cell) {
    if (cell.writer.barrier < begin_) return SharedFault::kUninitialised;
    const SharedFault fault = check_write(cell, by, true, other);
    if (fault == SharedFault::kNone) cell.writer = {by.barrier, by.warp_epoch, by.thread, by.warp, kAtomic};
    return fault;
  });
}

SharedFault SharedShadow::start_copy(size_t offset, size_t bytes, Stamp by, uint16_t* other) {
  return for_cells(offset, bytes, [&](Cell& cell) {
    const SharedFault fault = check_write(cell, by, false, other);
    if (fault == SharedFault::kNone) cell.writer = {by.barrier, by.warp_epoch, by.thread, by.warp, kCopying};
    return fault;
  });
}

void SharedShadow::arrive(size_t offset, size_t bytes, Stamp by) {
  for_cells(offset, bytes, [&](Cell& cell) {
    cell.writer = {by.barrier, by.warp_epoch, by.thread, by.warp, kPlain};
    return SharedFault::kNone;
  });
}

}  // namespace banter::cuda_emulator
