// Conversations saved and loaded: what comes back, in which order, into which model. Pages: snapshot_pages.test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/snapshot_fixture.h"

namespace banter::test {
namespace {

TEST_F(Snapshots, HoldPersonaAndTurns) {
  banter_npc* const npc = host.npc(model, "You are M\xC3\xADra.");
  const Outcome reply = done(say(npc, "Hello", Ask(12, kGoOn)));
  ASSERT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_SYSTEM, "It rains.", BANTER_ZERO_TERMINATED), BANTER_OK);
  const dialogue::Snapshot snapshot = read(saved(npc));
  EXPECT_EQ(snapshot.conversation.persona, "You are M\xC3\xADra.");
  ASSERT_EQ(snapshot.conversation.turns.size(), 3u);
  EXPECT_EQ(snapshot.conversation.turns[0].text, "Hello");
  EXPECT_EQ(snapshot.conversation.turns[1].role, Role::kAssistant);
  EXPECT_EQ(snapshot.conversation.turns[1].text, reply.text);
  EXPECT_EQ(snapshot.conversation.turns[2].role, Role::kSystem);
  EXPECT_EQ(snapshot.library_version, banter_version_string());
  EXPECT_EQ(snapshot.model.architecture, "llama");
  EXPECT_FALSE(snapshot.kv);
}

TEST_F(Snapshots, ContinueWithTheSameWords) {
  banter_npc* const original = talker();
  const Bytes plain = saved(original), with_pages = saved(original, kPages);
  EXPECT_GT(with_pages.size(), plain.size());
  const Outcome expected = next(original);
  for (const Bytes* bytes : {&plain, &with_pages}) {
    banter_npc* const npc = host.npc(model, "Somebody else");
    const Outcome loaded = done(load(npc, *bytes));
    const bool pages = bytes == &with_pages;
    EXPECT_EQ(loaded.statistics.cached_tokens > 0, pages);
    EXPECT_EQ(loaded.statistics.cached_tokens, loaded.statistics.prompt_tokens);
    EXPECT_EQ(loaded.message, "");
    const Outcome reply = next(npc);
    expect_same_words(reply, expected);
    // As far as the pages go; the model's words, written down and read again, may be other tokens.
    EXPECT_EQ(reply.statistics.cached_tokens,
              std::min(expected.statistics.cached_tokens, loaded.statistics.cached_tokens));
    if (pages) {
      EXPECT_GT(reply.statistics.cached_tokens, 100u);
    }
  }
}

TEST_F(Snapshots, LoadIntoAnotherEngineWithItsPages) {
  banter_npc* const original = talker();
  const Bytes bytes = saved(original, kPages);
  const Outcome expected = next(original);
  Host other([](banter_engine_config& config) { config.thread_count = 2; });
  banter_npc* const npc = other.npc(other.load(file));
  EXPECT_GT(other.finish(load(npc, bytes)).statistics.cached_tokens, 64u);
  expect_same_words(next(other, npc), expected);
}

TEST_F(Snapshots, AnotherModelTakesTheWordsOnly) {
  const Bytes bytes = saved(talker(), kPages);
  const Bytes other_shape = tiny_model({.layers = 3, .embedding = 128}), other_weights = tiny_model({.seed = 2});
  for (const Bytes* other : {&other_shape, &other_weights}) {
    banter_model* const stranger = host.load(*other);
    banter_npc* const npc = host.npc(stranger, "Somebody else");
    const Outcome loaded = done(load(npc, bytes));
    EXPECT_GT(loaded.statistics.prompt_tokens, 0u);
    EXPECT_EQ(loaded.statistics.cached_tokens, 0u);
    EXPECT_NE(loaded.message.find("another model"), std::string::npos) << loaded.message;
    const Outcome reply = next(npc);
    EXPECT_EQ(reply.statistics.cached_tokens, 0u);
    EXPECT_EQ(read(saved(npc)).conversation.persona, read(bytes).conversation.persona);
    EXPECT_EQ(read(saved(npc)).conversation.turns.size(), read(bytes).conversation.turns.size() + 2);
  }
}

