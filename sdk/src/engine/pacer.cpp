#include "engine/pacer.h"

#include <algorithm>

namespace banter::engine {

void Pacer::set_frame_budget(uint64_t ns, uint64_t now) {
  budget_ = static_cast<double>(ns);
  frame_credit_ = budget_;
  refilled_ = now;
}

void Pacer::set_share(double share, uint64_t now) {
  share_ = std::clamp(share, 0.001, 1.0);
  share_credit_ = 0;
  refilled_ = now;
}

void Pacer::frames(uint64_t count, uint64_t now) {
  last_frame_ = now;
  frame_credit_ = std::min(budget_, frame_credit_ + budget_ * static_cast<double>(count));
}

void Pacer::refill(uint64_t now) {
  const auto passed = static_cast<double>(now - std::min(refilled_, now));
  refilled_ = now;
  share_credit_ = std::min(kMostSavedNs, share_credit_ + passed * share_);
  if (is_silent(now)) frame_credit_ = std::min(budget_, frame_credit_ + passed * budget_ / kAssumedFrameNs);
}

uint64_t Pacer::part_of(uint64_t ns) const {
  if (!is_limited()) return kNoLimit;
  double share = share_;
  if (budget_ > 0) share = std::min(share, budget_ / kAssumedFrameNs);
  return static_cast<uint64_t>(static_cast<double>(ns) * std::min(share, 1.0));
}

uint64_t Pacer::allowance(uint64_t now) {
  refill(now);
  double least = -1;
  if (budget_ > 0) least = std::max(frame_credit_, 0.0);
  if (share_ < 1 && share_credit_ <= 0) least = 0;
  if (least < 0) return kNoLimit;
  return static_cast<uint64_t>(least);
}

uint64_t Pacer::wake_at(uint64_t now) const {
  double wait = 0;
  if (share_ < 1 && share_credit_ <= 0) wait = (1 - share_credit_) / share_;
  if (budget_ > 0 && frame_credit_ < 1) {
    // While frames are told the next one wakes us; otherwise when silence sets in, or when the debt is paid.
    const double paid = (1 - frame_credit_) * kAssumedFrameNs / budget_;
    wait = std::max(wait, is_silent(now) ? paid : static_cast<double>(last_frame_ + kSilentNs + 1 - now));
  }
  return now + static_cast<uint64_t>(std::max(wait, 1.0));
}

void Pacer::spend(uint64_t ns) {
  frame_credit_ -= static_cast<double>(ns);
  share_credit_ -= static_cast<double>(ns);
}

}  // namespace banter::engine
