// What tests of snapshots share: characters that are saved and loaded, and snapshots rewritten.
#pragma once

#include <gtest/gtest.h>

#include <banter_schema/snapshot_generated.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "dialogue/snapshot.h"
#include "engine/test_host.h"

namespace banter::test {

/** The thread sanitizer's build looks for races, not for values: the long tests of values are shorter there. */
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

using dialogue::Role;
using Bytes = std::vector<std::byte>;

inline constexpr uint32_t kPages = BANTER_SAVE_KV_PAGES;

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

inline dialogue::Snapshot read(const Bytes& bytes) {
  auto out = dialogue::read_snapshot(bytes);
  EXPECT_TRUE(out) << out.error().message;
  return out ? std::move(out->snapshot) : dialogue::Snapshot();
}

inline void expect_same_words(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
}

/** `bytes` with its KV part described otherwise, and sealed again. */
inline Bytes rewritten(const Bytes& bytes,
                       const std::function<void(dialogue::Snapshot&, std::span<std::byte>)>& change) {
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

}  // namespace banter::test