TEST_F(Snapshots, AreTakenInTheOrderOfTheCalls) {
  banter_npc* const npc = host.npc(model);
  const banter_request_id first = say(npc, "One", Ask(30, kGoOn));
  const banter_request_id early = save(npc);
  ASSERT_EQ(banter_npc_add_turn(npc, BANTER_ROLE_USER, "Two", 3), BANTER_OK);
  const banter_request_id late = save(npc, kPages);
  const banter_request_id second = say(npc, "Three", Ask(4, kGoOn));
  done(second);
  EXPECT_EQ(host.outcomes[first].kind, BANTER_EVENT_DONE);
  EXPECT_EQ(read(host.outcomes[early].bytes).conversation.turns.size(), 2u);
  EXPECT_EQ(read(host.outcomes[late].bytes).conversation.turns.size(), 3u);
  // A load between two replies takes effect between them.
  const banter_request_id before = say(npc, "Four", Ask(4, kGoOn));
  const banter_request_id back = load(npc, host.outcomes[early].bytes);
  const banter_request_id after = save(npc);
  EXPECT_EQ(host.finish(after).kind, BANTER_EVENT_SNAPSHOT);
  EXPECT_EQ(host.outcomes[before].kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.outcomes[back].kind, BANTER_EVENT_DONE);
  EXPECT_EQ(read(host.outcomes[after].bytes).conversation.turns.size(), 2u);
}

TEST_F(Snapshots, WaitForTheModelAndCanBeCancelled) {
  const Bytes bytes = saved(talker());
  banter_model* slow = nullptr;
  const Bytes other_file = tiny_model({.seed = 5});
  const banter_request_id loading = host.start_load(other_file, &slow);
  banter_npc* const npc = host.npc(slow);
  const banter_request_id restored = load(npc, bytes), snapshot = save(npc);
  EXPECT_EQ(host.finish(snapshot).kind, BANTER_EVENT_SNAPSHOT);
  EXPECT_EQ(host.outcomes[loading].kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.outcomes[restored].kind, BANTER_EVENT_DONE);
  EXPECT_EQ(read(host.outcomes[snapshot].bytes).conversation.turns.size(), 4u);

  const banter_request_id running = say(npc, "Hello", Ask(400, kGoOn));
  const banter_request_id second_save = save(npc), second_load = load(npc, bytes);
  EXPECT_EQ(banter_cancel(host.engine, second_save), BANTER_OK);
  EXPECT_EQ(banter_cancel(host.engine, second_load), BANTER_OK);
  EXPECT_EQ(banter_cancel(host.engine, running), BANTER_OK);
  for (const banter_request_id request : {second_save, second_load, running}) {
    EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_CANCELLED);
  }
  const banter_request_id last_save = save(npc), last_load = load(npc, bytes);
  banter_npc_destroy(npc);
  for (const banter_request_id request : {last_save, last_load}) {
    const banter_event_kind kind = host.finish(request).kind;
    EXPECT_TRUE(kind == BANTER_EVENT_CANCELLED || kind == BANTER_EVENT_SNAPSHOT || kind == BANTER_EVENT_DONE) << kind;
  }
}

TEST_F(Snapshots, ManyAtOnceNeedNoStack) {
  Host wide([](banter_engine_config& config) { config.max_requests = 20000; });
  wide.keep_events = false;
  banter_npc* const npc = wide.npc(wide.load(file));
  const banter_request_id first = say(npc, "Hello", Ask(200, kGoOn));
  std::vector<banter_request_id> saves;
  for (int i = 0; i < 15000; ++i) saves.push_back(save(npc));
  wide.finish(saves.back());
  EXPECT_EQ(wide.outcomes[first].kind, BANTER_EVENT_DONE);
  for (const banter_request_id request : saves) ASSERT_EQ(wide.outcomes[request].kind, BANTER_EVENT_SNAPSHOT);
}

TEST_F(Snapshots, CanLeaveThePersonaAsItIs) {
  const Bytes bytes = saved(talker());
  banter_npc* const npc = host.npc(model, "You are Mira, rewritten.");
  done(load(npc, bytes, BANTER_LOAD_KEEP_PERSONA));
  const dialogue::Snapshot now = read(saved(npc));
  EXPECT_EQ(now.conversation.persona, "You are Mira, rewritten.");
  EXPECT_EQ(now.conversation.turns.size(), 4u);
}

TEST_F(Snapshots, SmallerContextForgetsTheOldest) {
  banter_npc* const npc = host.npc(model);
  for (int i = 0; i < 60; ++i) {
    const std::string text = "Turn number " + std::to_string(i) + " of a long day.";
    ASSERT_EQ(banter_npc_add_turn(npc, i % 2 == 0 ? BANTER_ROLE_USER : BANTER_ROLE_ASSISTANT, text.data(), text.size()),
              BANTER_OK);
  }
  const Bytes bytes = saved(npc);
  EXPECT_EQ(read(bytes).conversation.turns.size(), 60u);
  const Bytes small_file = tiny_model({.context = 256});
  banter_npc* const other = host.npc(host.load(small_file));
  done(load(other, bytes));
  const Outcome reply = done(say(other, "And then?", Ask(8, kGoOn)));
  EXPECT_GT(reply.dropped_turns, 0u);
}

