#include "game_loop.h"

#include <algorithm>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFrame = std::chrono::microseconds(16667);

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

FrameWork::FrameWork(double wanted_ms) : values_(4096, 1.0f) {
  // The least of several tries is the one that nobody disturbed.
  constexpr uint64_t kTrial = 200;
  double least = 1e9;
  for (int i = 0; i < 50; ++i) {
    const Clock::time_point start = Clock::now();
    turn(values_, kTrial);
    least = std::min(least, milliseconds(Clock::now() - start));
  }
  rounds_ = std::max<uint64_t>(1, static_cast<uint64_t>(wanted_ms / least * kTrial));
}

void FrameWork::run() {
  turn(values_, rounds_);
}

void FrameWork::turn(std::vector<float>& values, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; ++i)
    for (float& value : values) value = value * 0.999f + 0.001f;
}

FrameTimes play(FrameWork& work, double seconds, const std::function<bool(double)>& frame) {
  FrameTimes times;
  times.total.reserve(static_cast<size_t>(seconds * 60) + 2);
  times.banter.reserve(times.total.capacity());
  const Clock::time_point start = Clock::now();
  Clock::time_point due = start;
  while (std::chrono::duration<double>(due - start).count() < seconds) {
    const Clock::time_point before = Clock::now();
    const bool goes_on = frame(std::chrono::duration<double>(before - start).count());
    const Clock::time_point between = Clock::now();
    work.run();
    const Clock::time_point end = Clock::now();
    times.banter.push_back(milliseconds(between - before));
    times.total.push_back(milliseconds(end - due));
    if (!goes_on) break;
    due += kFrame;
    // A frame that comes too late altogether is left out, as a game would; its time has been noted.
    while (due < end) due += kFrame;
    std::this_thread::sleep_until(due);
  }
  return times;
}
