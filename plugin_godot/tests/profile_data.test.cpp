// Profiles in their written forms: round trips, limits, hostile bytes.
#include "profile_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "text_check.h"

namespace banter::godot {
namespace {

ProfileData whole_profile() {
  ProfileData profile;
  profile.name = "Märta";
  profile.persona = "You are Märta 🧙.";
  profile.lore = {"The valley.", "", "The inn."};
  profile.examples = {"Hi", "Ho", "Who?", "Me."};
  profile.stop_strings = {"\nPlayer:", "😀"};
  profile.sampling.temperature = 0.8;
  profile.sampling.top_p = 0.123456;
  profile.sampling.top_k = 7;
  profile.sampling.seed = -5;
  profile.sampling.mirostat = 2;
  profile.sampling.logit_bias = {{3, -2.5}, {7, -INFINITY}};
  profile.sampling.dry_breakers = {":", "\n"};
  profile.priority = 0;
  profile.context_policy = BANTER_CONTEXT_STOP;
  profile.context_tokens = 512;
  profile.reply_reserve_tokens = 64;
  return profile;
}

TEST(ProfileData, ComesBackFromItsBytes) {
  for (const ProfileData& profile : {ProfileData(), whole_profile()}) {
    const std::vector<std::byte> bytes = write_profile_binary(profile);
    ProfileData back;
    back.persona = "somebody else";
    const ProfileOutcome outcome = read_profile_binary(bytes, back);
    EXPECT_EQ(outcome.error, kOk) << outcome.message;
    EXPECT_EQ(back, profile);
  }
}

TEST(ProfileData, AnExampleWithoutReplyIsLeftOut) {
  ProfileData profile = whole_profile();
  profile.examples.emplace_back("And?");
  EXPECT_EQ(check_profile(profile).error, kErrParameterRange);
  ProfileData back;
  ASSERT_EQ(read_profile_binary(write_profile_binary(profile), back).error, kOk);
  EXPECT_EQ(back.examples.size(), 4u);
}

TEST(ProfileData, ReadsTheExamplesOfTheSchema) {
  for (const char* const name : {"mira", "guard"}) {
    std::ifstream file(std::string(BANTER_SCHEMA_EXAMPLES) + "/" + name + ".json");
    std::stringstream text;
    text << file.rdbuf();
    ProfileData profile;
    const ProfileOutcome outcome = read_profile_json(text.str(), profile);
    ASSERT_EQ(outcome.error, kOk) << outcome.message;
    EXPECT_FALSE(profile.persona.empty());
    EXPECT_EQ(profile.lore.at(0).substr(0, 22), "The valley of Oakrest ");
    ProfileData back;
    ASSERT_EQ(read_profile_binary(write_profile_binary(profile), back).error, kOk);
    EXPECT_EQ(back, profile);
  }
}

TEST(ProfileData, ValuesOutOfRangeAreRefusedInBothForms) {
  std::vector<ProfileData> wrong(13, whole_profile());
  wrong[0].sampling.temperature = 11;
  wrong[1].sampling.temperature = NAN;
  wrong[2].sampling.top_p = 0;
  wrong[3].sampling.mirostat = 1;
  wrong[4].sampling.logit_bias = {{-1, 0}};
  wrong[5].sampling.logit_bias = {{1, INFINITY}};
  wrong[6].sampling.dry_breakers = {std::string(41, 'x')};
  wrong[7].stop_strings = {""};
  wrong[8].stop_strings = std::vector<std::string>(33, "x");
  wrong[9].priority = 8;
  wrong[10].context_tokens = 15;
  wrong[11].context_policy = 4;
  wrong[12].sampling.logit_bias = {{1, 1e300}};
  for (size_t i = 0; i < wrong.size(); i++) {
    ProfileData out;
    const ProfileOutcome outcome = read_profile_binary(write_profile_binary(wrong[i]), out);
    EXPECT_EQ(outcome.error, kErrParameterRange) << i;
    EXPECT_GT(outcome.message.size(), 20u) << i;
    EXPECT_EQ(out, ProfileData()) << i;
  }
  const std::pair<const char*, int64_t> texts[] = {
      {R"({"sampling": {"top_k": -1}})", kErrParameterRange},
      {R"({"sampling": {"seed": 18446744073709551615}})", kOk},
      {R"({"sampling": {"top_k": 18446744073709551615}})", kErrParameterRange},
      {R"({"sampling": {"top_k": 1.5}})", kErrFileCorrupt},
      {R"({"sampling": {"logit_bias": [{"token": 1, "value": "-inf"}]}})", kOk},
      {R"({"sampling": {"logit_bias": [{"token": 1, "value": "inf"}]}})", kErrFileCorrupt},
      {R"({"sampling": {"logit_bias": [{"token": 4294967299, "value": 1}]}})", kErrParameterRange},
      {R"({"sampling": {"logit_bias": [{"token": 1, "value": 1e39}]}})", kErrParameterRange},
      {R"({"sampling": {"what": 1}})", kErrFileCorrupt},
      {R"({"sampling": 7})", kErrFileCorrupt},
      {R"({"persona": "a\u0000b"})", kErrFileCorrupt},
      {R"({"context_policy": 2})", kOk},
      {R"({"temperature": 1e999})", kErrParseError},
      {"{\"persona\": \"\xff\"}", kErrParseError},
      {"// a comment\n{}", kOk},
  };
  for (const auto& [text, wanted] : texts) {
    ProfileData out;
    EXPECT_EQ(read_profile_json(text, out).error, wanted) << text;
  }
}

TEST(ProfileData, NoBytesDoHarm) {
  const std::vector<std::byte> good = write_profile_binary(whole_profile());
  std::mt19937 random(7);
  for (int round = 0; round < 20000; round++) {
    std::vector<std::byte> bytes = good;
    for (size_t i = 0; i <= random() % 4; i++) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    ProfileData out;
    if (read_profile_binary(bytes, out).error != kOk) continue;
    // What was taken is within its ranges, and can be written again.
    EXPECT_EQ(check_profile(out).error, kOk);
    ProfileData back;
    EXPECT_EQ(read_profile_binary(write_profile_binary(out), back).error, kOk);
  }
  std::string text =
      R"({"name": "M", "lore": ["a"], "sampling": {"top_k": 3}, "examples": [{"user": "u", "reply": "r"}]})";
  for (int round = 0; round < 20000; round++) {
    std::string bent = text;
    for (size_t i = 0; i <= random() % 3; i++) bent[random() % bent.size()] = static_cast<char>(random());
    ProfileData out;
    static_cast<void>(read_profile_json(bent, out));
  }
  ProfileData out;
  EXPECT_NE(read_profile_json(std::string(1 << 20, '['), out).error, kOk);
}

TEST(TextCheck, TakesWhatIsText) {
  for (const char* const good : {"", "a", "é", "€", "😀", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_text(good)) << good;
  for (const char* const bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                                "\xF4\x90\x80\x80", "\xF5", "a\xFF"}) {
    EXPECT_FALSE(is_text(bad)) << bad;
  }
  EXPECT_FALSE(is_text(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace banter::godot
