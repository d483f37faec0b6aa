// Conversations saved and loaded: what comes back, in which order, into which model, and what damaged bytes do.
#include <gtest/gtest.h>

#include <banter_schema/snapshot_generated.h>

#include <algorithm>
#include <limits>
#include <random>

#include "dialogue/snapshot.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

using dialogue::Role;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kPages = BANTER_SAVE_KV_PAGES;

class Snapshots : public testing::Test {
 protected:
  // Without shared prefixes, so that what is cached came with the snapshot.
  void SetUp() override {
    model = host.load(file, [](banter_model_config& c) { c.flags = BANTER_MODEL_NO_PREFIX_SHARING; });
  }

  Outcome done(banter_request_id request) {
    Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    return outcome;
  }
  Bytes saved(banter_npc* npc, uint32_t flags = 0) {
    const Outcome outcome = host.finish(save(npc, flags));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_SNAPSHOT) << outcome.message;
    EXPECT_EQ(outcome.terminals, 1);
    return outcome.bytes;
  }
  /** A character that has talked: its cache holds more than a page. */
  banter_npc* talker() {
    banter_npc* const npc = host.npc(model, "You are Mira. You keep an inn in the valley of Oakrest.");
    for (const char* line : {"Hello there!", "Tell me of the valley and its people."})
      done(say(npc, line, Ask(24, kGoOn)));
    return npc;
  }
  /** The next reply, with the prompt it was given. */
  Outcome next(Host& where, banter_npc* npc) {
    const Outcome outcome = where.finish(say(npc, "And then?", Ask(20, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    return outcome;
  }
  Outcome next(banter_npc* npc) { return next(host, npc); }

  const Bytes file = tiny_model();
  Host host;
  banter_model* model = nullptr;
};

dialogue::Snapshot read(const Bytes& bytes) {
  auto out = dialogue::read_snapshot(bytes);
  EXPECT_TRUE(out) << out.error().message;
  return out ? std::move(out->snapshot) : dialogue::Snapshot();
}

void expect_same_words(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
}

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

TEST_F(Snapshots, SlidingWindowsKeepTheirPages) {
  const Bytes windowed = tiny_model({.window = 40});
  banter_model* const other = host.load(windowed);
  banter_npc* const original = host.npc(other, "A persona that is a good deal longer than the window of forty tokens.");
  for (int i = 0; i < 4; ++i) done(say(original, "Talk on, and on, and on.", Ask(60, kGoOn)));
  const Bytes bytes = saved(original, kPages);
  const dialogue::Snapshot snapshot = read(bytes);
  ASSERT_TRUE(snapshot.kv);
  EXPECT_GT(snapshot.kv->pages.groups[0].first_page, 0);
  const Outcome expected = next(original);
  banter_npc* const npc = host.npc(other);
  const Outcome loaded = done(load(npc, bytes));
  EXPECT_GT(loaded.statistics.cached_tokens, 0u) << loaded.message;
  const Outcome reply = next(npc);
  expect_same_words(reply, expected);
  EXPECT_GT(reply.statistics.cached_tokens, loaded.statistics.cached_tokens / 2);
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

TEST_F(Snapshots, AnotherBackendComputesAgain) {
  const Bytes bytes = saved(talker(), kPages);
  Host other([](banter_engine_config& config) { config.backend = BANTER_BACKEND_REFERENCE; });
  banter_npc* const npc = other.npc(other.load(file));
  const Outcome loaded = other.finish(load(npc, bytes));
  ASSERT_EQ(loaded.kind, BANTER_EVENT_DONE);
  EXPECT_EQ(loaded.statistics.cached_tokens, 0u);
  EXPECT_NE(loaded.message.find("another backend"), std::string::npos) << loaded.message;
  EXPECT_EQ(next(other, npc).kind, BANTER_EVENT_DONE);
}

/** `bytes` with its KV part described otherwise, and sealed again. */
Bytes rewritten(const Bytes& bytes, const std::function<void(dialogue::Snapshot&, std::span<std::byte>)>& change) {
  auto in = dialogue::read_snapshot(bytes);
  EXPECT_TRUE(in && in->snapshot.kv);
  Bytes pages(in->pages.begin(), in->pages.end());
  change(in->snapshot, pages);
  auto out = dialogue::write_snapshot(in->snapshot);
  EXPECT_TRUE(out);
  std::copy_n(pages.begin(), std::min(pages.size(), out->pages.size()), out->pages.begin());
  dialogue::seal(*out);
  return out->bytes;
}

TEST_F(Snapshots, OtherVersionsAndFormatsComputeAgain) {
  banter_npc* const original = talker();
  const Bytes bytes = saved(original, kPages);
  const Outcome expected = next(original);
  using Change = std::function<void(dialogue::Snapshot&, std::span<std::byte>)>;
  const auto group = [](dialogue::Snapshot& s) -> kv::StoredGroup& { return s.kv->pages.groups[0]; };
  const std::pair<const char*, Change> changes[] = {
      {"library version", [](auto& s, auto) { s.library_version = "0.0.9"; }},
      {"layout", [](auto& s, auto) { s.kv->layout += "x"; }},
      {"type", [&](auto& s, auto) { group(s).geometry.type = static_cast<ops::KvType>(77); }},
      {"other type", [&](auto& s, auto) { group(s).geometry.type = ops::KvType::kF16; }},
      {"page tokens", [&](auto& s, auto) { group(s).geometry.page_tokens *= 2; }},
      {"no page tokens", [&](auto& s, auto) { group(s).geometry.page_tokens = 0; }},
      {"layers", [&](auto& s, auto) { group(s).geometry.layers = -1; }},
      {"window", [&](auto& s, auto) { group(s).window = 8; }},
      {"first page", [&](auto& s, auto) { group(s).first_page = 1; }},
      {"negative page", [&](auto& s, auto) { group(s).first_page = -1; }},
      {"page count", [&](auto& s, auto) { group(s).page_count -= 1; }},
      {"many pages", [&](auto& s, auto) { group(s).page_count = 1 << 20; }},
      {"no group", [](auto& s, auto) { s.kv->pages.groups.clear(); }},
      {"groups", [&](auto& s, auto) { s.kv->pages.groups.push_back(group(s)); }},
      {"a token too few", [](auto& s, auto) { s.kv->tokens.pop_back(); }},
      {"a strange token", [](auto& s, auto) { s.kv->tokens[3] = 1 << 30; }},
      {"a negative token", [](auto& s, auto) { s.kv->tokens[0] = -2; }},
      {"not a number",
       [](auto&, std::span<std::byte> pages) {
         const float nan = std::numeric_limits<float>::quiet_NaN();
         std::memcpy(pages.data() + 128, &nan, sizeof nan);
       }},
      {"infinite",
       [](auto&, std::span<std::byte> pages) {
         const float infinity = -std::numeric_limits<float>::infinity();
         std::memcpy(pages.data() + pages.size() - 4, &infinity, sizeof infinity);
       }},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    banter_npc* const npc = host.npc(model);
    const Outcome loaded = done(load(npc, rewritten(bytes, change)));
    EXPECT_EQ(loaded.statistics.cached_tokens, 0u);
    EXPECT_NE(loaded.message, "");
    expect_same_words(next(npc), expected);
    banter_npc_destroy(npc);
  }
  // And the rewriting itself is right: unchanged, the pages are used.
  banter_npc* const npc = host.npc(model);
  EXPECT_GT(done(load(npc, rewritten(bytes, [](auto&, auto) {}))).statistics.cached_tokens, 0u);
}

TEST_F(Snapshots, PagesThatLieAreOnlyWrong) {
  const Bytes bytes = rewritten(saved(talker(), kPages), [](auto&, std::span<std::byte> pages) {
    std::mt19937 random(7);
    const float extreme[] = {3e38f, -3e38f, 1e-45f, 0.0f, -1.0f};
    for (size_t at = 0; at + 4 <= pages.size(); at += 4) std::memcpy(&pages[at], &extreme[random() % 5], 4);
  });
  banter_npc* const npc = host.npc(model);
  EXPECT_GT(done(load(npc, bytes)).statistics.cached_tokens, 0u);
  const Outcome reply = host.finish(say(npc, "And then?", Ask(8, kGoOn)));
  EXPECT_TRUE(reply.kind == BANTER_EVENT_DONE || reply.kind == BANTER_EVENT_FAILED);
  EXPECT_EQ(done(say(host.npc(model), "Hello", Ask(4, kGoOn))).tokens.size(), 4u);
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

TEST_F(Snapshots, FullPoolComputesAgain) {
  banter_npc* const original = talker();
  const Bytes bytes = saved(original, kPages);
  const Outcome expected = next(original);
  Host other;
  banter_model* const small = other.load(file, [](banter_model_config& config) { config.kv_budget_bytes = 300 << 10; });
  banter_model_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(banter_model_get_info(small, &info), BANTER_OK);
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    banter_npc* const npc = other.npc(small);
    const Outcome loaded = other.finish(load(npc, bytes));
    ASSERT_EQ(loaded.kind, BANTER_EVENT_DONE) << loaded.message;
    refused = loaded.statistics.cached_tokens == 0;
    if (refused) {
      EXPECT_NE(loaded.message.find("pool"), std::string::npos) << loaded.message;
      expect_same_words(next(other, npc), expected);
    }
  }
  EXPECT_TRUE(refused) << info.kv_pool_bytes;
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

TEST_F(Snapshots, EveryByteMayBeWrong) {
  banter_npc* const original = host.npc(model, "Mira");
  done(say(original, "Hi", Ask(40, kGoOn)));
  const Bytes plain = saved(original), with_pages = saved(original, kPages);
  ASSERT_TRUE(read(with_pages).kv);
  const size_t pages_at = with_pages.size() - read(with_pages).kv->page_bytes - 8;
  banter_npc* const npc = host.npc(model);
  host.keep_events = false;
  size_t used = 0, refused = 0;
  for (const Bytes* good : {&plain, &with_pages}) {
    // Every byte of the FlatBuffer; pages in steps.
    for (size_t at = 0; at < good->size(); at += at < pages_at + 64 ? 1 : 997) {
      for (const uint8_t flip : {0x01, 0x80, 0xFF}) {
        Bytes bad = *good;
        bad[at] ^= std::byte{flip};
        const Outcome outcome = host.finish(load(npc, bad));
        ASSERT_TRUE(outcome.kind == BANTER_EVENT_DONE || outcome.kind == BANTER_EVENT_FAILED) << at;
        // No changed byte gets past the checksum.
        if (good == &with_pages) {
          EXPECT_EQ(outcome.statistics.cached_tokens, 0u) << at;
        }
        if (outcome.kind == BANTER_EVENT_DONE) ++used;
        if (outcome.kind == BANTER_EVENT_FAILED) ++refused;
      }
    }
    for (size_t size = 1; size < good->size(); size += size < pages_at + 64 ? 1 : 997) {
      const Bytes cut(good->begin(), good->begin() + static_cast<std::ptrdiff_t>(size));
      const Outcome outcome = host.finish(load(npc, cut));
      EXPECT_EQ(outcome.kind, good == &with_pages && size >= pages_at - 63 ? outcome.kind : BANTER_EVENT_FAILED)
          << size;
      EXPECT_EQ(outcome.statistics.cached_tokens, 0u);
      if (size > pages_at) {
        EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << size << outcome.message;
      }
    }
  }
  EXPECT_GT(used, 100u);
  EXPECT_GT(refused, 100u);
  EXPECT_EQ(done(load(npc, with_pages)).message, "");
  EXPECT_EQ(next(npc).kind, BANTER_EVENT_DONE);
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
  for (int round = 0; round < 1000; ++round) {
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
