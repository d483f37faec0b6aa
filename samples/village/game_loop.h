// A game without graphics: 60 frames a second, each with the same work for the processor, and how long every frame took.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

/** Quantile `q` of `values` in [0, 1]; 0 where there are none. */
double quantile(std::vector<double> values, double q);

/** Arithmetic that takes about the same time whenever it runs undisturbed, as the logic and the draw calls of a game do. */
class FrameWork {
 public:
  /** Finds out how much arithmetic takes `milliseconds` on this machine. */
  explicit FrameWork(double milliseconds);
  void run();

 private:
  static void turn(std::vector<float>& values, uint64_t rounds);
  std::vector<float> values_;  // 16 KiB: stays in the first-level cache
  uint64_t rounds_ = 1;
};

/** What the frames of one stretch took, in milliseconds: from when a frame should begin (a late wake-up counts) to the end
 *  of its work. */
struct FrameTimes {
  std::vector<double> total;
  std::vector<double> banter;  // of that, in calls of the SDK and what follows from events
};

/** Plays for `seconds`; `frame` is called once a frame, before the work. Stops early where it returns false. */
FrameTimes play(FrameWork& work, double seconds, const std::function<bool(double now_seconds)>& frame);
