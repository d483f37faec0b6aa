// What a step costs, learned from the steps before.
#pragma once

#include <algorithm>
#include <cstdint>

namespace banter::engine {

/** time ≈ base + slope · rows, fitted by least squares over past steps, recent ones counting more: `base` is what streaming
 *  the weights takes, `slope` what a row adds. Times in nanoseconds. */
class StepCost {
 public:
  void add(int32_t rows, double ns) {
    const double x = rows;
    for (double* sum : {&n_, &x_, &y_, &xx_, &xy_}) *sum *= kMemory;
    n_ += 1;
    x_ += x;
    y_ += ns;
    xx_ += x * x;
    xy_ += x * ns;
  }
  bool is_known() const { return n_ > 0; }

  /** Expected time of a step of `rows` rows; 0 before the first add(). */
  double of(int32_t rows) const {
    const Line line = fit();
    return line.base + line.slope * rows;
  }
  /** The most rows that take at most `ns`, in [least, most]; `most` where that is less than `least`. */
  int32_t rows_within(double ns, int32_t least, int32_t most) const {
    const Line line = fit();
    if (line.slope <= 0) return most;
    const double rows = (ns - line.base) / line.slope;
    return static_cast<int32_t>(std::min(std::max(rows, static_cast<double>(least)), static_cast<double>(most)));
  }
  /** False while all steps had about one size: then slope() is only an upper bound. */
  bool knows_slope() const { return n_ > 0 && is_spread(); }
  /** What one more row costs. */
  double slope() const { return fit().slope; }

 private:
  static constexpr double kMemory = 0.97;
  struct Line {
    double base = 0, slope = 0;
  };
  Line fit() const {
    if (n_ <= 0) return {};
    const double spread = n_ * xx_ - x_ * x_;
    // Steps of one size only tell nothing about the slope: then all of it is taken to be the rows'.
    if (!is_spread()) return {0, y_ / x_};
    const double slope = (n_ * xy_ - x_ * y_) / spread;
    if (slope <= 0) return {y_ / n_, 0};
    const double base = (y_ - slope * x_) / n_;
    if (base <= 0) return {0, xy_ / xx_};
    return {base, slope};
  }
  bool is_spread() const { return n_ * xx_ - x_ * x_ > 1e-3 * x_ * x_; }

  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;  // decaying sums
};

}  // namespace banter::engine
