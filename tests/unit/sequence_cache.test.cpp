// Sequences' page tables: reserving, letting go behind windows, taking back.
#include <random>
#include <set>

#include "unit/kv_fixture.h"

namespace banter::kv {
namespace {

TEST_F(KvTest, ReservationIsAllOrNothing) {
  const std::unique_ptr<PagePool> pool = make({kFull, kSliding}, 6);
  const int32_t sliding_tokens = pool->pages(1).geometry.page_tokens;
  SequenceCache cache(*pool, 10000);
  const Result<void> too_much = cache.reserve(6 * sliding_tokens);  // 6 pages of the one, at least 1 of the other
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, BANTER_ERROR_KV_POOL_EXHAUSTED);
  EXPECT_EQ(pool->free_pages(), 6);
  EXPECT_EQ(cache.writable(), 0);
  ASSERT_TRUE(cache.reserve(3 * sliding_tokens));
  EXPECT_GE(cache.writable(), 3 * sliding_tokens);
  EXPECT_EQ(held(cache, *pool), 6 - pool->free_pages());
  EXPECT_EQ(cache.held_pages(), 6 - pool->free_pages());
  EXPECT_EQ(cache.length(), 0);
}

TEST_F(KvTest, ASequenceDoesNotOutgrowItsContext) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 8);
  SequenceCache cache(*pool, 50);
  ASSERT_TRUE(cache.reserve(50));
  cache.advance(50);
  const Result<void> beyond = cache.reserve(1);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, BANTER_ERROR_CONTEXT_FULL);
  EXPECT_FALSE(cache.reserve(2147483647));
  EXPECT_TRUE(cache.reserve(0));
}

TEST_F(KvTest, PagesBehindAWindowAreReleased) {
  GroupSpec sliding = kSliding;
  sliding.restorable = 20;
  const std::unique_ptr<PagePool> pool = make({kFull, sliding}, 200);
  const int32_t page_tokens = pool->pages(1).geometry.page_tokens;
  SequenceCache cache(*pool, 1000);
  for (int32_t length = 1; length <= 600; ++length) {
    ASSERT_TRUE(cache.reserve(1));
    cache.advance(1);
    const std::span<const PageId> table = cache.table(1);
    // The next row attends to (length − 40, length]; 20 more positions stay for truncate().
    const int32_t oldest = std::max(0, length - 40 + 1 - 20);
    for (int32_t p = 0; p * page_tokens < length; ++p) {
      const bool is_behind = (p + 1) * page_tokens <= oldest;
      EXPECT_EQ(table[static_cast<size_t>(p)] == kNoPage, is_behind) << "length " << length << " page " << p;
    }
    EXPECT_LE(cache.held_pages(), pool->pages_for(length, 1));
  }
  const std::span<const PageId> full = cache.table(0);
  EXPECT_EQ(std::count(full.begin(), full.end(), kNoPage),
            static_cast<int64_t>(full.size()) -
                (600 + pool->pages(0).geometry.page_tokens - 1) / pool->pages(0).geometry.page_tokens);
  cache.clear();
  EXPECT_EQ(pool->free_pages(), 200);
}

TEST_F(KvTest, TruncateKeepsWhatTheWindowStillHolds) {
  GroupSpec sliding = kSliding;
  sliding.restorable = 20;
  const std::unique_ptr<PagePool> pool = make({kFull, sliding}, 200);
  for (int32_t length = 1; length <= 300; length += 7) {
    for (const int32_t back : {1, 5, 20, 21, 60, 150}) {
      if (back >= length) continue;
      SequenceCache cache(*pool, 1000);
      ASSERT_TRUE(cache.reserve(length));
      cache.advance(length);
      const int32_t oldest = cache.oldest_restorable();
      const int32_t kept = cache.truncate(length - back);
      EXPECT_EQ(kept, length - back >= oldest ? length - back : 0);
      EXPECT_EQ(cache.length(), kept);
      if (back <= 20) {
        EXPECT_EQ(kept, length - back) << "promised by restorable";
      }
      if (kept == 0) {
        EXPECT_EQ(cache.held_pages(), 0);
      }
      // Every position that the next row attends to must be held.
      const int32_t page_tokens = pool->pages(1).geometry.page_tokens;
      for (int32_t t = std::max(0, kept - 40 + 1); t < kept; ++t) {
        EXPECT_NE(cache.table(1)[static_cast<size_t>(t / page_tokens)], kNoPage);
      }
      ASSERT_TRUE(cache.reserve(30));
      cache.advance(30);
      EXPECT_EQ(cache.length(), kept + 30);
    }
  }
  EXPECT_EQ(pool->free_pages(), 200);
}

