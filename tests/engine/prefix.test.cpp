// Characters that share a persona or a world's lore: computed once, stored once, and never to be noticed in a reply.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_host.h"

namespace banter::test {
namespace {

std::string lore(size_t bytes) {
  std::string text = "The village of Ash lies between two rivers. ";
  while (text.size() < bytes) {
    text += std::to_string(text.size());
    text += " goats graze there, and its people tell of dragons. ";
  }
  text.resize(bytes);
  return text;
}

struct Cast {
  std::vector<banter_npc*> npcs;
  Cast(Host& host, banter_model* model, int count, const std::string& shared) {
    for (int i = 0; i < count; ++i) {
      npcs.push_back(host.npc(model, (shared + "You are villager " + std::to_string(i) + ".").c_str()));
    }
  }
};

Ask sampled(int i) {
  Ask ask(24, kGoOn);
  ask.sampling.temperature = 0.8f;
  ask.sampling.seed = static_cast<uint64_t>(i);
  return ask;
}

TEST(Prefix, TheSecondSpeakerComputesOnlyItsOwnPart) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  const Cast cast(host, model, 3, lore(600));
  const Outcome first = host.finish(say(cast.npcs[0], "Hello?"));
  EXPECT_EQ(first.statistics.cached_tokens, 0u);
  for (int i = 1; i < 3; ++i) {
    const Outcome next = host.finish(say(cast.npcs[static_cast<size_t>(i)], "Hello?"));
    EXPECT_GE(next.statistics.cached_tokens, 560u);  // of 600 bytes
    EXPECT_LT(next.statistics.cached_tokens, next.statistics.prompt_tokens);
  }
}

TEST(Prefix, FortyAtOnceComputeTheLoreOnceAndStoreItOnce) {
  const auto bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.step_tokens = 64; });
  banter_model* const model =
      host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 4000 * tiny_bytes_per_token(); });
  const Cast cast(host, model, 40, lore(800));
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(say(cast.npcs[static_cast<size_t>(i)], "Hello?", sampled(i)));
  uint64_t prompt = 0, most = 0;
  for (const banter_request_id request : requests) {
    host.pump_until([&] {
      most = std::max(most, host.statistics().kv_bytes_used);
      return host.outcomes[request].kind != 0;
    });
    const Outcome outcome = host.finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
    prompt += outcome.statistics.prompt_tokens;
  }
  const uint64_t computed = host.statistics().prefill_tokens;
  EXPECT_GT(prompt, 40u * 800);
  EXPECT_LT(computed, 800u + 64 + 40 * 130) << "of " << prompt;
  // The lore once, and each one's own words: a page of 32 tokens for the copy where they part, and what they add.
  EXPECT_LE(most, (800 + 40 * (130 + 32)) * tiny_bytes_per_token());
}

