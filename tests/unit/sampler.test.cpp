// Random numbers, the filters against float64 answers and full sorts, draws, hostile logits, allocations.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <new>
#include <vector>

#include "sampling/logit_scan.h"
#include "unit/sampler_fixture.h"
#include "unit/sampler_goldens.h"

namespace {
thread_local long allocations = 0;
}

// Counts every allocation of this program. The sanitizers' own operators are replaced, their malloc is not.
// Not inlined: g++ would take our free() for a mismatch with its own idea of new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace banter::sampling {
namespace {

TEST(Philox, matches_the_known_answers_of_its_authors) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones}, {ones, ones, ones, ones}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(philox(0x0123456789abcdef, 0xfedcba9876543210),
            philox({0x89abcdef, 0x01234567}, {0x76543210, 0xfedcba98, 0, 0}));
  EXPECT_NE(draw_position(7, 0), draw_position(7, 1));
  EXPECT_EQ(draw_position(7, 0), 7u);
}

TEST(Exponential, is_within_its_bound_and_zero_far_below) {
  double worst = 0.0;
  for (float x = 0.0f; x > -86.9f; x -= 0.000937f)
    worst = std::max(worst, std::fabs(exp_nonpositive(x) / std::exp(double{x}) - 1.0));
  EXPECT_LT(worst, 3e-7);
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(-0.0f), 1.0f);
  for (const float x : {-87.5f, -1e30f, -kInf, kNan}) EXPECT_EQ(exp_nonpositive(x), 0.0f) << x;
}

TEST(Sampler, keeps_the_tokens_and_probabilities_of_the_float64_answers) {
  for (const SamplerGolden& golden : sampler_goldens()) {
    SCOPED_TRACE(golden.name);
    const auto sampler = make(golden.params, kGoldenVocabulary);
    for (const TokenId token : golden.history) sampler->accept(token);
    std::vector<float> logits(golden.logits->begin(), golden.logits->end());
    const auto got = sampler->distribution(logits, golden.banned, 0);
    ASSERT_EQ(got.size(), golden.expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].token, golden.expected[i].token);
      EXPECT_NEAR(got[i].probability, golden.expected[i].probability, 5e-6 * golden.expected[i].probability + 1e-12);
    }
  }
}

