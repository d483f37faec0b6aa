// Ranges of the sampling parameters.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "unit/sampler_fixture.h"

namespace banter::sampling {
namespace {

void expect_refused(const SamplingParams& p, const std::string& field, const std::string& value,
                    const std::string& range) {
  const Result<void> valid = validate(p, 100);
  ASSERT_FALSE(valid) << field << " = " << value << " was accepted";
  EXPECT_EQ(valid.error().code, BANTER_ERROR_INVALID_ARGUMENT);
  for (const std::string& part : {field + " is " + value, range})
    EXPECT_NE(valid.error().message.find(part), std::string::npos) << valid.error().message << "\nlacks " << part;
  EXPECT_FALSE(Sampler::create(p, 100, 10));
}

TEST(Validate, names_field_value_and_range) {
  struct Case {
    const char* field;
    float SamplingParams::*member;
    std::vector<float> wrong, right;
    const char* range;
  };
  const Case cases[] = {
      {"temperature", &SamplingParams::temperature, {-0.5f, 10.5f, kInf}, {0, 10}, "[0, 10]"},
      {"top_p", &SamplingParams::top_p, {0, 1.5f, -1}, {1e-6f, 1}, "(0, 1]"},
      {"min_p", &SamplingParams::min_p, {-0.25f, 1}, {0, 0.99f}, "[0, 1)"},
      {"typical_p", &SamplingParams::typical_p, {0, 2}, {0.5f, 1}, "(0, 1]"},
      {"repetition_penalty", &SamplingParams::repetition_penalty, {0, 11}, {0.01f, 10}, "[0.01, 10]"},
      {"presence_penalty", &SamplingParams::presence_penalty, {-11, 11}, {-10, 10}, "[-10, 10]"},
      {"frequency_penalty", &SamplingParams::frequency_penalty, {-11, 11}, {-10, 10}, "[-10, 10]"},
      {"dry_multiplier", &SamplingParams::dry_multiplier, {-1, 101}, {0, 100}, "[0, 100]"},
      {"dry_base", &SamplingParams::dry_base, {0.5f, 11}, {1, 10}, "[1, 10]"},
      {"xtc_probability", &SamplingParams::xtc_probability, {-1, 2}, {0, 1}, "[0, 1]"},
      {"xtc_threshold", &SamplingParams::xtc_threshold, {-1, 2}, {0, 1}, "[0, 1]"},
      {"mirostat_tau", &SamplingParams::mirostat_tau, {0, 101}, {100}, "(0, 100]"},
      {"mirostat_eta", &SamplingParams::mirostat_eta, {0, 2}, {1}, "(0, 1]"},
  };
  for (const Case& c : cases) {
    for (const float value : c.wrong) {
      SamplingParams p;
      p.*c.member = value;
      char text[40];
      std::snprintf(text, sizeof text, "%.7g", double{value});
      expect_refused(p, c.field, text, c.range);
    }
    SamplingParams nan;
    nan.*c.member = kNan;
    EXPECT_FALSE(validate(nan, 100)) << c.field;
    for (const float value : c.right) {
      SamplingParams p;
      p.*c.member = value;
      EXPECT_TRUE(validate(p, 100)) << c.field << " = " << value;
    }
  }
}

TEST(Validate, checks_integers_and_lists) {
  SamplingParams p;
  p.top_k = -1;
  expect_refused(p, "top_k", "-1", "[0, 2147483647]");
  p = {};
  p.penalty_last_n = -2;
  expect_refused(p, "penalty_last_n", "-2", "[-1, 2147483647]");
  p = {};
  p.dry_last_n = -2;
  expect_refused(p, "dry_last_n", "-2", "[-1, 2147483647]");
  p = {};
  p.dry_allowed_length = 0;
  expect_refused(p, "dry_allowed_length", "0", "[1, 2147483647]");
  p = {};
  p.mirostat = 1;
  expect_refused(p, "mirostat", "1", "{0, 2}");
  p = {};
  p.logit_bias = {{3, 1.0f}, {100, 1.0f}};
  expect_refused(p, "logit_bias[1].token", "100", "[0, 99]");
  p.logit_bias = {{3, kInf}};
  expect_refused(p, "logit_bias[0].bias", "inf", "[-inf, 3.4e38]");
  p.logit_bias = {{3, -kInf}, {99, -1e30f}};
  EXPECT_TRUE(validate(p, 100));
  p = {};
  p.dry_breakers = {{1}, {}};
  expect_refused(p, "dry_breakers[1].length", "0", "[1, 64]");
  p.dry_breakers = {{1, -1}};
  expect_refused(p, "dry_breakers[0][1]", "-1", "[0, 99]");
  EXPECT_FALSE(validate({}, 0));
  EXPECT_FALSE(Sampler::create({}, 100, 0));
}

}  // namespace
}  // namespace banter::sampling
