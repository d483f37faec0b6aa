// The prefix index against a simple model: every position of every page carries a hash of all tokens before it.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kv/prefix_index.h"
#include "ops/reference.h"

namespace banter::kv {
namespace {

using Tokens = std::vector<int32_t>;

constexpr GroupSpec kFull = {ops::KvType::kF16, 1, 2, 16, 0, 0};
constexpr GroupSpec kSliding = {ops::KvType::kF16, 5, 2, 16, 40, 8};

class PrefixIndexTest : public ::testing::Test {
 protected:
  void make(std::vector<GroupSpec> groups, int32_t pages, int32_t swap_pages = 0) {
    threads_ = std::move(*ThreadPool::create({.threads = 1}));
    backend_ = std::move(*ops::create_reference_backend(*threads_));
    size_t stride = 0;
    for (const ops::KvGeometry& g : plan_geometry(groups)) stride = std::max(stride, (g.page_bytes() + 63) / 64 * 64);
    pool_ = std::move(*PagePool::create(*backend_, std::move(groups), stride * static_cast<size_t>(pages)));
    index_ = std::move(*PrefixIndex::create(*pool_, stride * static_cast<size_t>(swap_pages)));
  }
  SequenceCache sequence() { return SequenceCache(*pool_, 4096); }

  uint32_t* at(const SequenceCache& cache, size_t group, int32_t position) {
    const ops::KvPages& pages = pool_->pages(static_cast<int32_t>(group));
    const PageId page =
        cache.table(static_cast<int32_t>(group))[static_cast<size_t>(position / pages.geometry.page_tokens)];
    EXPECT_NE(page, kNoPage);
    auto* const start = reinterpret_cast<uint32_t*>(pages.page(std::max(page, 0)));
    return start + position % pages.geometry.page_tokens;
  }

  static uint32_t hash(const Tokens& tokens, int32_t position, size_t group) {
    uint32_t h = 2166136261u + static_cast<uint32_t>(group);
    for (int32_t i = 0; i <= position; ++i) h = (h ^ static_cast<uint32_t>(tokens[static_cast<size_t>(i)])) * 16777619u;
    return h;
  }

  /** "Computes" up to `length` tokens; false when the pool cannot hold them. Counts what was really computed. */
  bool compute(const Tokens& tokens, int32_t length, SequenceCache& cache, int32_t chunk = 64) {
    if (cache.length() == 0) index_->attach(tokens, length - 1, cache, ++now_);
    while (cache.length() < length) {
      const int32_t rows = std::min(chunk, length - cache.length());
      while (!cache.reserve(rows)) {
        if (!index_->evict()) return false;
      }
      for (int32_t p = cache.length(); p < cache.length() + rows; ++p) {
        for (size_t g = 0; g < pool_->groups().size(); ++g) *at(cache, g, p) = hash(tokens, p, g);
      }
      cache.advance(rows);
      computed_ += rows;
      index_->insert(tokens, cache, now_, cache.length() == length && with_tails_);
    }
    return true;
  }

  /** Everything that the next row would read is right. */
  void verify(const Tokens& tokens, const SequenceCache& cache) {
    for (size_t g = 0; g < pool_->groups().size(); ++g) {
      const int32_t window = pool_->groups()[g].window;
      const int32_t first = window == 0 ? 0 : std::max(0, cache.length() - window + 1);
      for (int32_t p = first; p < cache.length(); ++p) {
        ASSERT_EQ(*at(cache, g, p), hash(tokens, p, g)) << "group " << g << " position " << p;
      }
    }
  }

