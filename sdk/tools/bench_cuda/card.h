// What a card can do at most, measured; and a game's rendering, imitated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace banter::bench {

struct CardLimits {
  double copy_bytes = 0;    // a second, read and written together, by a copy within the device
  double int8_ops = 0;      // a second, multiplications and additions of matrix products of bytes
  double half_ops = 0;      // the same of halves, summed in float32
  uint64_t free_bytes = 0;  // of memory, before anything is uploaded
};

/** Measures device `device` with buffers of `copy_bytes` each and at least `seconds` for each figure. */
Result<CardLimits> measure_card(int32_t device, size_t copy_bytes, double seconds);

/** A stream of the highest priority with a kernel that keeps the whole card busy for a part of a frame, as a game's
 *  rendering does. One thread. */
class RenderLoad {
 public:
  ~RenderLoad();
  /** Finds how much work takes `milliseconds` on the idle card. */
  Result<void> create(int32_t device, double milliseconds);
  /** Renders a frame; returns the milliseconds from its submission until the card was done with it. */
  Result<double> frame();

 private:
  Result<void> submit(int32_t rounds);
  int32_t device_ = 0, rounds_ = 0, blocks_ = 0;
  void* stream_ = nullptr;
  float* pixels_ = nullptr;
};

}  // namespace banter::bench
