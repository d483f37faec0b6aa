// How many rows of prompts may join a step while replies stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace banter::engine {

/** Follows how long steps with decoding rows only take, by how many there are, and how many rows of prompts can join them
 *  before they take longer than wanted. What such rows cost is no straight line (kernels take several at once, and deep in
 *  a prompt attention costs more), so their number is steered by what steps really took: up in small parts, down at once.
 *  Times in nanoseconds. */
class StreamingCost {
 public:
  /** A step took `ns`, where `wanted` was wanted. */
  void add(int32_t decode_rows, int32_t prefill_rows, double ns, double wanted) {
    if (decode_rows <= 0) return;
    if (prefill_rows <= 0) {
      double& known = alone_[slot(decode_rows)];
      known = known == 0 ? ns : known + kAloneRate * (ns - known);
      since_alone_ = 0;
      return;
    }
    ++since_alone_;
    if (ns <= wanted) {
      // Only where the step had as many as it might have. In larger parts where it took far less than it might.
      const double growth = std::clamp(kFarBelow * wanted / ns, kGrowth, 2.0);
      if (prefill_rows + 1 > rows_) rows_ = std::max(rows_ + 0.5, rows_ * growth);
    } else {
      rows_ = std::max(1.0, std::min(rows_, static_cast<double>(prefill_rows)) * std::max(0.5, wanted / ns));
    }
  }

  /** Time of a step of these rows alone; 0: unknown. */
  double alone(int32_t decode_rows) const { return alone_[slot(decode_rows)]; }
  /** Rows of prompts that may join the next step, at most `most`; now and then none, to see again what the decoding rows
   *  take alone: their own texts grow. */
  int32_t rows(int32_t most) const {
    if (since_alone_ >= kMostMixed) return 0;
    return static_cast<int32_t>(std::clamp(rows_, 1.0, static_cast<double>(std::max(most, 1))));
  }

 private:
  static constexpr int32_t kMostRows = 64;   // more are taken for as many
  static constexpr int32_t kMostMixed = 24;  // mixed steps in a row
  static constexpr double kAloneRate = 0.2, kGrowth = 1.15, kFarBelow = 0.6;
  static size_t slot(int32_t rows) { return static_cast<size_t>(std::min(rows, kMostRows)); }
  std::array<double, kMostRows + 1> alone_{};
  double rows_ = 2;
  int32_t since_alone_ = 0;
};

}  // namespace banter::engine