TEST_F(KvTest, TruncateDropsUnusedReservations) {
  const std::unique_ptr<PagePool> pool = make({kFull, kSliding}, 50);
  SequenceCache cache(*pool, 1000);
  ASSERT_TRUE(cache.reserve(20));
  cache.advance(20);
  const int32_t before = pool->free_pages();
  ASSERT_TRUE(cache.reserve(300));
  EXPECT_LT(pool->free_pages(), before);
  EXPECT_EQ(cache.truncate(20), 20);
  EXPECT_EQ(pool->free_pages(), before);
}

TEST_F(KvTest, MovingHandsThePagesOver) {
  const std::unique_ptr<PagePool> pool = make({kFull}, 8);
  SequenceCache a(*pool, 100);
  ASSERT_TRUE(a.reserve(40));
  a.advance(40);
  const int32_t free_pages = pool->free_pages();
  SequenceCache b(std::move(a));
  EXPECT_EQ(b.length(), 40);
  EXPECT_EQ(pool->free_pages(), free_pages);
  SequenceCache c(*pool, 100);
  ASSERT_TRUE(c.reserve(10));
  c = std::move(b);
  EXPECT_EQ(c.length(), 40);
  EXPECT_EQ(pool->free_pages(), free_pages);
  c = SequenceCache(*pool, 100);
  EXPECT_EQ(pool->free_pages(), 8);
}

/** What a sequence must hold, said in the plainest way: a set of page indices per group. */
struct ModelSequence {
  int32_t length = 0, reserved = 0;
  std::vector<std::set<int32_t>> pages;

  void drop_behind(const PagePool& pool) {
    for (size_t g = 0; g < pages.size(); ++g) {
      const GroupSpec& group = pool.groups()[g];
      const int32_t page_tokens = pool.pages(static_cast<int32_t>(g)).geometry.page_tokens;
      if (group.window == 0) continue;
      while (!pages[g].empty() &&
             (*pages[g].begin() + 1) * page_tokens <= length - group.window + 1 - group.restorable) {
        pages[g].erase(pages[g].begin());
      }
    }
  }
  bool can_keep(const PagePool& pool, int32_t wanted) const {
    for (size_t g = 0; g < pages.size(); ++g) {
      const int32_t page_tokens = pool.pages(static_cast<int32_t>(g)).geometry.page_tokens;
      const int32_t window = pool.groups()[g].window;
      for (int32_t t = window == 0 ? 0 : std::max(0, wanted - window + 1); t < wanted; ++t) {
        if (pages[g].count(t / page_tokens) == 0) return false;
      }
    }
    return true;
  }
};