  static Tokens random_tokens(std::mt19937& random, int32_t count, int32_t vocabulary) {
    Tokens tokens(static_cast<size_t>(count));
    for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
    return tokens;
  }
  static Tokens joined(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<PrefixIndex> index_;
  uint64_t now_ = 0;
  int32_t computed_ = 0;
  bool with_tails_ = true;
};

TEST_F(PrefixIndexTest, TheSecondComputesOnlyItsOwnTail) {
  make({kFull}, 64);
  std::mt19937 random(1);
  const Tokens lore = random_tokens(random, 1000, 5000);
  const Tokens a = joined(lore, random_tokens(random, 20, 5000)), b = joined(lore, random_tokens(random, 20, 5000));
  SequenceCache first = sequence(), second = sequence();
  ASSERT_TRUE(compute(a, 1020, first));
  computed_ = 0;
  EXPECT_EQ(index_->match(b, 1019), 1000);  // to the token, though pages are longer
  ASSERT_TRUE(compute(b, 1020, second));
  EXPECT_EQ(computed_, 20);
  verify(a, first);
  verify(b, second);
  // One copy of the page in which they part, and the pages behind it.
  const int32_t pages = pool_->pages_for(1020, 64);
  EXPECT_LE(pool_->total_pages() - pool_->free_pages(), pages + 2);
}

TEST_F(PrefixIndexTest, AtLeastOneTokenIsLeftToCompute) {
  make({kFull}, 64);
  std::mt19937 random(2);
  const Tokens a = random_tokens(random, 96, 100);
  SequenceCache first = sequence(), second = sequence();
  ASSERT_TRUE(compute(a, 96, first));
  EXPECT_EQ(index_->match(a, 95), 95);
  EXPECT_EQ(index_->attach(a, 95, second, ++now_), 95);
  ASSERT_TRUE(second.reserve(1));
  *at(second, 0, 95) = 0xDEADu;  // into a copy: the first sequence's page stays as it was
  verify(a, first);
}

TEST_F(PrefixIndexTest, AnotherBeginningSharesNothing) {
  make({kFull}, 64);
  std::mt19937 random(3);
  Tokens a = random_tokens(random, 200, 1000);
  SequenceCache first = sequence();
  ASSERT_TRUE(compute(a, 200, first));
  Tokens b = a;
  b[0] += 1;
  EXPECT_EQ(index_->match(b, 199), 0);
  EXPECT_EQ(index_->match(Tokens(), 0), 0);
  EXPECT_EQ(index_->match(a, 0), 0);
  EXPECT_EQ(index_->match(a, 7), 7);
}

TEST_F(PrefixIndexTest, SimultaneousTwinsEndUpWithOneCopy) {
  make({kFull}, 64);
  std::mt19937 random(4);
  const Tokens a = random_tokens(random, 320, 1000);
  SequenceCache first = sequence(), second = sequence();
  // Both compute everything: neither found the other's pages.
  for (SequenceCache* cache : {&first, &second}) {
    ASSERT_TRUE(cache->reserve(320));
    for (int32_t p = 0; p < 320; ++p) *at(*cache, 0, p) = hash(a, p, 0);
    cache->advance(320);
  }
  index_->insert(a, first, 1, false);
  const int32_t before = pool_->free_pages();
  index_->insert(a, second, 2, false);
  EXPECT_EQ(pool_->free_pages(), before + 320 / pool_->pages(0).geometry.page_tokens);
  verify(a, first);
  verify(a, second);
}

TEST_F(PrefixIndexTest, SlidingLayersNeedOnlyTheirWindow) {
  make({kFull, kSliding}, 200);
  std::mt19937 random(5);
  const Tokens lore = random_tokens(random, 400, 1000);
  const Tokens a = joined(lore, random_tokens(random, 300, 1000)), b = joined(lore, random_tokens(random, 10, 1000));
  SequenceCache first = sequence(), second = sequence();
  ASSERT_TRUE(compute(a, 700, first));
  computed_ = 0;
  ASSERT_TRUE(compute(b, 410, second));
  EXPECT_LE(computed_, 10 + 16);
  verify(a, first);
  verify(b, second);
}

TEST_F(PrefixIndexTest, TheLeastRecentlyUsedGoesFirst) {
  make({kFull}, 32);
  std::mt19937 random(6);
  const Tokens a = random_tokens(random, 256, 1000), b = random_tokens(random, 256, 1000);
  {
    SequenceCache first = sequence(), second = sequence();
    ASSERT_TRUE(compute(a, 256, first));
    ASSERT_TRUE(compute(b, 256, second));
  }
  const int32_t page = pool_->pages(0).geometry.page_tokens;
  ASSERT_EQ(index_->match(a, 255), 255);
  ASSERT_TRUE(index_->evict());
  EXPECT_EQ(index_->match(a, 255), 256 - page);  // the leaf, not the root
  EXPECT_EQ(index_->match(b, 255), 255);
  while (index_->match(a, 255) > 0) ASSERT_TRUE(index_->evict());
  EXPECT_EQ(index_->match(b, 255), 255);
  while (index_->evict()) {
  }
  EXPECT_EQ(pool_->free_pages(), pool_->total_pages());
  EXPECT_EQ(index_->cached_pages(), 0);
}

TEST_F(PrefixIndexTest, PagesInUseAreNotEvicted) {
  make({kFull}, 32);
  std::mt19937 random(7);
  const Tokens a = random_tokens(random, 256, 1000);
  SequenceCache first = sequence();
  ASSERT_TRUE(compute(a, 256, first));
  EXPECT_FALSE(index_->evict());
  EXPECT_EQ(index_->oldest_use(), UINT64_MAX);
  first.clear();
  EXPECT_NE(index_->oldest_use(), UINT64_MAX);
  EXPECT_TRUE(index_->evict());
}

TEST_F(PrefixIndexTest, SwappedPagesComeBack) {
  make({kFull, kSliding}, 60, 200);
  std::mt19937 random(8);
  const Tokens a = random_tokens(random, 300, 1000);
  {
    SequenceCache first = sequence();
    ASSERT_TRUE(compute(a, 300, first));
  }
  while (index_->evict()) {
  }
  EXPECT_EQ(pool_->free_pages(), pool_->total_pages());
  EXPECT_GT(index_->swapped_pages(), 0);
  SequenceCache again = sequence();
  EXPECT_GE(index_->attach(a, 299, again, ++now_), 288);
  verify(a, again);
}

TEST_F(PrefixIndexTest, WhatIsCheaperToComputeIsNotSwapped) {
  make({kFull}, 60, 200);
  std::mt19937 random(9);
  const Tokens a = random_tokens(random, 320, 1000);
  {
    SequenceCache first = sequence();
    ASSERT_TRUE(compute(a, 320, first));
  }
  index_->set_recompute_cost(1e-9);
  ASSERT_TRUE(index_->evict());  // the first copy measures what copying costs
  const int32_t measured = index_->swapped_pages();
  while (index_->evict()) {
  }
  EXPECT_EQ(index_->swapped_pages(), measured);
}

TEST_F(PrefixIndexTest, OneSlowCopyDoesNotEndSwappingForGood) {
  make({kFull}, 60, 200);
  std::mt19937 random(10);
  int32_t measured = 0, evictions = 0;
  // Computing a page takes less than its copy did, but not by so much as one slow copy may be wrong.
  for (; evictions < 5000 && (measured == 0 || index_->swapped_pages() == measured); ++evictions) {
    {
      SequenceCache sequence_cache = sequence();
      ASSERT_TRUE(compute(random_tokens(random, 64, 1000), 64, sequence_cache));
    }
    ASSERT_TRUE(index_->evict());
    if (measured > 0) continue;
    measured = index_->swapped_pages();
    ASSERT_GT(measured, 0);
    index_->set_recompute_cost(0.1);
  }
  EXPECT_GT(evictions, 2) << "copying a page takes no time?";
  EXPECT_GT(index_->swapped_pages(), measured);
}

struct Life {
  std::vector<GroupSpec> groups;
  int32_t pages, swap;
  bool tails;
};
class RandomLife : public PrefixIndexTest, public ::testing::WithParamInterface<Life> {};

TEST_P(RandomLife, NothingWrongIsEverRead) {
  make(GetParam().groups, GetParam().pages, GetParam().swap);
  with_tails_ = GetParam().tails;
  std::mt19937 random(10);
  std::vector<Tokens> personas;
  for (int i = 0; i < 4; ++i) personas.push_back(random_tokens(random, 30 + static_cast<int32_t>(random() % 200), 3));
  struct Speaker {
    Tokens tokens;
    std::unique_ptr<SequenceCache> cache;
  };
  std::vector<Speaker> speakers(6);
  for (Speaker& s : speakers) s.cache = std::make_unique<SequenceCache>(*pool_, 4096);
  int exhausted = 0;
  for (int round = 0; round < 3000; ++round) {
    Speaker& s = speakers[random() % speakers.size()];
    switch (random() % 6) {
      case 0: {  // a new conversation, cut from a persona at any length
        s.cache->clear();
        const Tokens& persona = personas[random() % personas.size()];
        s.tokens.assign(persona.begin(), persona.begin() + static_cast<std::ptrdiff_t>(random() % persona.size()));
        s.tokens = joined(s.tokens, random_tokens(random, 1 + static_cast<int32_t>(random() % 60), 3));
        break;
      }
      case 1:  // taken back, and on with other words
        if (s.cache->length() > 0) {
          const int32_t kept =
              s.cache->truncate(static_cast<int32_t>(random() % static_cast<uint32_t>(s.cache->length() + 1)));
          s.tokens.resize(static_cast<size_t>(kept));
          s.tokens = joined(s.tokens, random_tokens(random, 5, 3));
        }
        break;
      case 2:
        s.cache->clear();
        break;
      default:
        s.tokens = joined(s.tokens, random_tokens(random, static_cast<int32_t>(random() % 30), 3));
    }
    if (s.tokens.empty()) continue;
    if (s.tokens.size() > 600) s.tokens.resize(600);
    if (s.cache->length() > static_cast<int32_t>(s.tokens.size())) s.cache->truncate(0);
    if (!compute(s.tokens, static_cast<int32_t>(s.tokens.size()), *s.cache, 1 + static_cast<int32_t>(random() % 64))) {
      ++exhausted;
      s.cache->clear();
      continue;
    }
    verify(s.tokens, *s.cache);
    if (HasFatalFailure()) return;
    if (round % 50 == 0) {
      for (Speaker& other : speakers) {
        if (other.cache->length() == 0) continue;
        Tokens cached = other.tokens;
        verify(cached, *other.cache);
      }
    }
  }
  EXPECT_LT(exhausted, 2900);
  for (Speaker& s : speakers) s.cache.reset();
  EXPECT_EQ(index_->cached_pages(), pool_->total_pages() - pool_->free_pages());
  index_->clear();
  EXPECT_EQ(pool_->free_pages(), pool_->total_pages());
  EXPECT_EQ(index_->swapped_pages(), 0);
}
INSTANTIATE_TEST_SUITE_P(Pools, RandomLife,
                         ::testing::Values(Life{{kFull}, 400, 0, false}, Life{{kFull}, 400, 0, true},
                                           Life{{kFull}, 40, 0, true}, Life{{kFull, kSliding}, 400, 0, true},
                                           Life{{kFull, kSliding}, 90, 0, false}, Life{{kFull, kSliding}, 90, 0, true},
                                           Life{{kFull, kSliding}, 70, 30, true}, Life{{kFull}, 30, 8, true}));

}  // namespace
}  // namespace banter::kv