/** Ids of the shortest run of most likely tokens with `mass` of the whole, at most `k`, by sorting in double. */
std::vector<TokenId> sorted_nucleus(const std::vector<float>& logits, double mass, size_t k) {
  std::vector<TokenId> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
  const auto logit = [&](TokenId id) { return double{logits[static_cast<size_t>(id)]}; };
  std::sort(ids.begin(), ids.end(),
            [&](TokenId a, TokenId b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  ids.resize(std::min(ids.size(), k));
  double total = 0.0, sum = 0.0;
  for (const TokenId id : ids) total += std::exp(logit(id) - logit(ids[0]));
  size_t count = 0;
  while (count < ids.size() && sum < mass * total) sum += std::exp(logit(ids[count++]) - logit(ids[0]));
  ids.resize(count);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Sampler, selects_like_a_full_sort_in_large_vocabularies) {
  for (const float best :
       {3.0f, 12.0f, 16.0f, 25.0f}) {  // from a nucleus of half the vocabulary to one of a single token
    std::vector<float> logits = random_logits(20011, 71);
    logits[12345] = best;
    for (const float mass : {0.05f, 0.5f, 0.9f, 0.999f, 1.0f}) {
      for (const int32_t k : {0, 1, 40, 156, 157, 158, 3000, 20010, 30000}) {
        SamplingParams p = all_off();
        p.top_p = mass;
        p.top_k = k;
        std::vector<float> scratch = logits;
        std::vector<TokenId> got;
        const auto sampler = make(p, 20011);
        for (const TokenProbability& e : sampler->distribution(scratch, {}, 0)) got.push_back(e.token);
        // 1 is off: nothing may be lost to rounding. Else it may move the border by a token or two in a long flat tail.
        const std::vector<TokenId> want =
            sorted_nucleus(logits, mass == 1.0f ? 2.0 : double{mass}, k == 0 ? 20011 : static_cast<size_t>(k));
        std::vector<TokenId> different;
        std::set_symmetric_difference(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(different));
        ASSERT_LE(different.size(), mass == 1.0f || want.size() < 1000 ? 0u : 2u)
            << "best " << best << " top_p " << mass << " top_k " << k << " want " << want.size() << " got "
            << got.size();
      }
    }
  }
}

/** Pearson's statistic of `draws` draws against the sampler's own distribution (whose right answers are tested above). */
void expect_draws_follow_distribution(const SamplingParams& params, std::vector<float> logits) {
  const auto sampler = make(params, static_cast<int32_t>(logits.size()));
  std::vector<float> scratch = logits;
  const auto span = sampler->distribution(scratch, {}, 0);
  const std::vector<TokenProbability> expected(span.begin(), span.end());
  constexpr int kDraws = 50000;
  std::map<TokenId, int> seen;
  for (int i = 0; i < kDraws; ++i) {
    scratch = logits;
    ++seen[sampler->sample(scratch, {}, static_cast<uint64_t>(i))];
  }
  double statistic = 0.0, degrees = -1.0, rare_expected = 0.0, rare_seen = 0.0;
  const auto add = [&](double want, double got) {
    statistic += (got - want) * (got - want) / want;
    degrees += 1.0;
  };
  for (const TokenProbability& p : expected) {
    const double want = double{p.probability} * kDraws;
    const double got = seen[p.token];
    if (want >= 10.0) {
      add(want, got);
    } else {
      rare_expected += want;
      rare_seen += got;
    }
    seen.erase(p.token);
  }
  if (rare_expected >= 5.0) add(rare_expected, rare_seen);
  EXPECT_TRUE(seen.empty()) << "token " << seen.begin()->first << " has no probability and was drawn";
  // The statistic has mean `degrees` and variance 2 degrees; the seed is fixed, so 4.5 sigma never flickers.
  EXPECT_LT(statistic, degrees + 4.5 * std::sqrt(2.0 * degrees)) << "degrees of freedom " << degrees;
  EXPECT_GE(degrees, 2.0);
}

TEST(Sampler, draws_as_often_as_the_probabilities_say) {
  SamplingParams p = all_off();
  p.seed = 1;
  expect_draws_follow_distribution(p, random_logits(300, 3));  // three blocks, no candidates built
  p.temperature = 2.5f;
  expect_draws_follow_distribution(p, random_logits(128, 4));
  SamplingParams defaults;
  defaults.seed = 2;
  defaults.min_p = 0.01f;
  expect_draws_follow_distribution(defaults, {kSpread.begin(), kSpread.end()});
  p = all_off();
  p.mirostat = 2;
  p.mirostat_tau = 2.0f;
  expect_draws_follow_distribution(p, {kSpread.begin(), kSpread.end()});
}

TEST(Sampler, xtc_acts_as_often_as_its_probability_says) {
  SamplingParams p = all_off();
  p.xtc_probability = 0.3f;
  const auto sampler = make(p, kGoldenVocabulary);
  int acted = 0;
  constexpr int kTries = 20000;
  for (uint64_t i = 0; i < kTries; ++i) {
    std::vector<float> logits(kSpread.begin(), kSpread.end());
    acted += sampler->distribution(logits, {}, i).size() < kGoldenVocabulary;
  }
  EXPECT_NEAR(acted, 0.3 * kTries, 4.5 * std::sqrt(kTries * 0.3 * 0.7));
}

TEST(Sampler, a_draw_depends_on_seed_and_position_only) {
  SamplingParams p = all_off();
  p.seed = 99;
  const std::vector<float> base = random_logits(500, 5);
  std::vector<TokenId> forward, backward;
  const auto a = make(p, 500), b = make(p, 500);
  for (uint64_t i = 0; i < 50; ++i) {
    std::vector<float> logits = base;
    forward.push_back(a->sample(logits, {}, i));
  }
  for (uint64_t i = 50; i-- > 0;) {
    std::vector<float> logits = base;
    backward.push_back(b->sample(logits, {}, i));
  }
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  p.seed = 100;
  const auto c = make(p, 500);
  std::vector<TokenId> other;
  for (uint64_t i = 0; i < 50; ++i) {
    std::vector<float> logits = base;
    other.push_back(c->sample(logits, {}, i));
  }
  EXPECT_NE(forward, other);
}

TEST(Sampler, greedy_takes_the_lowest_of_equal_tokens_across_blocks) {
  SamplingParams p = all_off();
  p.temperature = 0.0f;
  const auto sampler = make(p, 1000);
  std::vector<float> logits(1000, -3.0f);
  logits[900] = logits[400] = logits[131] = 2.0f;
  EXPECT_EQ(sampler->sample(logits, {}, 0), 131);
  const TokenId banned[] = {131};
  EXPECT_EQ(sampler->sample(logits, banned, 0), 400);
  std::fill(logits.begin(), logits.end(), 0.0f);
  logits[0] = -0.0f;  // equal to 0
  EXPECT_EQ(sampler->sample(logits, {}, 0), 0);
}

TEST(Sampler, non_finite_logits_are_never_chosen_and_never_hide_others) {
  std::vector<SamplingParams> chains(8, all_off());
  chains[0].temperature = 0.0f;
  chains[1] = SamplingParams{};
  chains[2].top_p = 0.9f;
  chains[3].typical_p = 0.9f;
  chains[4].min_p = 0.1f;
  chains[5].mirostat = 2;
  chains[6].xtc_probability = 1.0f;
  for (const SamplingParams& chain : chains) {
    const auto sampler = make(chain, 300);
    for (size_t place = 0; place < 300; ++place) {
      std::vector<float> logits(300, kNan);
      for (size_t i = 0; i < 300; i += 3) logits[i] = kInf;
      for (size_t i = 1; i < 300; i += 3) logits[i] = -kInf;
      logits[place] = -5.0f;
      EXPECT_EQ(sampler->sample(logits, {}, place), static_cast<TokenId>(place));
    }
    for (const float nothing : {kNan, kInf, -kInf}) {
      std::vector<float> logits(300, nothing);
      EXPECT_EQ(sampler->sample(logits, {}, 0), -1);
      EXPECT_TRUE(sampler->distribution(logits, {}, 0).empty());
    }
  }
}

TEST(Sampler, gives_minus_one_when_all_is_banned_and_ignores_foreign_ids) {
  SamplingParams p;
  const auto sampler = make(p, 5);
  std::vector<float> logits = {1, 2, 3, 4, 5};
  const TokenId all[] = {4, 3, 2, 1, 0, 0};
  EXPECT_EQ(sampler->sample(logits, all, 0), -1);
  logits = {1, 2, 3, 4, 5};
  const TokenId foreign[] = {-1, 5, 1 << 30, std::numeric_limits<TokenId>::min(), 0, 1, 2, 4};
  EXPECT_EQ(sampler->sample(logits, foreign, 0), 3);
  std::vector<float> none;
  EXPECT_EQ(sampler->sample(none, {}, 0), -1);
  std::vector<float> longer(9, 0.0f);  // only the vocabulary's part counts
  longer[8] = 50.0f;
  EXPECT_LT(sampler->sample(longer, {}, 0), 5);
}

TEST(Sampler, extreme_logits_and_temperatures_stay_sane) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const float temperature : {1e-40f, 1e-6f, 10.0f}) {
    SamplingParams p = all_off();
    p.temperature = temperature;
    p.repetition_penalty = 0.01f;
    p.frequency_penalty = -10.0f;
    const auto sampler = make(p, 4);
    sampler->accept(1);
    std::vector<float> logits = {kMax, kMax, -kMax, 0.0f};
    const TokenId token = sampler->sample(logits, {}, 0);
    EXPECT_TRUE(token == 0 || token == 1) << token;
  }
  SamplingParams p = all_off();  // XTC leaves tokens whose weights would all vanish beside the removed ones
  p.xtc_probability = 1.0f;
  p.xtc_threshold = 0.0f;
  std::vector<float> logits = {0.0f, -300.0f, -301.0f};
  EXPECT_EQ(make(p, 3)->sample(logits, {}, 0), 2);
}

