#include "sampling/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/workspace.h"

namespace banter::sampling {
namespace {

/** match[i] = length of the longest common prefix of text and text[i…], for i >= 1 (match[0] is set to the length). */
void z_algorithm(const std::vector<TokenId>& text, std::vector<int32_t>& match) {
  const auto n = static_cast<int32_t>(text.size());
  match.assign(text.size(), 0);
  if (n > 0) match[0] = n;
  // [left, right) is the known repeat of a prefix that reaches furthest; inside it, earlier results are reused.
  for (int32_t i = 1, left = 0, right = 0; i < n; ++i) {
    int32_t length = i < right ? std::min(right - i, match[static_cast<size_t>(i - left)]) : 0;
    while (i + length < n && text[static_cast<size_t>(length)] == text[static_cast<size_t>(i + length)]) ++length;
    match[static_cast<size_t>(i)] = length;
    if (i + length > right) left = i, right = i + length;
  }
}

}  // namespace

Dry::Dry(const SamplingParams& params, size_t capacity)
    : multiplier_(params.dry_multiplier),
      base_(params.dry_base),
      allowed_length_(params.dry_allowed_length),
      window_(!enabled(params)        ? 0
              : params.dry_last_n < 0 ? capacity
                                      : std::min(capacity, static_cast<size_t>(params.dry_last_n))),
      breakers_(params.dry_breakers) {
  std::sort(breakers_.begin(), breakers_.end(), [](const auto& a, const auto& b) {
    return a.back() != b.back() ? a.back() < b.back() : a.size() < b.size();
  });
}

bool Dry::ends_here(const std::vector<TokenId>& breaker, const TokenHistory& history) const {
  const size_t before = breaker.size() - 1;
  if (before > history.size()) return false;
  for (size_t age = 0; age < before; ++age)
    if (history.newest(age).token != breaker[before - 1 - age]) return false;
  return true;
}

int32_t Dry::since_breaker(const TokenHistory& history, TokenId token) const {
  auto it = std::lower_bound(breakers_.begin(), breakers_.end(), token,
                             [](const auto& b, TokenId t) { return b.back() < t; });
  for (; it != breakers_.end() && it->back() == token; ++it)
    if (ends_here(*it, history)) return 0;
  const int32_t before = history.size() == 0 ? 0 : history.newest(0).since_breaker;
  return before == std::numeric_limits<int32_t>::max() ? before : before + 1;
}

bool Dry::is_breaker(TokenId token) const {
  const auto it = std::lower_bound(breakers_.begin(), breakers_.end(), token,
                                   [](const auto& b, TokenId t) { return b.back() < t; });
  return it != breakers_.end() && it->back() == token && it->size() == 1;
}

float Dry::penalty(int32_t match) const {
  constexpr double kLargest = 1e30;  // no token survives it where there is another choice, and sums stay finite
  double power = 1.0, square = base_;
  for (int32_t exponent = match - allowed_length_; exponent > 0 && power < kLargest; exponent /= 2) {
    if (exponent % 2 != 0) power *= square;
    square *= square;
  }
  return static_cast<float>(std::min(multiplier_ * power, kLargest));
}

void Dry::apply(std::span<float> logits, const TokenHistory& history, Workspace& workspace) const {
  const size_t n = std::min(window_, history.size());
  if (n < 2) return;
  const int32_t limit = history.newest(0).since_breaker;
  if (limit < allowed_length_) return;

  std::vector<TokenId>& reversed = workspace.dry_reversed;
  std::vector<int32_t>& match = workspace.dry_match;
  std::vector<int32_t>& longest = workspace.dry_longest;
  reversed.clear();
  for (size_t age = 0; age < n; ++age) reversed.push_back(history.newest(age).token);
  z_algorithm(reversed, match);
  const auto known = [&](TokenId token) {
    return token >= 0 && static_cast<size_t>(token) < std::min(longest.size(), logits.size());
  };
  for (size_t i = 1; i < n; ++i) {
    const int32_t length = std::min(match[i], limit);
    const TokenId follower = reversed[i - 1];
    if (length < allowed_length_ || !known(follower)) continue;
    int32_t& best = longest[static_cast<size_t>(follower)];
    best = std::max(best, length);
  }
  for (size_t i = 0; i + 1 < n; ++i) {
    const TokenId follower = reversed[i];
    if (!known(follower)) continue;
    const int32_t length = std::exchange(longest[static_cast<size_t>(follower)], 0);
    float& logit = logits[static_cast<size_t>(follower)];
    if (length == 0 || !std::isfinite(logit) || is_breaker(follower)) continue;
    logit = std::max(logit - penalty(length), -std::numeric_limits<float>::max());
  }
}

}  // namespace banter::sampling
