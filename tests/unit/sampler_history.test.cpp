// What the sampler learns from earlier tokens: penalties, DRY, mirostat, and taking tokens back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "sampling/token_history.h"
#include "unit/sampler_fixture.h"

namespace banter::sampling {
namespace {

std::vector<TokenProbability> probabilities(Sampler& sampler, std::vector<float> logits) {
  const auto span = sampler.distribution(logits, {}, 0);
  return {span.begin(), span.end()};
}

bool same(const std::vector<TokenProbability>& a, const std::vector<TokenProbability>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.token == y.token && x.probability == y.probability; });
}

TEST(Sampler, mirostat_approaches_the_surprise_it_aims_at) {
  SamplingParams p = all_off();
  p.mirostat = 2;
  p.mirostat_tau = 3.0f;
  const std::vector<float> base = random_logits(2000, 11);
  const auto sampler = make(p, 2000, 4000);
  double surprise = 0.0;
  constexpr int kSteps = 2000;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<float> logits = base;
    const auto span = sampler->distribution(logits, {}, static_cast<uint64_t>(i));
    const std::vector<TokenProbability> p_now(span.begin(), span.end());
    logits = base;
    const TokenId token = sampler->sample(logits, {}, static_cast<uint64_t>(i));
    const auto it = std::find_if(p_now.begin(), p_now.end(), [token](const auto& e) { return e.token == token; });
    ASSERT_NE(it, p_now.end());
    if (i >= kSteps / 2) surprise -= std::log2(it->probability);
    sampler->accept(token);
  }
  EXPECT_NEAR(surprise / (kSteps / 2), 3.0, 0.1);
}

TEST(Sampler, rollback_is_as_if_the_tokens_had_never_come) {
  const std::vector<float> logits = random_logits(8, 21);
  std::mt19937 bits(8);
  for (int round = 0; round < 300; ++round) {
    const auto rolled = make(with_memory(), 8, 64), fresh = make(with_memory(), 8, 64);
    std::vector<TokenId> kept;
    for (int step = 0; step < 40; ++step) {
      if (bits() % 4 == 0) {
        const auto drop = std::min<size_t>(bits() % 5, kept.size());
        rolled->rollback(static_cast<int32_t>(drop));
        kept.resize(kept.size() - drop);
      } else {
        kept.push_back(static_cast<TokenId>(bits() % 8));
        rolled->accept(kept.back());
      }
    }
    for (const TokenId token : kept) fresh->accept(token);
    ASSERT_TRUE(same(probabilities(*rolled, logits), probabilities(*fresh, logits))) << "round " << round;
  }
}

TEST(Sampler, rollback_restores_mirostat) {
  SamplingParams p = all_off();
  p.mirostat = 2;
  p.mirostat_tau = 1.0f;
  p.mirostat_eta = 1.0f;
  const std::vector<float> base = random_logits(100, 31);
  const auto sampler = make(p, 100);
  const auto before = probabilities(*sampler, base);
  for (uint64_t i = 0; i < 5; ++i) {
    std::vector<float> logits = base;
    sampler->accept(sampler->sample(logits, {}, i));
  }
  EXPECT_FALSE(same(probabilities(*sampler, base), before));
  sampler->rollback(5);
  EXPECT_TRUE(same(probabilities(*sampler, base), before));
  sampler->rollback(1000);
  sampler->rollback(-1);
}

TEST(Sampler, history_beyond_its_size_forgets_the_oldest) {
  SamplingParams p = all_off();
  p.presence_penalty = 10.0f;
  p.penalty_last_n = -1;
  p.dry_multiplier = 1.0f;
  const auto sampler = make(p, 40, 16);
  for (TokenId t = 0; t < 40; ++t) sampler->accept(t);
  std::vector<float> logits(40, 0.0f);
  const auto got = sampler->distribution(logits, {}, 0);
  for (const TokenProbability& e : got) EXPECT_EQ(e.probability > 0.01f, e.token < 24) << e.token;
  sampler->rollback(40);
  logits.assign(40, 0.0f);
  EXPECT_FLOAT_EQ(sampler->distribution(logits, {}, 0)[39].probability, 1.0f / 40);
}

TEST(TokenCounts, counts_like_a_map) {
  TokenCounts counts(20);
  std::map<TokenId, int> expected;
  std::vector<TokenId> present;
  std::mt19937 bits(5);
  for (int step = 0; step < 20000; ++step) {
    if (present.size() < 20 && bits() % 2 == 0) {
      present.push_back(static_cast<TokenId>(bits() % 64) * 4096);
      counts.add(present.back());
      ++expected[present.back()];
    } else if (!present.empty()) {
      const size_t i = bits() % present.size();
      counts.remove(present[i]);
      if (--expected[present[i]] == 0) expected.erase(present[i]);
      present.erase(present.begin() + static_cast<ptrdiff_t>(i));
    }
    std::map<TokenId, int> got;
    for (const auto& slot : counts.slots())
      if (slot.count != 0) got[slot.token] += slot.count;
    ASSERT_EQ(got, expected) << "step " << step;
  }
}

TEST(Dry, agrees_with_a_quadratic_search) {
  std::mt19937 bits(77);
  for (int round = 0; round < 400; ++round) {
    SamplingParams p = all_off();
    p.dry_multiplier = 1.0f;
    p.dry_base = 2.0f;
    p.dry_allowed_length = 1 + static_cast<int32_t>(bits() % 3);
    p.dry_breakers = {{2, 2}, {1, 0, 1}};
    const auto sampler = make(p, 3, 128);
    std::vector<TokenId> history(bits() % 60);
    for (TokenId& t : history) sampler->accept(t = static_cast<TokenId>(bits() % 3));

    size_t limit = history.size();
    for (const auto& breaker : p.dry_breakers)
      for (size_t end = breaker.size(); end <= history.size(); ++end)
        if (std::equal(breaker.begin(), breaker.end(), history.begin() + static_cast<ptrdiff_t>(end - breaker.size())))
          limit = std::min(limit, history.size() - end);
    std::array<double, 3> weights = {1, 1, 1};
    for (TokenId token = 0; token < 3; ++token) {
      size_t longest = 0;
      for (size_t i = 1; i < history.size(); ++i) {
        size_t length = 0;
        while (length < std::min(limit, i) && history[i - 1 - length] == history[history.size() - 1 - length]) ++length;
        if (history[i] == token) longest = std::max(longest, length);
      }
      const auto allowed = static_cast<size_t>(p.dry_allowed_length);
      if (longest >= allowed) weights[static_cast<size_t>(token)] = std::exp(-std::pow(2.0, longest - allowed));
    }
    std::vector<float> logits(3, 0.0f);
    const auto got = sampler->distribution(logits, {}, 0);
    const double total = weights[0] + weights[1] + weights[2];
    for (size_t i = 0; i < 3; ++i) ASSERT_NEAR(got[i].probability, weights[i] / total, 1e-6) << "round " << round;
  }
}

}  // namespace
}  // namespace banter::sampling