TEST_F(KvTest, RandomOperationsAgreeWithASimpleModel) {
  GroupSpec sliding = kSliding;
  sliding.restorable = 16;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::unique_ptr<PagePool> pool = make({kFull, sliding}, 40);
    std::vector<SequenceCache> caches;
    std::vector<ModelSequence> models;
    for (int i = 0; i < 5; ++i) {
      caches.emplace_back(*pool, 400);
      models.push_back({.pages = std::vector<std::set<int32_t>>(2)});
    }
    for (int step = 0; step < 2000; ++step) {
      const size_t i = random() % caches.size();
      SequenceCache& cache = caches[i];
      ModelSequence& model = models[i];
      switch (random() % 4) {
        case 0:
        case 1: {  // reserve
          const int32_t tokens = static_cast<int32_t>(random() % 60);
          int32_t missing = 0;
          std::vector<std::set<int32_t>> after = model.pages;
          for (size_t g = 0; g < 2; ++g) {
            const int32_t page_tokens = pool->pages(static_cast<int32_t>(g)).geometry.page_tokens;
            for (int32_t t = model.length; t < model.length + tokens; ++t) after[g].insert(t / page_tokens);
            missing += static_cast<int32_t>(after[g].size() - model.pages[g].size());
          }
          const bool fits = model.length + tokens <= 400 && missing <= pool->free_pages();
          ASSERT_EQ(static_cast<bool>(cache.reserve(tokens)), fits);
          if (fits) {
            model.pages = after;
            model.reserved = std::max(model.reserved, model.length + tokens);
          }
          break;
        }
        case 2: {  // advance within what is reserved
          const int32_t room = model.reserved - model.length;
          const int32_t tokens = room == 0 ? 0 : static_cast<int32_t>(random() % (static_cast<uint32_t>(room) + 1));
          cache.advance(tokens);
          model.length += tokens;
          model.drop_behind(*pool);
          break;
        }
        case 3: {  // truncate
          const int32_t wanted = static_cast<int32_t>(random() % 420);
          if (wanted < model.length) model.length = model.can_keep(*pool, wanted) ? wanted : 0;
          model.reserved = model.length;
          for (size_t g = 0; g < 2; ++g) {
            const int32_t page_tokens = pool->pages(static_cast<int32_t>(g)).geometry.page_tokens;
            std::erase_if(model.pages[g], [&](int32_t p) { return p * page_tokens >= model.length; });
          }
          ASSERT_EQ(cache.truncate(wanted), model.length);
          break;
        }
      }
      ASSERT_EQ(cache.length(), model.length);
      std::set<PageId> seen;
      size_t total = 0;
      for (size_t s = 0; s < caches.size(); ++s) {
        for (size_t g = 0; g < 2; ++g) {
          const std::span<const PageId> table = caches[s].table(static_cast<int32_t>(g));
          for (size_t p = 0; p < table.size(); ++p) {
            ASSERT_EQ(table[p] != kNoPage, models[s].pages[g].count(static_cast<int32_t>(p)) == 1)
                << "seed " << seed << " step " << step << " sequence " << s << " group " << g << " page " << p;
            if (table[p] == kNoPage) continue;
            ASSERT_EQ(pool->references(table[p]), 1);
            seen.insert(table[p]);
            ++total;
          }
        }
      }
      ASSERT_EQ(seen.size(), total) << "a page is held twice";
      ASSERT_EQ(pool->free_pages() + static_cast<int32_t>(total), pool->total_pages());
    }
    caches.clear();
    ASSERT_EQ(pool->free_pages(), pool->total_pages());
  }
}

TEST_F(KvTest, PagesForIsEnoughForAnyChunking) {
  for (const int32_t chunk : {1, 7, 64, 200}) {
    for (const int32_t tokens : {1, 16, 100, 399}) {
      const std::unique_ptr<PagePool> pool = make({kFull, {ops::KvType::kF16, 15, 2, 16, 40, 64}}, 200);
      SequenceCache cache(*pool, 400);
      int32_t most = 0;
      while (cache.length() < tokens) {
        const int32_t n = std::min(chunk, tokens - cache.length());
        ASSERT_TRUE(cache.reserve(n));
        most = std::max(most, cache.held_pages());
        cache.advance(n);
      }
      EXPECT_LE(most, pool->pages_for(tokens, chunk));
      EXPECT_GE(most + 2, pool->pages_for(tokens, chunk)) << "more pessimistic than alignment explains";
    }
  }
}

}  // namespace
}  // namespace banter::kv
