// Times between tokens in fixed memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace banter::engine {

/** A histogram of durations: 16 steps per doubling from 1 µs to 19 hours, so a percentile is right within 4.5 %.
 *  No allocation. */
class LatencyHistogram {
 public:
  void add(uint64_t ns) {
    ++counts_[bucket(ns / 1000)];
    ++total_;
    sum_ns_ += ns;
  }
  uint64_t count() const { return total_; }
  double mean_ms() const { return total_ == 0 ? 0 : static_cast<double>(sum_ns_) / 1e6 / static_cast<double>(total_); }
  /** The middle of the bucket that holds the `fraction` quantile, in milliseconds; 0 when empty. */
  double quantile_ms(double fraction) const {
    if (total_ == 0) return 0;
    auto rank = static_cast<uint64_t>(fraction * static_cast<double>(total_ - 1)) + 1;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] >= rank) return middle_us(i) / 1000;
      rank -= counts_[i];
    }
    return 0;
  }

 private:
  static constexpr size_t kSteps = 16, kDoublings = 36;

  static size_t bucket(uint64_t us) {
    if (us < kSteps) return us;
    const int exponent = std::bit_width(us) - 5;  // us >> exponent is in [16, 32)
    const size_t index = static_cast<size_t>(exponent) * kSteps + static_cast<size_t>(us >> exponent);
    return index < kSteps * kDoublings ? index : kSteps * kDoublings - 1;
  }
  static double middle_us(size_t index) {
    if (index < 2 * kSteps) return static_cast<double>(index) + 0.5;
    const size_t exponent = index / kSteps - 1;
    return (static_cast<double>(index % kSteps + kSteps) + 0.5) * static_cast<double>(uint64_t{1} << exponent);
  }

  std::array<uint32_t, kSteps * kDoublings> counts_{};
  uint64_t total_ = 0, sum_ns_ = 0;
};

}  // namespace banter::engine