TEST(Sampler, bias_adds_up_and_minus_infinity_bans) {
  SamplingParams p = all_off();
  p.temperature = 0.0f;
  p.logit_bias = {{0, 1.0f}, {0, 1.5f}, {2, -kInf}};
  const auto sampler = make(p, 3);
  std::vector<float> logits = {0.0f, 2.0f, 9.0f};
  EXPECT_EQ(sampler->sample(logits, {}, 0), 0);
  logits = {kNan, -kInf, 9.0f};
  EXPECT_EQ(sampler->sample(logits, {}, 0), -1);
}

TEST(Sampler, allocates_nothing_after_creation) {
  SamplingParams everything = with_memory();
  everything.top_k = 50;
  everything.typical_p = 0.95f;
  everything.top_p = 0.95f;
  everything.min_p = 0.01f;
  everything.xtc_probability = 0.5f;
  SamplingParams whole = everything;
  whole.top_k = 0;
  SamplingParams nucleus = all_off();
  nucleus.top_p = 0.999f;
  SamplingParams miro = with_memory();
  miro.mirostat = 2;
  SamplingParams greedy = with_memory();
  greedy.temperature = 0.0f;
  const std::vector<float> base = random_logits(5000, 6);
  for (const SamplingParams& p : {everything, whole, nucleus, miro, greedy, all_off(), SamplingParams{}}) {
    const auto sampler = make(p, 5000, 100);
    std::vector<float> logits = base;
    const TokenId banned[] = {17, 4000};
    const long before = allocations;
    for (uint64_t i = 0; i < 300; ++i) {
      std::copy(base.begin(), base.end(), logits.begin());
      sampler->accept(sampler->sample(logits, banned, i) % 8);
      sampler->distribution(logits, banned, i);
      if (i % 10 == 0) sampler->rollback(3);
    }
    EXPECT_EQ(allocations, before);
  }
}

TEST(Sampler, samplers_of_different_sizes_share_one_workspace) {
  const auto workspace = make_workspace();
  SamplingParams p = with_memory();
  auto small = Sampler::create(p, 8, 32, workspace), large = Sampler::create(p, 3000, 64, workspace);
  ASSERT_TRUE(small && large);
  const auto alone = make(p, 8, 32);
  const std::vector<float> few = random_logits(8, 1), many = random_logits(3000, 2);
  for (uint64_t i = 0; i < 60; ++i) {
    std::vector<float> a = few, b = few, c = many;
    const TokenId token = (*small)->sample(a, {}, i);
    ASSERT_EQ(token, alone->sample(b, {}, i));
    (*large)->accept((*large)->sample(c, {}, i));
    (*small)->accept(token);
    alone->accept(token);
  }
}

}  // namespace
}  // namespace banter::sampling
