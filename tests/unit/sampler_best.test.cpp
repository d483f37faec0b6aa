// Sampling from a row's best logits gives the token that all of them give, and asks for all of them where it must.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "unit/sampler_fixture.h"

namespace banter::sampling {
namespace {

constexpr int32_t kVocabulary = 3000;

/** A device's row: the `most` best, and a count of how often all were fetched. */
struct Device {
  std::vector<float> logits;
  std::vector<TokenId> ids;
  std::vector<float> best;
  float rest = -kInf;
  int fetched = 0;
  bool broken = false;

  Device(std::vector<float> values, size_t most) : logits(std::move(values)) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (std::isfinite(logits[i])) ids.push_back(static_cast<TokenId>(i));
    }
    std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return at(a) > at(b); });
    if (ids.size() > most) {
      rest = at(ids[most]);
      std::erase_if(ids, [&](TokenId id) { return at(id) <= rest; });
    }
    std::reverse(ids.begin(), ids.end());  // any order will do
    for (const TokenId id : ids) best.push_back(at(id));
  }
  float at(TokenId id) const { return logits[static_cast<size_t>(id)]; }
  LogitRow row() {
    LogitRow row;
    row.best = ids;
    row.best_logits = best;
    row.rest = rest;
    row.context = this;
    row.fetch = [](void* device, int32_t) {
      auto& self = *static_cast<Device*>(device);
      ++self.fetched;
      return self.broken ? std::span<float>() : std::span<float>(self.logits);
    };
    return row;
  }
};

struct Case {
  const char* name;
  SamplingParams params;
  int most_fetches;  // of 60 rows
};

std::vector<Case> cases() {
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  SamplingParams penalised = with_memory();
  penalised.top_k = 20;
  penalised.presence_penalty = 0.5f;
  SamplingParams everything = penalised;
  everything.typical_p = 0.9f;
  everything.top_p = 0.8f;
  everything.min_p = 0.02f;
  everything.xtc_probability = 0.5f;
  everything.logit_bias = {{5, -kInf}, {17, -3.0f}};
  SamplingParams raised = greedy;
  raised.logit_bias = {{2999, 30.0f}};
  SamplingParams rewarded = penalised;
  rewarded.repetition_penalty = 0.5f;
  SamplingParams mirostat;
  mirostat.mirostat = 2;
  return {{"default", {}, 0},           {"greedy", greedy, 0},
          {"penalties", penalised, 10}, {"everything", everything, 10},
          {"raising bias", raised, 60}, {"rewarded repeats", rewarded, 60},
          {"mirostat", mirostat, 60},   {"no top-k", all_off(), 60}};
}

TEST(SamplerBest, ChoosesWhatAllLogitsChoose) {
  for (const Case& c : cases()) {
    const auto full = make(c.params, kVocabulary), sparse = make(c.params, kVocabulary);
    std::vector<TokenId> banned = {1, 2, 3, kVocabulary - 1};
    int fetches = 0;
    for (uint32_t i = 0; i < 60; ++i) {
      std::vector<float> logits = random_logits(kVocabulary, i);
      // Some steps have equal logits, some values that are no numbers, some a clear favourite that is banned.
      if (i % 3 == 0) std::fill_n(logits.begin() + 100, 400, 6.5f);
      if (i % 4 == 0) logits[7] = kNan, logits[8] = kInf, logits[9] = -kInf;
      if (i % 5 == 0) logits[2] = 40.0f;
      Device device(logits, i % 3 == 0 ? 500 : 64);
      const TokenId expected = full->sample(logits, banned, i);
      EXPECT_EQ(sparse->sample(device.row(), banned, i), expected) << c.name << ", row " << i;
      fetches += device.fetched;
      full->accept(expected);
      sparse->accept(expected);
    }
    EXPECT_LE(fetches, c.most_fetches) << c.name;
  }
}

TEST(SamplerBest, FetchesAllWhereTooFewAreLeft) {
  SamplingParams params;
  params.top_k = 10;
  const auto full = make(params, kVocabulary), sparse = make(params, kVocabulary);
  std::vector<float> logits = random_logits(kVocabulary, 1);
  Device device(logits, 12);
  const std::vector<TokenId> banned(device.ids.begin(), device.ids.begin() + 5);
  EXPECT_EQ(sparse->sample(device.row(), banned, 0), full->sample(logits, banned, 0));
  EXPECT_EQ(device.fetched, 1);
}

TEST(SamplerBest, EqualLogitsAtTheBorderGoToTheLowestId) {
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  const auto sampler = make(greedy, kVocabulary);
  Device device(std::vector<float>(kVocabulary, 1.0f), 64);  // none is above the rest
  ASSERT_TRUE(device.ids.empty());
  EXPECT_EQ(sampler->sample(device.row(), {}, 0), 0);
  EXPECT_EQ(device.fetched, 1);
}

TEST(SamplerBest, FewTokensNeedNoFetch) {
  SamplingParams params;
  params.top_k = 15;
  const std::vector<TokenId> banned = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // fewer than 15 are left
  std::vector<float> logits = random_logits(20, 3);
  Device device(logits, 64);
  EXPECT_EQ(make(params, 20)->sample(device.row(), banned, 5), make(params, 20)->sample(logits, banned, 5));
  EXPECT_EQ(device.fetched, 0);
}

TEST(SamplerBest, ADeviceThatFailsGivesNoToken) {
  const auto sampler = make(all_off(), kVocabulary);
  Device device(random_logits(kVocabulary, 3), 64);
  device.broken = true;
  EXPECT_EQ(sampler->sample(device.row(), {}, 0), -1);
  Device nothing(std::vector<float>(kVocabulary, kNan), 64);
  EXPECT_EQ(make({}, kVocabulary)->sample(nothing.row(), {}, 0), -1);
}

/** What one row leaves behind in a shared workspace must not reach the next. */
TEST(SamplerBest, LeavesNothingBehind) {
  auto shared = Sampler::create({}, kVocabulary, 16, make_workspace());
  ASSERT_TRUE(shared);
  for (uint32_t i = 0; i < 20; ++i) {
    std::vector<float> logits = random_logits(kVocabulary, 100 + i);
    Device device(logits, 64);
    const TokenId alone = make({}, kVocabulary)->sample(logits, {}, i);
    EXPECT_EQ((*shared)->sample(device.row(), {}, i), alone);
  }
}

}  // namespace
}  // namespace banter::sampling
