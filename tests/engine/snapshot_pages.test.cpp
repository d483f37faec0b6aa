// The KV pages of saved conversations: used where they mean the same, never where they do not, whatever the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "engine/snapshot_fixture.h"

namespace banter::test {
namespace {

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

struct Format {
  const char* name;
  banter_kv_type type;
  uint32_t window;
};
// With 350 tokens of window the quantised groups' pages go too; their companions' do in any case.
constexpr Format kFormats[] = {{"f16", BANTER_KV_F16, 0},
                               {"bf16", BANTER_KV_BF16, 0},
                               {"f32", BANTER_KV_F32, 0},
                               {"int8", BANTER_KV_INT8, 0},
                               {"int4", BANTER_KV_INT4, 0},
                               {"f16 window", BANTER_KV_F16, 40},
                               {"int8 window", BANTER_KV_INT8, 350},
                               {"int4 window", BANTER_KV_INT4, 350}};

banter_model* load_as(Host& host, const Bytes& file, banter_kv_type type) {
  return host.load(file, [&](banter_model_config& c) {
    c.kv_type = type;
    c.flags = BANTER_MODEL_NO_PREFIX_SHARING;
  });
}

TEST_F(Snapshots, EveryFormatGoesOnWithNothingComputedAgain) {
  for (const Format& format : kFormats) {
    if (!is_served(format.type)) continue;
    SCOPED_TRACE(format.name);
    const Bytes bytes = tiny_model({.window = format.window});
    for (const auto backend :
         {card_is_expected() ? BANTER_BACKEND_CUDA : BANTER_BACKEND_CPU, BANTER_BACKEND_REFERENCE}) {
      const bool slow = backend == BANTER_BACKEND_REFERENCE;
      if (slow && kUnderThreadSanitizer) continue;
      const auto choose = [&](banter_engine_config& config) { config.backend = backend; };
      Host here(choose);
      banter_npc* const original = here.npc(load_as(here, bytes, format.type), "A persona of some length.");
      for (int i = 0; i < (slow ? 2 : 5); ++i)
        here.finish(say(original, "Talk on, and on.", Ask(slow ? 90 : 100, kGoOn)));
      const Outcome file_of_original = here.finish(save(original, kPages));
      ASSERT_EQ(file_of_original.kind, BANTER_EVENT_SNAPSHOT) << file_of_original.message;
      EXPECT_EQ(file_of_original.statistics.cached_tokens, file_of_original.statistics.prompt_tokens);
      const Outcome expected = next(here, original);
      const Bytes afterwards = here.finish(save(original, kPages)).bytes;

      Host there(choose);
      banter_npc* const copy = there.npc(load_as(there, bytes, format.type), "Somebody else");
      const Outcome loaded = there.finish(load(copy, file_of_original.bytes));
      ASSERT_EQ(loaded.kind, BANTER_EVENT_DONE);
      EXPECT_EQ(loaded.message, "");
      EXPECT_EQ(loaded.statistics.cached_tokens, file_of_original.statistics.prompt_tokens);
      EXPECT_EQ(there.finish(save(copy, kPages)).bytes, file_of_original.bytes);
      const Outcome reply = next(there, copy);
      expect_same_words(reply, expected);
      EXPECT_EQ(reply.statistics.cached_tokens, expected.statistics.cached_tokens);
      EXPECT_EQ(there.finish(save(copy, kPages)).bytes, afterwards);  // bit for bit the same keys and values
    }
  }
}

TEST_F(Snapshots, AnotherFormatComputesAgain) {
  for (const auto& [from, to] : {std::pair(BANTER_KV_INT8, BANTER_KV_INT4), std::pair(BANTER_KV_INT4, BANTER_KV_F16),
                                 std::pair(BANTER_KV_BF16, BANTER_KV_F16)}) {
    banter_npc* const original = host.npc(load_as(host, file, from));
    done(say(original, "Hello there!", Ask(40, kGoOn)));
    banter_npc* const npc = host.npc(load_as(host, file, to));
    const Outcome loaded = done(load(npc, saved(original, kPages)));
    EXPECT_GT(loaded.statistics.prompt_tokens, 0u);
    EXPECT_EQ(loaded.statistics.cached_tokens, 0u);
    EXPECT_NE(loaded.message, "");
    EXPECT_EQ(next(npc).kind, BANTER_EVENT_DONE);
  }
}

TEST_F(Snapshots, NumbersThatAreNoneStayOutOfEveryFormat) {
  for (const Format& format : kFormats) {
    if (!is_served(format.type)) continue;
    SCOPED_TRACE(format.name);
    const Bytes model_bytes = tiny_model({.window = format.window});
    banter_model* const other = load_as(host, model_bytes, format.type);
    banter_npc* const original = host.npc(other);
    done(say(original, "Hello there!", Ask(60, kGoOn)));
    const Bytes good = saved(original, kPages);
    // All ones are not-a-number in every float format; the last 64 bytes of a page reach into its scales.
    const Bytes bad = rewritten(
        good, [](auto&, std::span<std::byte> pages) { std::fill(pages.end() - 64, pages.end(), std::byte{0xFF}); });
    const Outcome refused = done(load(host.npc(other), bad));
    EXPECT_EQ(refused.statistics.cached_tokens, 0u);
    EXPECT_NE(refused.message.find("not a number"), std::string::npos) << refused.message;
    // Great numbers, scales included, are only wrong.
    const Bytes wrong = rewritten(
        good, [](auto&, std::span<std::byte> pages) { std::fill(pages.begin(), pages.end(), std::byte{0x7B}); });
    banter_npc* const npc = host.npc(other);
    EXPECT_GT(done(load(npc, wrong)).statistics.cached_tokens, 0u);
    const Outcome reply = host.finish(say(npc, "And then?", Ask(8, kGoOn)));
    EXPECT_TRUE(reply.kind == BANTER_EVENT_DONE || reply.kind == BANTER_EVENT_FAILED);
    EXPECT_EQ(done(say(host.npc(other), "Hello", Ask(4, kGoOn))).tokens.size(), 4u);
    // Pages cut short, or too many: the counts decide, not the bytes that happen to be there.
    for (const size_t g : {size_t{0}, read(good).kv->pages.groups.size() - 1}) {
      const Bytes short_group =
          rewritten(good, [&](dialogue::Snapshot& s, auto) { s.kv->pages.groups[g].page_count -= 1; });
      EXPECT_EQ(done(load(host.npc(other), short_group)).statistics.cached_tokens, 0u);
    }
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
      {"other type", [&](auto& s, auto) { group(s).geometry.type = ops::KvType::kBF16; }},
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
      {"a page of tokens too few",
       [&](auto& s, auto) {
         s.kv->tokens.resize(s.kv->tokens.size() - static_cast<size_t>(group(s).geometry.page_tokens));
       }},
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
    const uint16_t extreme_halves[] = {0x7BFF, 0xFBFF, 0x0001, 0, 0xBC00};  // F16
    if (is_served(BANTER_KV_F32)) {
      for (size_t at = 0; at + 4 <= pages.size(); at += 4) std::memcpy(&pages[at], &extreme[random() % 5], 4);
    } else {
      for (size_t at = 0; at + 2 <= pages.size(); at += 2) std::memcpy(&pages[at], &extreme_halves[random() % 5], 2);
    }
  });
  banter_npc* const npc = host.npc(model);
  EXPECT_GT(done(load(npc, bytes)).statistics.cached_tokens, 0u);
  const Outcome reply = host.finish(say(npc, "And then?", Ask(8, kGoOn)));
  EXPECT_TRUE(reply.kind == BANTER_EVENT_DONE || reply.kind == BANTER_EVENT_FAILED);
  EXPECT_EQ(done(say(host.npc(model), "Hello", Ask(4, kGoOn))).tokens.size(), 4u);
}

TEST_F(Snapshots, FullPoolComputesAgain) {
  banter_npc* const original = talker();
  const Bytes bytes = saved(original, kPages);
  const Outcome expected = next(original);
  Host other;
  banter_model* const small = other.load(file, [](banter_model_config& config) { config.kv_budget_bytes = 300 << 10; });
  const banter_model_info info = info_of(small);
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

}  // namespace
}  // namespace banter::test
