#include "sampling/truncation.h"

#include <bit>
#include <cmath>

#include "sampling/logit_scan.h"

namespace banter::sampling {
namespace {

/** The last candidate that is kept, in an order of (key ascending, id ascending). Keys are kept in Candidate::logit. */
struct Cut {
  float key;
  TokenId id;
};

bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.id < b.id;
}
bool within(float key, TokenId id, const Cut& cut) {
  return key != cut.key ? key < cut.key : id <= cut.id;
}

/** Orders a, b, c and returns the middle one's index. */
size_t median(const std::vector<Candidate>& s, size_t a, size_t b, size_t c) {
  if (before(s[b], s[a])) std::swap(a, b);
  if (before(s[c], s[b])) std::swap(b, c);
  return before(s[b], s[a]) ? a : b;
}

/** Where the running weight, in the order of before(), reaches `target`. Quickselect by weight: O(n). Should the pivots
 *  be bad (only a hostile model makes them so), what is left is sorted. Permutes `s`. Precondition: s is not empty. */
Cut weighted_cut(std::vector<Candidate>& s, double target) {
  constexpr size_t kSmall = 48;
  size_t low = 0, high = s.size();
  Cut last{};
  for (int depth = 2 * static_cast<int>(std::bit_width(s.size())); high - low > kSmall && depth > 0; --depth) {
    std::swap(s[median(s, low, low + (high - low) / 2, high - 1)], s[high - 1]);
    const Candidate pivot = s[high - 1];
    size_t middle = low;
    double sum = 0.0;
    for (size_t i = low; i + 1 < high; ++i) {
      if (!before(s[i], pivot)) continue;
      sum += s[i].weight;
      std::swap(s[i], s[middle++]);
    }
    std::swap(s[middle], s[high - 1]);
    if (middle > low && sum >= target) {
      high = middle;
      continue;
    }
    target -= sum + pivot.weight;
    last = {pivot.logit, pivot.id};
    if (target <= 0.0) return last;
    low = middle + 1;
  }
  std::sort(s.begin() + static_cast<ptrdiff_t>(low), s.begin() + static_cast<ptrdiff_t>(high), before);
  for (size_t i = low; i < high; ++i) {
    target -= s[i].weight;
    last = {s[i].logit, s[i].id};
    if (target <= 0.0) break;
  }
  return last;
}

/** Keeps the candidates up to the one at which the weight reaches `target`, in the order of key(candidate). */
template <class Key>
void keep_mass(std::vector<Candidate>& candidates, double target, std::vector<Candidate>& scratch, Key&& key) {
  if (candidates.empty()) return;
  scratch.clear();
  for (const Candidate& c : candidates) scratch.push_back({c.id, key(c), c.weight});
  const Cut cut = weighted_cut(scratch, target);
  std::erase_if(candidates, [&](const Candidate& c) { return !within(key(c), c.id, cut); });
}

float largest_logit(const std::vector<Candidate>& candidates) {
  float max = kNoLogit;
  for (const Candidate& c : candidates) max = std::max(max, c.logit);
  return max;
}

}  // namespace

double set_weights(std::vector<Candidate>& candidates, float temperature) {
  const float max = largest_logit(candidates);
  double total = 0.0;
  for (Candidate& c : candidates) {
    c.weight = exp_nonpositive((c.logit - max) / temperature);
    total += c.weight;
  }
  return total;
}

double sum_weights(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

void keep_top_k(std::vector<Candidate>& candidates, size_t k, std::vector<Candidate>& scratch) {
  if (candidates.size() <= k) return;
  scratch.assign(candidates.begin(), candidates.end());
  for (Candidate& c : scratch) c.logit = -c.logit;
  const auto kth = scratch.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(scratch.begin(), kth, scratch.end(), before);
  const Cut cut{kth->logit, kth->id};  // the order is total: one answer, whatever the library's algorithm
  std::erase_if(candidates, [&cut](const Candidate& c) { return !within(-c.logit, c.id, cut); });
}

void keep_typical(std::vector<Candidate>& candidates, double mass, double total, std::vector<Candidate>& scratch) {
  const double max = largest_logit(candidates);
  const double log_total = std::log(total);
  double moment = 0.0;  // sum of weight * (logit - max)
  for (const Candidate& c : candidates)
    if (c.weight > 0.0f) moment += c.weight * (c.logit - max);
  const double entropy = log_total - moment / total;
  keep_mass(candidates, mass * total, scratch,
            [=](const Candidate& c) { return static_cast<float>(std::fabs(log_total - (c.logit - max) - entropy)); });
}

void keep_top_p(std::vector<Candidate>& candidates, double mass, double total, std::vector<Candidate>& scratch) {
  keep_mass(candidates, mass * total, scratch, [](const Candidate& c) { return -c.logit; });
}

void keep_min_p(std::vector<Candidate>& candidates, float log_min_p) {
  const float threshold = largest_logit(candidates) + log_min_p;
  std::erase_if(candidates, [threshold](const Candidate& c) { return c.logit < threshold; });
}

void remove_top_choices(std::vector<Candidate>& candidates, double threshold, double total) {
  const double weight = threshold * total;
  const Candidate* kept = nullptr;  // lowest logit, then highest id: the last of the top choices
  for (const Candidate& c : candidates)
    if (c.weight >= weight && (kept == nullptr || c.logit <= kept->logit)) kept = &c;
  if (kept == nullptr) return;
  const TokenId id = kept->id;
  std::erase_if(candidates, [=](const Candidate& c) { return c.weight >= weight && c.id != id; });
}

size_t draw(const std::vector<Candidate>& candidates, double total, double u) {
  double left = u * total;
  size_t chosen = 0;  // the last with any weight, should rounding carry us past the end
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double weight = candidates[i].weight;
    if (weight == 0.0) continue;
    chosen = i;
    if (left < weight) break;
    left -= weight;
  }
  return chosen;
}

}  // namespace banter::sampling