TEST(Prefix, SharingChangesNoReply) {
  for (const uint32_t window : {0u, 48u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    std::vector<std::vector<int32_t>> replies[2];
    for (const bool share : {false, true}) {
      Host host([](banter_engine_config& c) { c.step_tokens = 48; });
      banter_model* const model = host.load(
          bytes, [&](banter_model_config& c) { c.flags = share ? 0 : uint32_t{BANTER_MODEL_NO_PREFIX_SHARING}; });
      const Cast cast(host, model, 6, lore(333));
      std::vector<banter_request_id> requests;
      for (int turn = 0; turn < 3; ++turn) {
        for (int i = 0; i < 6; ++i) requests.push_back(say(cast.npcs[static_cast<size_t>(i)], "And then?", sampled(i)));
      }
      uint32_t cached = 0;
      for (const banter_request_id request : requests) {
        const Outcome outcome = host.finish(request);
        cached += outcome.statistics.cached_tokens;
        replies[share].push_back(outcome.tokens);
      }
      EXPECT_GT(cached, 0u);
    }
    EXPECT_EQ(replies[0], replies[1]) << "window " << window;
  }
}

TEST(Prefix, APoolTooSmallForEverybodyOnlyMakesThemWait) {
  const auto bytes = tiny_model();
  std::vector<std::vector<int32_t>> replies[3];
  for (int run = 0; run < 3; ++run) {
    Host host([&](banter_engine_config& c) {
      c.step_tokens = 64;
      if (run == 2) c.swap_budget_bytes = 4 << 20;
    });
    banter_model* const model = host.load(bytes, [&](banter_model_config& c) {
      c.context_tokens = 512;
      c.kv_budget_bytes = (run == 0 ? 20000 : 700) * tiny_bytes_per_token();
    });
    const Cast cast(host, model, 6, lore(200));
    const Cast others(host, model, 6, lore(100) + "Elsewhere. ");
    std::vector<banter_request_id> requests;
    for (int turn = 0; turn < 2; ++turn) {
      for (int i = 0; i < 6; ++i) {
        requests.push_back(say(cast.npcs[static_cast<size_t>(i)], "And then?", sampled(i)));
        requests.push_back(say(others.npcs[static_cast<size_t>(i)], "And then?", sampled(i)));
      }
    }
    uint64_t swapped = 0;
    for (const banter_request_id request : requests) {
      host.pump_until([&] {
        swapped = std::max(swapped, host.statistics().kv_pages_swapped);
        return host.outcomes[request].kind != 0;
      });
      const Outcome outcome = host.finish(request);
      EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
      replies[run].push_back(outcome.tokens);
    }
    EXPECT_EQ(swapped > 0, run == 2) << "run " << run << ": " << swapped << " pages swapped at most";
  }
  EXPECT_EQ(replies[0], replies[1]);
  EXPECT_EQ(replies[0], replies[2]);
}

/** One text drives another out of the pool, and comes again. */
struct Return {
  std::vector<int32_t> tokens;
  uint32_t prompt_tokens = 0, cached_tokens = 0;
  uint64_t swapped = 0;  // pages, before it came again
};
Return come_again(const std::vector<std::byte>& bytes, uint64_t pool_bytes, uint64_t swap_bytes) {
  Host host([&](banter_engine_config& c) { c.swap_budget_bytes = swap_bytes; });
  banter_model* const model = host.load(bytes, [&](banter_model_config& c) { c.kv_budget_bytes = pool_bytes; });
  const std::string text = lore(400);
  for (const std::string& words : {text, "Elsewhere. " + lore(400)}) {
    EXPECT_EQ(host.finish(complete(model, words, Ask(8, kGoOn))).kind, BANTER_EVENT_DONE);
  }
  Return again;
  again.swapped = host.statistics().kv_pages_swapped;
  const Outcome outcome = host.finish(complete(model, text, Ask(8, kGoOn)));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_DONE) << outcome.message;
  again.tokens = outcome.tokens;
  again.prompt_tokens = outcome.statistics.prompt_tokens;
  again.cached_tokens = outcome.statistics.cached_tokens;
  return again;
}

TEST(Prefix, SwappedPagesAreCopiedBackInsteadOfComputedAgain) {
  // So slow that copying a page is far cheaper than computing it.
  TinyModelOptions options;
  options.embedding = 256;
  options.layers = 4;
  const auto bytes = tiny_model(options);
  const uint64_t pool = 500 * bytes_per_token(bytes);
  const Return without = come_again(bytes, pool, 0);
  EXPECT_EQ(without.swapped, 0u);
  EXPECT_LT(without.cached_tokens, without.prompt_tokens / 2);
  // What a copy costs is measured: when another program stops this one in the first, its pages are not swapped.
  Return with;
  for (int attempt = 0; attempt < 4 && with.cached_tokens + 32 < without.prompt_tokens; ++attempt) {
    with = come_again(bytes, pool, 8 << 20);
    EXPECT_EQ(with.tokens, without.tokens);
  }
  EXPECT_GT(with.swapped, 0u);
  EXPECT_GE(with.cached_tokens + 32, with.prompt_tokens);
}

/** A conversation that fills the whole pool goes on in its last page, though the index knows that page too. */
TEST(Prefix, ASequenceThatFillsThePoolGoesOn) {
  for (const uint32_t window : {0u, 48u}) {
    TinyModelOptions options;
    options.window = window;
    const auto bytes = tiny_model(options);
    Host host;
    banter_model* const model =
        host.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 320 * tiny_bytes_per_token(); });
    const banter_model_info info = info_of(model);
    const uint32_t context = info.context_tokens;
    for (uint32_t length = context - 40; length < context; ++length) {
      for (int again = 0; again < 2; ++again) {
        const Outcome outcome = host.finish(complete(model, std::string(length, 'x'), Ask(0, kGoOn)), 20);
        ASSERT_EQ(outcome.kind, BANTER_EVENT_DONE) << length << " " << outcome.message;
        EXPECT_EQ(outcome.reason, BANTER_FINISH_CONTEXT);
      }
    }
  }
}

}  // namespace
}  // namespace banter::test
