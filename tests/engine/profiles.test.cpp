// NPC profiles: the example through flatc and back, what a character made from one does, what is refused.
#include <gtest/gtest.h>

#include <banter_schema/npc_profile_generated.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "dialogue/profile.h"
#include "engine/test_host.h"
#include "support/temp_folder.h"

namespace banter::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void flatc(const std::string& arguments) {
  const std::string command = std::string("\"") + BANTER_FLATC + "\" " + arguments;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

dialogue::Profile read(const Bytes& bytes) {
  banter_sampling_config defaults;
  banter_sampling_config_init(&defaults, sizeof defaults);
  auto profile = dialogue::read_profile(bytes, defaults);
  EXPECT_TRUE(profile) << profile.error().message;
  return profile ? std::move(*profile) : dialogue::Profile();
}

TEST(Profiles, GoThroughFlatcAndBack) {
  const TempFolder folder;
  const std::string out = folder.path() + "/", schema = std::string(BANTER_SCHEMA) + "/npc_profile.fbs";
  for (const char* name : {"mira", "guard"}) {
    const std::string json = std::string(BANTER_SCHEMA) + "/examples/" + name + ".json";
    flatc("--binary -o " + out + " " + schema + " " + json);
    const Bytes first = read_file(out + name + ".bnpc");
    flatc("--json --strict-json -o " + out + " " + schema + " -- " + out + name + ".bnpc");
    const Bytes text = read_file(out + name + ".json");
    ASSERT_GT(text.size(), 100u);
    flatc("--binary -o " + out + " " + schema + " " + out + name + ".json");
    EXPECT_EQ(read_file(out + name + ".bnpc"), first);
    flatc("--json --strict-json -o " + out + " " + schema + " -- " + out + name + ".bnpc");
    EXPECT_EQ(read_file(out + name + ".json"), text);
  }
  const dialogue::Profile mira = read(read_file(out + "mira.bnpc"));
  EXPECT_EQ(mira.name, "Mira");
  EXPECT_EQ(mira.persona.rfind("The valley of Oakrest", 0), 0u);
  EXPECT_LT(mira.persona.find("called the Lantern"), mira.persona.find("\n\nYou are Mira"));
  ASSERT_EQ(mira.examples.size(), 4u);
  EXPECT_EQ(mira.examples[3].text, "Mira. If it happens in Oakrest, I have heard it twice.");
  EXPECT_EQ(mira.sampling.seed, 7u);
  EXPECT_FLOAT_EQ(mira.sampling.temperature, 0.8f);
  EXPECT_EQ(mira.sampling.top_k, 40);
  EXPECT_EQ(mira.context_tokens, 2048u);
  EXPECT_EQ(mira.reply_reserve_tokens, 160u);
  EXPECT_EQ(mira.priority, 5);
  ASSERT_EQ(mira.stop_strings.size(), 1u);
  EXPECT_EQ(mira.stop_strings[0], "\nPlayer:");
  const dialogue::Profile guard = read(read_file(out + "guard.bnpc"));
  EXPECT_FALSE(guard.has_sampling);
  // Shared lore makes a shared beginning.
  const size_t shared = mira.persona.find("\n\n");
  EXPECT_EQ(guard.persona.substr(0, shared), mira.persona.substr(0, shared));
}

/** A profile made here: what JSON cannot spell, flatc would refuse. */
class Maker {
 public:
  flatbuffers::FlatBufferBuilder builder;