TEST_F(Snapshots, KeepTheSummaryOfWhatTheContextLost) {
  const auto forgetful = [](banter_npc_config& c) {
    c.context_policy = BANTER_CONTEXT_SUMMARIZE;
    c.context_tokens = 512;
    c.reply_reserve_tokens = 64;
  };
  banter_npc* const original = host.npc(model, "You are Mira, who keeps the inn.", forgetful);
  Outcome reply;
  for (int i = 0; i < 12 && reply.dropped_turns == 0; ++i) {
    reply = done(say(original, "Question " + std::to_string(i) + std::string(60, '.'), Ask(40, kGoOn)));
  }
  ASSERT_GT(reply.dropped_turns, 0u);
  // The save waits for the summary.
  const Bytes plain = saved(original), with_pages = saved(original, kPages);
  const std::string summary = read(plain).conversation.summary;
  ASSERT_FALSE(summary.empty());
  const Outcome expected = next(original);
  for (const Bytes* bytes : {&plain, &with_pages}) {
    banter_npc* const npc = host.npc(model, "Somebody else", forgetful);
    done(load(npc, *bytes));
    EXPECT_EQ(saved(npc), plain);
    expect_same_words(next(npc), expected);
  }
  // Whoever only trims keeps it too, and nobody keeps it beyond a reset.
  banter_npc* const other = host.npc(model, "Somebody else");
  done(load(other, plain));
  EXPECT_EQ(read(saved(other)).conversation.summary, summary);
  ASSERT_EQ(banter_npc_reset(other), BANTER_OK);
  EXPECT_EQ(read(saved(other)).conversation.summary, "");
}

/** Nothing may crash, and whatever is accepted must leave a character that talks. */
void expect_survives(Host& host, banter_npc* npc, const Bytes& bytes) {
  const Outcome outcome = host.finish(load(npc, bytes));
  ASSERT_TRUE(outcome.kind == BANTER_EVENT_DONE || outcome.kind == BANTER_EVENT_FAILED) << outcome.kind;
  if (outcome.kind == BANTER_EVENT_FAILED) {
    const banter_result code = banter_result_class(outcome.code);
    EXPECT_TRUE(code == BANTER_ERROR_CORRUPT || code == BANTER_ERROR_VERSION) << outcome.message;
    EXPECT_FALSE(outcome.message.empty());
  }
}

