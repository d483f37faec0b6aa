// Any allocation may fail: nothing crashes, every request ends once, and the same engine goes on. And a token costs none.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "engine/test_host.h"

namespace {

std::atomic<int64_t> g_allocations{0};
/** Fails the n-th allocation from now on and all that follow until it is switched off; -1 = off. Counts all. */
std::atomic<int64_t> g_until_failure{-1};
std::atomic<bool> g_failed{false};

bool must_fail() {
  if (g_until_failure.load(std::memory_order_relaxed) < 0) return false;
  if (g_until_failure.fetch_sub(1, std::memory_order_relaxed) > 0) return false;
  // Once: what comes after must be able to clean up and to tell.
  g_until_failure.store(-1, std::memory_order_relaxed);
  g_failed.store(true, std::memory_order_relaxed);
  return true;
}

void* take(size_t bytes, size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (must_fail()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = take(bytes, 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  void* const memory = take(bytes, static_cast<size_t>(alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return take(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace banter::test {
namespace {

/** The host's allocator, counting, and failing at the n-th call. */
struct Arena {
  std::atomic<int64_t> calls{0}, live{0}, live_bytes{0};
  std::atomic<int64_t> fail_at{-1};

  void give_to(banter_engine_config& config) {
    config.alloc_user_data = this;
    config.alloc = [](size_t size, size_t alignment, void* user_data) -> void* {
      auto& self = *static_cast<Arena*>(user_data);
      if (self.calls.fetch_add(1) == self.fail_at.load()) return nullptr;
      ++self.live;
      self.live_bytes += static_cast<int64_t>(size);
      return std::aligned_alloc(alignment < 16 ? 16 : alignment, (size + 63) / 64 * 64);
    };
    config.free = [](void* memory, size_t size, size_t, void* user_data) {
      auto& self = *static_cast<Arena*>(user_data);
      --self.live;
      self.live_bytes -= static_cast<int64_t>(size);
      std::free(memory);
    };
  }
};

/** The terminal events of an engine's life. Takes no memory. */
class Endings {
 public:
  explicit Endings(banter_engine* engine) : engine_(engine) {}

  /** Polls until the request has ended; its terminal event, whose pointers are dead. `bytes` gets a snapshot's. */
  banter_event wait(banter_request_id request, std::span<std::byte> bytes = {}) {
    while (find(request).times == 0) {
      if (banter_wait(engine_, 30000) != BANTER_OK) {
        ADD_FAILURE() << "a request without an end";
        return {};
      }
      poll(bytes);
    }
    return find(request).event;
  }
  /** Nothing is left to come, and nothing came twice. */
  void expect_one_each() {
    banter_engine_statistics figures{};
    figures.struct_size = sizeof figures;
    for (;;) {
      while (poll({})) {
      }
      EXPECT_EQ(banter_engine_get_statistics(engine_, &figures), BANTER_OK);
      if (figures.requests_active == 0) break;
      (void)banter_wait(engine_, 10);
    }
    while (poll({})) {
    }
    for (size_t i = 0; i < count_; ++i) EXPECT_EQ(ends_[i].times, 1) << "request " << ends_[i].request;
  }

 private:
  struct End {
    banter_request_id request = 0;
    int times = 0;
    banter_event event{};
  };
  End& find(banter_request_id request) {
    for (size_t i = 0; i < count_; ++i) {
      if (ends_[i].request == request) return ends_[i];
    }
    EXPECT_LT(count_, std::size(ends_));
    ends_[count_].request = request;
    return ends_[count_++];
  }
  bool poll(std::span<std::byte> bytes) {
    banter_event event;
    uint32_t count = 0;
    EXPECT_EQ(banter_poll(engine_, &event, sizeof event, 1, &count), BANTER_OK);
    if (count == 0) return false;
    if (!is_terminal(event.kind)) return true;
    if (event.bytes != nullptr && event.byte_count <= bytes.size()) {
      std::memcpy(bytes.data(), event.bytes, static_cast<size_t>(event.byte_count));
    }
    End& end = find(event.request);
    ++end.times;
    end.event = event;
    return true;
  }

  banter_engine* engine_;
  End ends_[32];
  size_t count_ = 0;
};

/** A model and characters in an engine. */
struct Stage {
  explicit Stage(banter_engine* made, const std::vector<std::byte>& bytes) : engine(made), endings(made) {
    banter_model_config_init(&model_config, sizeof model_config);
    model_config.memory = bytes.data();
    model_config.memory_bytes = bytes.size();
    for (banter_npc_config& config : npc_configs) banter_npc_config_init(&config, sizeof config);
  }
  /** Makes what is not there; false: something could not be made. */
  bool set() {
    if (model == nullptr && banter_model_load(engine, &model_config, &model, &loading) != BANTER_OK) return false;
    for (int i = 0; i < count; ++i) {
      if (npcs[i] == nullptr && banter_npc_create(model, &npc_configs[i], &npcs[i]) != BANTER_OK) return false;
    }
    return true;
  }
  void strike() {
    for (banter_npc*& npc : npcs) banter_npc_destroy(std::exchange(npc, nullptr));
    banter_model_release(std::exchange(model, nullptr));
  }
  banter_request_id say(int who) {
    banter_request_id request = 0;
    EXPECT_EQ(banter_npc_say(npcs[who], "Hi hi hi hi hi hi", 17, Ask(30, kGoOn).get(), &request), BANTER_OK);
    return request;
  }
  /** Memory ended once, and there is some again: what is there goes on, and what could not be made can be now. */
  void expect_it_goes_on() {
    g_until_failure = -1;
    EXPECT_TRUE(set()) << banter_last_error_message();
    if (endings.wait(loading).kind != BANTER_EVENT_MODEL_READY) {
      strike();
      EXPECT_TRUE(set()) << banter_last_error_message();
      EXPECT_EQ(endings.wait(loading).kind, BANTER_EVENT_MODEL_READY);
    }
    banter_request_id requests[2] = {};
    for (int i = 0; i < count; ++i) requests[i] = say(i);
    for (int i = 0; i < count; ++i) EXPECT_EQ(endings.wait(requests[i]).kind, BANTER_EVENT_DONE) << "character " << i;
  }

  banter_engine* engine;
  Endings endings;
  banter_model_config model_config{};
  banter_npc_config npc_configs[2] = {};
  int count = 1;
  banter_model* model = nullptr;
  banter_request_id loading = 0;
  banter_npc* npcs[2] = {};
};

/** Saves with pages and loads again. */
bool save_and_load(Stage& stage) {
  static std::byte bytes[1 << 17];
  banter_save_config config;
  banter_save_config_init(&config, sizeof config);
  config.flags = BANTER_SAVE_KV_PAGES;
  banter_request_id request = 0;
  if (banter_npc_save(stage.npcs[0], &config, &request) != BANTER_OK) return false;
  const banter_event saved = stage.endings.wait(request, bytes);
  EXPECT_TRUE(saved.kind == BANTER_EVENT_SNAPSHOT || saved.kind == BANTER_EVENT_FAILED);
  EXPECT_LE(saved.byte_count, sizeof bytes);
  if (saved.kind != BANTER_EVENT_SNAPSHOT || saved.byte_count > sizeof bytes) return false;
  const auto size = static_cast<size_t>(saved.byte_count);
  if (banter_npc_load(stage.npcs[0], bytes, size, nullptr, &request) != BANTER_OK) return false;
  const banter_event loaded = stage.endings.wait(request);
  EXPECT_TRUE(loaded.kind == BANTER_EVENT_DONE || loaded.kind == BANTER_EVENT_FAILED);
  return loaded.kind == BANTER_EVENT_DONE;
}

/** Creates, loads, talks, saves, destroys; every call may fail, none may crash, and everything is given back. */
bool whole_life(Arena& arena, const std::vector<std::byte>& bytes) {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.thread_count = 1;
  arena.give_to(config);
  banter_engine* engine = nullptr;
  const banter_result created = banter_engine_create(BANTER_API_VERSION, &config, &engine);
  if (created != BANTER_OK) {
    EXPECT_EQ(banter_result_class(created), BANTER_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(engine, nullptr);
    return false;
  }
  bool good = false;
  Stage stage(engine, bytes);
  if (stage.set()) {
    const banter_event event = stage.endings.wait(stage.say(0));
    EXPECT_TRUE(event.kind == BANTER_EVENT_DONE || event.kind == BANTER_EVENT_FAILED);
    good = event.kind == BANTER_EVENT_DONE && save_and_load(stage);
  }
  if (!good || g_failed) stage.expect_it_goes_on();
  stage.endings.expect_one_each();
  stage.strike();
  banter_engine_destroy(engine);
  return good;
}

/** Two characters in a pool that is too small for both, with summaries, speculation, swapping and a changing budget. */
bool crowded_life(const std::vector<std::byte>& bytes) {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.thread_count = 1;
  config.swap_budget_bytes = 1 << 17;
  banter_engine* engine = nullptr;
  if (banter_engine_create(BANTER_API_VERSION, &config, &engine) != BANTER_OK) return false;
  Stage stage(engine, bytes);
  stage.model_config.context_tokens = 200;
  stage.model_config.kv_budget_bytes = 70000;
  stage.model_config.speculation = BANTER_SPECULATION_NGRAM;
  stage.count = 2;
  for (banter_npc_config& npc : stage.npc_configs) npc.reply_reserve_tokens = 24;
  stage.npc_configs[0].context_policy = BANTER_CONTEXT_SUMMARIZE;
  stage.npc_configs[1].context_policy = BANTER_CONTEXT_SLIDE;
  const bool good = stage.set();
  for (int turn = 0; turn < 4 && good; ++turn) {
    const banter_request_id requests[2] = {stage.say(0), stage.say(1)};
    (void)banter_engine_set_budget(engine, turn % 2 == 0 ? 1 : 0);
    for (const banter_request_id request : requests) {
      const banter_event event = stage.endings.wait(request);
      EXPECT_TRUE(event.kind == BANTER_EVENT_DONE || event.kind == BANTER_EVENT_FAILED);
    }
  }
  (void)banter_engine_set_budget(engine, 0);
  stage.expect_it_goes_on();
  stage.endings.expect_one_each();
  stage.strike();
  banter_engine_destroy(engine);
  return good;
}

TEST(Allocations, TheHostsAllocatorMayFailAtEveryCall) {
  const auto bytes = tiny_model();
  Arena counting;
  ASSERT_TRUE(whole_life(counting, bytes));
  EXPECT_EQ(counting.live, 0);
  EXPECT_EQ(counting.live_bytes, 0);
  EXPECT_GT(counting.calls, 8);
  for (int64_t n = 0; n < counting.calls; ++n) {
    Arena arena;
    arena.fail_at = n;
    EXPECT_FALSE(whole_life(arena, bytes)) << "call " << n;
    EXPECT_EQ(arena.live, 0) << "call " << n;
    EXPECT_EQ(arena.live_bytes, 0) << "call " << n;
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kEach = 7;  // there is not time for each
#else
constexpr int64_t kEach = 1;
#endif

TEST(Allocations, OperatorNewMayFailAtEveryCall) {
  TinyModelOptions options;
  options.layers = 1;
  const auto bytes = tiny_model(options);
  int failures = 0;
  for (int64_t n = 0; n < 200000 && !HasFailure(); n += kEach) {
    Arena arena;  // lives outside operator new
    g_failed = false;
    g_until_failure = n;
    (void)whole_life(arena, bytes);
    g_until_failure = -1;
    if (!g_failed) break;  // the whole life takes fewer
    ++failures;
    EXPECT_EQ(arena.live, 0);
    if (HasFailure()) std::printf("the failure came with allocation %ld\n", static_cast<long>(n));
  }
  EXPECT_GT(failures, 20);
  Arena arena;
  EXPECT_TRUE(whole_life(arena, bytes));
}

TEST(Allocations, OperatorNewMayFailInACrowd) {
  TinyModelOptions options;
  options.layers = 1;
  const auto bytes = tiny_model(options);
  ASSERT_TRUE(crowded_life(bytes));
  int failures = 0;
  for (int64_t n = 0; n < 200000 && !HasFailure(); n += kEach) {
    g_failed = false;
    g_until_failure = n;
    (void)crowded_life(bytes);
    g_until_failure = -1;
    if (!g_failed) break;
    ++failures;
    if (HasFailure()) std::printf("the failure came with allocation %ld\n", static_cast<long>(n));
  }
  EXPECT_GT(failures, 10);
  EXPECT_TRUE(crowded_life(bytes));
}

TEST(Allocations, ATokenCostsNoAllocation) {
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  banter_npc* const npc = host.npc(model, "P");
  Ask ask(900, kGoOn);
  ask.sampling.temperature = 0.8f;
  ask.sampling.repetition_penalty = 1.1f;
  ask.stops = {"never said", "nor this"};
  // Slowly, so that it is far from its end whenever this thread looks.
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 0.1f), BANTER_OK);
  const banter_request_id request = say(npc, "Hi", ask);
  uint32_t tokens = 0;
  bool ended = false;
  const auto poll = [&] {
    banter_event events[16];
    uint32_t count = 0;
    EXPECT_EQ(banter_poll(host.engine, events, sizeof events[0], 16, &count), BANTER_OK);
    for (uint32_t i = 0; i < count; ++i) {
      if (events[i].request != request) continue;
      tokens += events[i].token_count;
      ended = ended || is_terminal(events[i].kind);
    }
    return count;
  };
  /** Allocations so far, read while the engine stands still behind the given token. */
  const auto stopped_behind = [&](uint32_t token) {
    while (!ended && tokens < token) {
      (void)banter_wait(host.engine, 1000);
      (void)poll();
    }
    EXPECT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
    uint64_t steps = 0;
    do {
      steps = host.statistics().steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      while (poll() > 0) {
      }
    } while (host.statistics().steps != steps);
    const int64_t allocations = g_allocations;
    EXPECT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
    return allocations;
  };
  const int64_t before = stopped_behind(100);
  const uint32_t from = tokens;
  const int64_t after = stopped_behind(300);
  EXPECT_FALSE(ended);
  EXPECT_GE(tokens, from + 100);
  EXPECT_EQ(after - before, 0) << "allocations in " << tokens - from << " tokens";
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 1), BANTER_OK);
  while (!ended && banter_wait(host.engine, 30000) == BANTER_OK) (void)poll();
  EXPECT_EQ(tokens, 900u);
}

}  // namespace
}  // namespace banter::test