  flatbuffers::Offset<flatbuffers::String> text(std::string_view s) { return builder.CreateString(s.data(), s.size()); }
  Bytes finish(const std::function<void(schema::NpcProfileBuilder&)>& fill) {
    schema::NpcProfileBuilder profile(builder);
    fill(profile);
    schema::FinishNpcProfileBuffer(builder, profile.Finish());
    const auto* const data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
    Bytes bytes(data, data + builder.GetSize());
    builder.Clear();
    return bytes;
  }
  Bytes with_sampling(const std::function<void(schema::SamplingBuilder&)>& fill) {
    schema::SamplingBuilder sampling(builder);
    fill(sampling);
    const auto offset = sampling.Finish();
    return finish([&](auto& p) { p.add_sampling(offset); });
  }
  Bytes with_stops(const std::vector<std::string>& strings) {
    std::vector<flatbuffers::Offset<flatbuffers::String>> offsets;
    for (const std::string& s : strings) offsets.push_back(text(s));
    const auto vector = builder.CreateVector(offsets);
    return finish([&](auto& p) { p.add_stop_strings(vector); });
  }
  Bytes with_example(std::string_view user, std::string_view reply) {
    const auto u = text(user), r = text(reply);
    const auto vector = builder.CreateVector(std::vector{schema::CreateExample(builder, u, r)});
    const auto persona = text("You are Mira.");
    return finish([&](auto& p) {
      p.add_examples(vector);
      p.add_persona(persona);
    });
  }
};

TEST(Profiles, SchemaDefaultsAreTheLibrarys) {
  Maker maker;
  const dialogue::Profile profile = read(maker.with_sampling([](auto&) {}));
  EXPECT_TRUE(profile.has_sampling);
  banter_sampling_config defaults;
  banter_sampling_config_init(&defaults, sizeof defaults);
  banter_sampling_config of_profile = profile.sampling;
  of_profile.logit_bias_tokens = nullptr;
  of_profile.logit_bias_values = nullptr;
  EXPECT_EQ(std::memcmp(&of_profile, &defaults, sizeof defaults), 0);
}

class ProfileNpc : public testing::Test {
 protected:
  void SetUp() override { model = host.load(file); }
  banter_npc* create(const Bytes& bytes, void* user_data = nullptr) {
    banter_npc* npc = nullptr;
    EXPECT_EQ(banter_npc_create_from_profile(model, bytes.data(), bytes.size(), user_data, &npc), BANTER_OK)
        << banter_last_error_message();
    return npc;
  }
  void expect_refused(const Bytes& bytes, banter_result code, const std::string& named) {
    banter_npc* npc = nullptr;
    EXPECT_EQ(banter_npc_create_from_profile(model, bytes.data(), bytes.size(), nullptr, &npc), code) << named;
    EXPECT_EQ(npc, nullptr);
    const std::string message = banter_last_error_message();
    EXPECT_NE(message.find(named), std::string::npos) << message;
  }
  const Bytes file = tiny_model();
  Host host;
  banter_model* model = nullptr;
};

TEST_F(ProfileNpc, IsTheCharacterThatTheConfigMakes) {
  banter_sampling_config sampling;
  banter_sampling_config_init(&sampling, sizeof sampling);
  sampling.seed = 99;
  sampling.temperature = 1.3f;
  const int32_t bias_token = 'e';
  const float bias_value = -3;
  sampling.logit_bias_count = 1;
  sampling.logit_bias_tokens = &bias_token;
  sampling.logit_bias_values = &bias_value;
  banter_npc* const by_config = host.npc(model, "Lore.\n\nYou are Mira.", [&](banter_npc_config& config) {
    config.sampling = &sampling;
    config.context_tokens = 300;
    config.reply_reserve_tokens = 40;
  });
  Maker maker;
  const auto persona = maker.text("You are Mira.");
  const auto lore = maker.builder.CreateVector(std::vector{maker.text("Lore."), maker.text("")});
  const auto biases = maker.builder.CreateVector(std::vector{schema::CreateLogitBias(maker.builder, 'e', -3)});
  schema::SamplingBuilder chain(maker.builder);
  chain.add_seed(99);
  chain.add_temperature(1.3f);
  chain.add_logit_bias(biases);
  const auto chain_offset = chain.Finish();
  Bytes bytes = maker.finish([&](auto& p) {
    p.add_persona(persona);
    p.add_lore(lore);
    p.add_sampling(chain_offset);
    p.add_context_tokens(300);
    p.add_reply_reserve_tokens(40);
  });
  bytes.insert(bytes.begin(), std::byte{});  // any alignment will do
  int tag = 0;
  banter_npc* by_profile = nullptr;
  ASSERT_EQ(banter_npc_create_from_profile(model, bytes.data() + 1, bytes.size() - 1, &tag, &by_profile), BANTER_OK);
  for (int i = 0; i < 5; ++i) {
    Outcome outcomes[2];
    for (banter_npc* npc : {by_config, by_profile}) {
      banter_request_config config;
      banter_request_config_init(&config, sizeof config);
      config.max_tokens = 40;
      config.flags = kGoOn | BANTER_REQUEST_REPORT_PROMPT;
      banter_request_id request = 0;
      ASSERT_EQ(banter_npc_say(npc, "Tell me more of it.", BANTER_ZERO_TERMINATED, &config, &request), BANTER_OK);
      outcomes[npc == by_profile] = host.finish(request);
    }
    EXPECT_EQ(outcomes[0].prompt, outcomes[1].prompt);
    EXPECT_EQ(outcomes[0].tokens, outcomes[1].tokens);
    EXPECT_EQ(outcomes[0].dropped_turns, outcomes[1].dropped_turns);
  }
  EXPECT_EQ(host.events.back().event.user_data, &tag);
}

TEST_F(ProfileNpc, ExamplesStayWhenTurnsGo) {
  Maker maker;
  banter_npc* const npc = create(maker.with_example("Who are you?", "Mira, who else?"));
  const auto spelled = [](const std::vector<int32_t>& tokens) {
    std::string text;
    for (const int32_t id : tokens) text += id < 256 ? std::string(1, static_cast<char>(id)) : std::string("#");
    return text;
  };
  bool trimmed = false;
  for (int i = 0; i < 60 && !trimmed; ++i) {
    const Outcome outcome =
        host.finish(say(npc, "A question of some length?", Ask(30, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
    ASSERT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    trimmed = outcome.dropped_turns > 0;
    EXPECT_NE(spelled(outcome.prompt).find("Who are you?"), std::string::npos);
    EXPECT_NE(spelled(outcome.prompt).find("Mira, who els"), std::string::npos);
  }
  EXPECT_TRUE(trimmed);
  ASSERT_EQ(banter_npc_reset(npc), BANTER_OK);
  const Outcome outcome = host.finish(say(npc, "Hm?", Ask(3, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  EXPECT_NE(spelled(outcome.prompt).find("Who are you?"), std::string::npos);
  EXPECT_EQ(spelled(outcome.prompt).find("of some leng"), std::string::npos);
}

/** Says 'a' for ever: with DRY until it notices, unless a repeat ends at every 'a'. */
TEST_F(ProfileNpc, DryBreakersHoldForItsReplies) {
  Maker maker;
  const auto profile = [&](const std::vector<std::string>& breakers, float dry) {
    std::vector<flatbuffers::Offset<flatbuffers::String>> offsets;
    for (const std::string& breaker : breakers) offsets.push_back(maker.text(breaker));
    const auto vector = maker.builder.CreateVector(offsets);
    const auto biases = maker.builder.CreateVector(std::vector{schema::CreateLogitBias(maker.builder, 'a', 50)});
    return maker.with_sampling([&](auto& s) {
      s.add_temperature(0);
      s.add_logit_bias(biases);
      s.add_dry_multiplier(dry);
      s.add_dry_breakers(vector);
    });
  };
  const auto reply = [&](const Bytes& bytes) {
    banter_request_config config;
    banter_request_config_init(&config, sizeof config);
    config.max_tokens = 30;
    config.flags = kGoOn;
    banter_request_id request = 0;
    EXPECT_EQ(banter_npc_say(create(bytes), "Hi", 2, &config, &request), BANTER_OK);
    return host.finish(request).text;
  };
  const std::string all_a(30, 'a');
  EXPECT_EQ(reply(profile({}, 0)), all_a);
  EXPECT_NE(reply(profile({}, 100)), all_a);
  EXPECT_NE(reply(profile({"b", "\n"}, 100)), all_a);
  EXPECT_EQ(reply(profile({"b", "a"}, 100)), all_a);
  // And the same by config, of a character and of a request.
  const char* const breakers[] = {"b", "a"};
  Ask ask(30, kGoOn);
  ask.bias('a', 50);
  ask.sampling.dry_multiplier = 100;
  EXPECT_NE(host.finish(say(host.npc(model), "Hi", ask)).text, all_a);
  ask.sampling.dry_breakers = breakers;
  ask.sampling.dry_breaker_count = 2;
  EXPECT_EQ(host.finish(say(host.npc(model), "Hi", ask)).text, all_a);
  banter_npc* const npc = host.npc(model, "", [&](banter_npc_config& c) { c.sampling = ask.get()->sampling; });
  banter_request_config plain;
  banter_request_config_init(&plain, sizeof plain);
  plain.max_tokens = 30;
  plain.flags = kGoOn;
  banter_request_id request = 0;
  ASSERT_EQ(banter_npc_say(npc, "Hi", 2, &plain, &request), BANTER_OK);
  EXPECT_EQ(host.finish(request).text, all_a);

  constexpr banter_result kBad = BANTER_ERROR_INVALID_ARGUMENT;
  expect_refused(profile({""}, 1), kBad, "dry_breakers[0]");
  expect_refused(profile({"ok", std::string(41, 'x')}, 1), kBad, "dry_breakers[1]");
  expect_refused(profile({std::string("a\0b", 3)}, 1), kBad, "dry_breakers[0]");
  expect_refused(profile(std::vector<std::string>(33, "x"), 1), kBad, "dry_breakers");
}

TEST_F(ProfileNpc, StopStringsHoldForEveryRequest) {
  Maker maker;
  const Outcome free = host.finish(say(create(maker.with_example("a", "b")), "Hello", Ask(60, kGoOn)));
  ASSERT_GT(free.text.size(), 12u);
  // A string of the free reply, whole code points of ASCII.
  size_t at = 0;
  while (at + 2 < free.text.size() && (free.text[at] < ' ' || free.text[at + 1] < ' ' || free.text[at + 1] > '~')) ++at;
  const std::string stop = free.text.substr(at, 2);
  const auto u = maker.text("a"), r = maker.text("b"), persona = maker.text("You are Mira.");
  const auto examples = maker.builder.CreateVector(std::vector{schema::CreateExample(maker.builder, u, r)});
  const auto stops = maker.builder.CreateVector(std::vector{maker.text(stop)});
  banter_npc* const npc = create(maker.finish([&](auto& p) {
    p.add_persona(persona);
    p.add_examples(examples);
    p.add_stop_strings(stops);
  }));
  Ask ask(60, kGoOn);
  ask.stops = {"never so"};
  const Outcome stopped = host.finish(say(npc, "Hello", ask));
  EXPECT_EQ(stopped.reason, BANTER_FINISH_STOP_STRING);
  EXPECT_EQ(stopped.text, free.text.substr(0, free.text.find(stop)));
}

TEST_F(ProfileNpc, PriorityHoldsWhereTheRequestGivesNone) {
  // One token a step: the first in rank is served alone.
  Host narrow([](banter_engine_config& config) { config.step_tokens = 1; });
  banter_model* const slow = narrow.load(file);
  Maker maker;
  banter_npc *low = nullptr, *high = nullptr;
  const Bytes background = maker.finish([](auto& p) { p.add_priority(0); });
  const Bytes urgent = maker.finish([](auto& p) { p.add_priority(7); });
  ASSERT_EQ(banter_npc_create_from_profile(slow, background.data(), background.size(), nullptr, &low), BANTER_OK);
  ASSERT_EQ(banter_npc_create_from_profile(slow, urgent.data(), urgent.size(), nullptr, &high), BANTER_OK);
  const std::string long_text(300, 'x');
  ASSERT_EQ(banter_engine_set_paused(narrow.engine, 1), BANTER_OK);
  const banter_request_id first = say(low, long_text, Ask(2, kGoOn)), second = say(high, "Hello", Ask(2, kGoOn));
  ASSERT_EQ(banter_engine_set_paused(narrow.engine, 0), BANTER_OK);
  EXPECT_EQ(narrow.finish(first).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(narrow.finish(second).kind, BANTER_EVENT_DONE);
  std::vector<banter_request_id> ended;
  for (const Recorded& recorded : narrow.events) {
    if (recorded.event.kind == BANTER_EVENT_DONE) ended.push_back(recorded.event.request);
  }
  EXPECT_EQ(ended, (std::vector<banter_request_id>{second, first}));
}

TEST_F(ProfileNpc, RefusesValuesOutOfRangeByName) {
  Maker maker;
  constexpr banter_result kBad = BANTER_ERROR_INVALID_ARGUMENT;
  expect_refused(maker.with_sampling([](auto& s) { s.add_temperature(11); }), kBad, "sampling.temperature");
  expect_refused(maker.with_sampling([](auto& s) { s.add_temperature(NAN); }), kBad, "sampling.temperature");
  expect_refused(maker.with_sampling([](auto& s) { s.add_top_p(0); }), kBad, "sampling.top_p");
  expect_refused(maker.with_sampling([](auto& s) { s.add_top_k(-1); }), kBad, "sampling.top_k");
  expect_refused(maker.with_sampling([](auto& s) { s.add_mirostat(1); }), kBad, "sampling.mirostat");
  const auto bias = maker.builder.CreateVector(std::vector{schema::CreateLogitBias(maker.builder, 3, INFINITY)});
  expect_refused(maker.with_sampling([&](auto& s) { s.add_logit_bias(bias); }), kBad, "sampling.logit_bias[0]");
  expect_refused(maker.finish([](auto& p) { p.add_priority(8); }), kBad, "priority");
  expect_refused(maker.finish([](auto& p) { p.add_priority(-1); }), kBad, "priority");
  expect_refused(maker.finish([](auto& p) { p.add_context_tokens(15); }), kBad, "context_tokens");
  expect_refused(maker.with_example("", "b"), kBad, "examples[0].user");
  expect_refused(maker.with_example("a", ""), kBad, "examples[0].reply");
  expect_refused(maker.with_stops({"ok", ""}), kBad, "stop_strings[1]");
  expect_refused(maker.with_stops({std::string(257, 'x')}), kBad, "stop_strings[0]");
  expect_refused(maker.with_stops(std::vector<std::string>(33, "x")), kBad, "stop_strings");
  const auto name = maker.text("Mira");
  expect_refused(maker.finish([&](auto& p) {
    p.add_name(name);
    p.add_priority(9);
  }),
                 kBad, "'Mira'");
}

TEST_F(ProfileNpc, RefusesDamagedBytes) {
  Maker maker;
  constexpr banter_result kCorrupt = BANTER_ERROR_CORRUPT;
  expect_refused(maker.with_example("\xC3", "b"), kCorrupt, "examples[0].user");
  expect_refused(maker.with_stops({"\xFF"}), kCorrupt, "stop_strings[0]");
  expect_refused({}, BANTER_ERROR_INVALID_ARGUMENT, "NULL");
  expect_refused(Bytes(3), kCorrupt, "npc_profile.fbs");
  expect_refused(Bytes(1000, std::byte{0x42}), kCorrupt, "npc_profile.fbs");
  expect_refused(Bytes((16 << 20) + 1), BANTER_ERROR_INVALID_ARGUMENT, "16 MiB");
  // A thousand times the same lore: a small file that spells a large prompt.
  const auto shared = maker.text(std::string(5000, 'x'));
  const auto lore = maker.builder.CreateVector(std::vector(1000, shared));
  expect_refused(maker.finish([&](auto& p) { p.add_lore(lore); }), kCorrupt, "lore[");
}

TEST_F(ProfileNpc, EveryByteMayBeWrong) {
  Maker maker;
  const auto u = maker.text("Who?"), r = maker.text("Mira."), persona = maker.text("You are M\xC3\xADra.");
  const auto examples = maker.builder.CreateVector(std::vector{schema::CreateExample(maker.builder, u, r)});
  const auto stops = maker.builder.CreateVector(std::vector{maker.text("\nPlayer")});
  schema::SamplingBuilder chain(maker.builder);
  chain.add_seed(9);
  chain.add_top_p(0.5f);
  const auto sampling = chain.Finish();
  const Bytes good = maker.finish([&](auto& p) {
    p.add_persona(persona);
    p.add_examples(examples);
    p.add_stop_strings(stops);
    p.add_sampling(sampling);
    p.add_priority(6);
  });
  size_t made = 0, refused = 0;
  const auto attempt = [&](const Bytes& bytes) {
    banter_npc* npc = nullptr;
    const banter_result code = banter_npc_create_from_profile(model, bytes.data(), bytes.size(), nullptr, &npc);
    ASSERT_EQ(npc != nullptr, code == BANTER_OK);
    code == BANTER_OK ? ++made : ++refused;
    banter_npc_destroy(npc);
  };
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; value += 5) {
      Bytes bad = good;
      bad[at] = static_cast<std::byte>(value);
      attempt(bad);
    }
    attempt(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(at, 1))));
  }
  EXPECT_GT(made, 100u);
  EXPECT_GT(refused, 100u);
  EXPECT_EQ(host.finish(say(create(good), "Hello", Ask(3, kGoOn))).kind, BANTER_EVENT_DONE);
}

}  // namespace
}  // namespace banter::test