TEST_F(Snapshots, WhatIsNoSnapshotIsRefused) {
  banter_npc* const npc = talker();
  const Bytes good = saved(npc);
  const Outcome expected_later = host.finish(save(npc));
  for (const Bytes& bytes : {Bytes(1), Bytes(4096), Bytes(64, std::byte{0xFF}), file})
    expect_survives(host, npc, bytes);
  // A refused load changes nothing.
  EXPECT_EQ(saved(npc), expected_later.bytes);

  flatbuffers::FlatBufferBuilder builder;
  const auto turn = [&](uint8_t role, const char* text) {
    return schema::CreateTurn(builder, static_cast<schema::Role>(role), builder.CreateString(text));
  };
  const auto finish = [&](std::vector<flatbuffers::Offset<schema::Turn>> turns, uint32_t format) {
    const auto list = builder.CreateVector(turns);
    builder.FinishSizePrefixed(schema::CreateSnapshot(builder, format, 0, 0, 0, list), schema::SnapshotIdentifier());
    const auto* const data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
    Bytes bytes(data, data + builder.GetSize());
    builder.Clear();
    return bytes;
  };
  const auto result = [&](const Bytes& bytes) { return host.finish(load(npc, bytes)); };
  EXPECT_EQ(result(finish({turn(3, "x")}, 1)).code, BANTER_ERROR_CORRUPT);
  EXPECT_EQ(result(finish({turn(1, "\xC3")}, 1)).code, BANTER_ERROR_CORRUPT);
  EXPECT_EQ(result(finish({turn(1, "x")}, 0)).code, BANTER_ERROR_CORRUPT);
  EXPECT_EQ(result(finish({turn(1, "x")}, 2)).code, BANTER_ERROR_VERSION);
  EXPECT_EQ(result(finish({turn(1, "x")}, 1)).kind, BANTER_EVENT_DONE);
  // A small file that spells a large conversation.
  const auto shared = turn(1, std::string(2000, 'x').c_str());
  EXPECT_EQ(result(finish(std::vector(1000, shared), 1)).code, BANTER_ERROR_CORRUPT);
  EXPECT_EQ(result(finish({turn(1, ""), turn(2, "")}, 1)).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.finish(say(npc, "Hello", Ask(4, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST_F(Snapshots, ArgumentsAreChecked) {
  banter_npc* const npc = host.npc(model);
  banter_request_id request = 7;
  banter_save_config to_save;
  banter_save_config_init(&to_save, sizeof to_save);
  banter_load_config to_load;
  banter_load_config_init(&to_load, sizeof to_load);
  EXPECT_EQ(banter_npc_save(npc, &to_save, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_npc_save(nullptr, &to_save, &request), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(request, 0u);
  to_save.flags = 2;
  EXPECT_EQ(banter_npc_save(npc, &to_save, &request), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_npc_load(npc, nullptr, 4, nullptr, &request), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_npc_load(npc, "x", 0, nullptr, &request), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_npc_load(npc, "x", SIZE_MAX, nullptr, &request), BANTER_ERROR_INVALID_ARGUMENT);
  to_load.flags = 4;
  EXPECT_EQ(banter_npc_load(npc, "xxxx", 4, &to_load, &request), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_npc_save(npc, nullptr, &request), BANTER_OK);
  EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_SNAPSHOT);
}

TEST_F(Snapshots, CallersOfTheFirstVersionGetTheirEvents) {
  const banter_request_id request = save(host.npc(model));
  constexpr size_t kFirst = offsetof(banter_event, bytes);
  std::vector<unsigned char> room(kFirst * 2 + 64, 0xAB);
  uint32_t count = 0;
  while (count == 0) {
    ASSERT_EQ(banter_poll(host.engine, reinterpret_cast<banter_event*>(room.data()), kFirst, 2, &count), BANTER_OK);
    if (count == 0) banter_wait(host.engine, 50);
  }
  banter_event event{};
  std::memcpy(&event, room.data(), kFirst);
  EXPECT_EQ(event.request, request);
  EXPECT_EQ(event.kind, BANTER_EVENT_SNAPSHOT);
  for (size_t i = kFirst * count; i < room.size(); ++i) ASSERT_EQ(room[i], 0xAB) << i;
  EXPECT_EQ(banter_poll(host.engine, reinterpret_cast<banter_event*>(room.data()), kFirst - 8, 1, &count),
            BANTER_ERROR_INVALID_ARGUMENT);
}

/** Random text of whole code points. */
std::string random_text(std::mt19937& random) {
  static const char* const kPieces[] = {"a",          "the ", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x90\x89",
                                        "<|im_end|>", "\n",   "."};
  std::string text;
  for (uint32_t i = random() % 40; i > 0; --i) text += kPieces[random() % 8];
  return text;
}

TEST_F(Snapshots, ThousandRandomCharactersComeBackAsTheyWere) {
  std::mt19937 random(20);
  host.keep_events = false;
  for (int round = 0; round < (kUnderThreadSanitizer ? 150 : 1000); ++round) {
    const std::string persona = random_text(random);
    banter_npc* const npc = host.npc(model, persona.c_str());
    for (uint32_t i = random() % 12; i > 0; --i) {
      const std::string text = random_text(random);
      if (random() % 6 == 0) {
        host.finish(say(npc, text, Ask(1 + random() % 6, kGoOn)));
      } else if (random() % 12 == 0) {
        ASSERT_EQ(banter_npc_reset(npc), BANTER_OK);
      } else {
        ASSERT_EQ(banter_npc_add_turn(npc, static_cast<banter_role>(random() % 3), text.data(), text.size()),
                  BANTER_OK);
      }
    }
    const uint32_t flags = random() % 2;
    const Bytes bytes = saved(npc, flags);
    banter_npc* const copy = host.npc(model, "Nobody");
    done(load(copy, bytes));
    const Bytes again = saved(copy, flags);
    const dialogue::Snapshot a = read(bytes), b = read(again);
    EXPECT_EQ(a.conversation.persona, persona);
    EXPECT_EQ(a.conversation.persona, b.conversation.persona);
    ASSERT_EQ(a.conversation.turns.size(), b.conversation.turns.size());
    for (size_t i = 0; i < a.conversation.turns.size(); ++i) {
      EXPECT_EQ(a.conversation.turns[i].role, b.conversation.turns[i].role);
      EXPECT_EQ(a.conversation.turns[i].text, b.conversation.turns[i].text);
    }
    ASSERT_EQ(bytes, again) << round;  // with pages: the same numbers
    banter_npc_destroy(npc);
    banter_npc_destroy(copy);
  }
}

}  // namespace
}  // namespace banter::test
