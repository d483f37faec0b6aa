// A hostile world: files that break off, callbacks that fail, memory that ends. The engine tells, and goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "engine/test_host.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

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

/** A game's file system in memory, in which the n-th read fails. */
struct Archive {
  std::map<std::string, std::vector<std::byte>> files;
  int reads = 0, opened = 0, closed = 0;
  int fail_at = -1;
  banter_result open_code = BANTER_OK;
  std::thread::id game = std::this_thread::get_id();
  bool on_game_thread = false;

  banter_io io() {
    banter_io io{};
    io.struct_size = sizeof io;
    io.user_data = this;
    io.open = [](const char* path, void** file, void* user_data) -> banter_result {
      auto& self = *static_cast<Archive*>(user_data);
      self.on_game_thread = self.on_game_thread || std::this_thread::get_id() == self.game;
      if (self.open_code != BANTER_OK) return self.open_code;
      const auto found = self.files.find(path);
      if (found == self.files.end()) return BANTER_ERROR_FILE_NOT_FOUND;
      ++self.opened;
      *file = &found->second;
      return BANTER_OK;
    };
    io.size = [](void* file, void*) -> uint64_t { return static_cast<std::vector<std::byte>*>(file)->size(); };
    io.read_at = [](void* file, uint64_t offset, void* buffer, size_t bytes, void* user_data) -> banter_result {
      auto& self = *static_cast<Archive*>(user_data);
      if (self.reads++ == self.fail_at) return BANTER_ERROR_IO;
      const auto& content = *static_cast<std::vector<std::byte>*>(file);
      if (offset + bytes > content.size()) return BANTER_ERROR_IO;
      std::memcpy(buffer, content.data() + offset, bytes);
      return BANTER_OK;
    };
    io.close = [](void*, void* user_data) { ++static_cast<Archive*>(user_data)->closed; };
    return io;
  }
};

banter_request_id load_from(Host& host, const banter_io& io, const std::string& path, banter_model** model) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path.data();
  config.path_len = path.size();
  config.io = &io;
  banter_request_id request = 0;
  EXPECT_EQ(banter_model_load(host.engine, &config, model, &request), BANTER_OK) << banter_last_error_message();
  return request;
}

TEST(Hostile, ModelsComeThroughCallbacksAndEveryFailingReadIsTold) {
  Archive archive;
  archive.files["res://mira.gguf"] = tiny_model();
  const banter_io io = archive.io();
  Host host;
  banter_model* model = nullptr;
  ASSERT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(archive.opened, archive.closed);  // the file is let go when the model is ready
  EXPECT_FALSE(archive.on_game_thread);
  banter_model_release(model);
  const int reads = archive.reads;
  for (int n = 0; n < reads; n += 1 + n / 8) {
    archive.reads = 0;
    archive.fail_at = n;
    const Outcome outcome = host.finish(load_from(host, io, "res://mira.gguf", &model));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED) << "read " << n;
    EXPECT_EQ(banter_result_class(outcome.code), BANTER_ERROR_IO) << outcome.message;
    EXPECT_NE(outcome.message.find("res://mira.gguf"), std::string::npos) << outcome.message;
    banter_model_release(model);
  }
  archive.fail_at = -1;
  EXPECT_EQ(host.finish(load_from(host, io, "res://absent.gguf", &model)).code, BANTER_ERROR_FILE_NOT_FOUND);
  banter_model_release(model);
  archive.open_code = 12345;  // not a code that open may return
  EXPECT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).code, BANTER_ERROR_IO);
  archive.open_code = BANTER_OK;
  EXPECT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).kind, BANTER_EVENT_MODEL_READY);
  ASSERT_TRUE(host.pump_until([&] { return archive.opened == archive.closed; }));
}

TEST(Hostile, GarbageThenAGoodFile) {
  const auto good = tiny_model();
  TempFolder folder;
  Host host;
  const auto expect_failure = [&](const std::vector<std::byte>& bytes, const std::string& what) {
    banter_model* model = nullptr;
    const Outcome outcome = host.finish(host.start_load(bytes, &model));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED) << what;
    EXPECT_GT(outcome.message.size(), 10u) << what;
    banter_npc* const npc = host.npc(model, "P");
    const Outcome said = host.finish(say(npc, "Hi", Ask(2)));
    EXPECT_EQ(said.code, BANTER_ERROR_STATE) << what;
    EXPECT_NE(said.message.find(outcome.message), std::string::npos) << said.message;
    banter_model_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(banter_model_get_info(model, &info), BANTER_ERROR_STATE);
    size_t count = 0;
    EXPECT_EQ(banter_model_tokenize(model, "x", 1, nullptr, 0, &count), BANTER_ERROR_STATE);
    banter_npc_destroy(npc);
    banter_model_release(model);
  };
  expect_failure(std::vector<std::byte>(1000, std::byte{7}), "noise");
  expect_failure({good.begin(), good.begin() + 3}, "three bytes");
  for (const size_t cut : {good.size() / 100, good.size() / 3, good.size() - 1}) {
    expect_failure({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)}, "cut at " + std::to_string(cut));
  }
  GgufWriter unknown;
  unknown.set_string("general.architecture", "mystery");
  expect_failure(unknown.bytes(), "unknown architecture");

  const std::string absent = folder.file("absent.gguf");
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = absent.data();
  config.path_len = absent.size();
  banter_model* model = nullptr;
  banter_request_id request = 0;
  ASSERT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_OK);
  const Outcome outcome = host.finish(request);
  EXPECT_EQ(outcome.code, BANTER_ERROR_FILE_NOT_FOUND);
  EXPECT_NE(outcome.message.find("absent.gguf"), std::string::npos);
  banter_model_release(model);

  const std::string path = folder.file("Märchen 狐.gguf");
  ASSERT_TRUE(write_file(path, good));
  config.path = path.data();
  config.path_len = path.size();
  ASSERT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_OK);
  EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.statistics().models_loaded, 1u);
}

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

/** Polls until the request has ended; its last event, whose pointers are dead. `bytes` gets a snapshot's. */
banter_event ending(banter_engine* engine, banter_request_id request, std::span<std::byte> bytes = {}) {
  while (banter_wait(engine, 30000) == BANTER_OK) {
    banter_event event;
    uint32_t count = 0;
    EXPECT_EQ(banter_poll(engine, &event, sizeof event, 1, &count), BANTER_OK);
    if (count != 1 || event.request != request || !is_terminal(event.kind)) continue;
    if (event.bytes != nullptr && event.byte_count <= bytes.size()) {
      std::memcpy(bytes.data(), event.bytes, static_cast<size_t>(event.byte_count));
    }
    return event;
  }
  ADD_FAILURE() << "a request without an end";
  return {};
}

/** Saves with pages and loads again. */
bool save_and_load(banter_engine* engine, banter_npc* npc) {
  static std::byte bytes[1 << 17];
  banter_save_config config;
  banter_save_config_init(&config, sizeof config);
  config.flags = BANTER_SAVE_KV_PAGES;
  banter_request_id request = 0;
  if (banter_npc_save(npc, &config, &request) != BANTER_OK) return false;
  const banter_event saved = ending(engine, request, bytes);
  EXPECT_TRUE(saved.kind == BANTER_EVENT_SNAPSHOT || saved.kind == BANTER_EVENT_FAILED);
  EXPECT_LE(saved.byte_count, sizeof bytes);
  if (saved.kind != BANTER_EVENT_SNAPSHOT || saved.byte_count > sizeof bytes) return false;
  if (banter_npc_load(npc, bytes, static_cast<size_t>(saved.byte_count), nullptr, &request) != BANTER_OK) return false;
  const banter_event loaded = ending(engine, request);
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
  banter_model_config model_config;
  banter_model_config_init(&model_config, sizeof model_config);
  model_config.memory = bytes.data();
  model_config.memory_bytes = bytes.size();
  banter_model* model = nullptr;
  banter_npc* npc = nullptr;
  banter_request_id request = 0;
  if (banter_model_load(engine, &model_config, &model, nullptr) == BANTER_OK &&
      banter_npc_create(model, nullptr, &npc) == BANTER_OK &&
      banter_npc_say(npc, "Hi", 2, Ask(4, kGoOn).get(), &request) == BANTER_OK) {
    const banter_event event = ending(engine, request);
    EXPECT_TRUE(event.kind == BANTER_EVENT_DONE || event.kind == BANTER_EVENT_FAILED);
    good = event.kind == BANTER_EVENT_DONE && save_and_load(engine, npc);
  }
  banter_npc_destroy(npc);
  banter_model_release(model);
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
  banter_model_config model_config;
  banter_model_config_init(&model_config, sizeof model_config);
  model_config.memory = bytes.data();
  model_config.memory_bytes = bytes.size();
  model_config.context_tokens = 200;
  model_config.kv_budget_bytes = 70000;
  model_config.speculation = BANTER_SPECULATION_NGRAM;
  banter_model* model = nullptr;
  bool good = banter_model_load(engine, &model_config, &model, nullptr) == BANTER_OK;
  banter_npc* npcs[2] = {};
  banter_npc_config npc_config;
  banter_npc_config_init(&npc_config, sizeof npc_config);
  npc_config.reply_reserve_tokens = 24;
  for (int i = 0; i < 2 && good; ++i) {
    npc_config.context_policy = i == 0 ? BANTER_CONTEXT_SUMMARIZE : BANTER_CONTEXT_SLIDE;
    good = banter_npc_create(model, &npc_config, &npcs[i]) == BANTER_OK;
  }
  for (int turn = 0; turn < 4 && good; ++turn) {
    banter_request_id requests[2] = {};
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(banter_npc_say(npcs[i], "Hi hi hi hi hi hi", 17, Ask(30, kGoOn).get(), &requests[i]), BANTER_OK);
    }
    (void)banter_engine_set_budget(engine, turn % 2 == 0 ? 1 : 0);
    // One after the other: ending() drops what ends meanwhile, so the second is waited for by the figures.
    good = ending(engine, requests[0]).kind != 0 && good;
    banter_engine_statistics figures{};
    figures.struct_size = sizeof figures;
    do {
      banter_event event;
      uint32_t count = 0;
      (void)banter_wait(engine, 10);
      EXPECT_EQ(banter_poll(engine, &event, sizeof event, 1, &count), BANTER_OK);
      (void)banter_engine_get_statistics(engine, &figures);
    } while (figures.requests_active > 0);
  }
  for (banter_npc* npc : npcs) banter_npc_destroy(npc);
  banter_model_release(model);
  banter_engine_destroy(engine);
  return good;
}

TEST(Hostile, TheHostsAllocatorMayFailAtEveryCall) {
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

TEST(Hostile, OperatorNewMayFailAtEveryCall) {
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

TEST(Hostile, OperatorNewMayFailInACrowd) {
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

TEST(Hostile, ATokenCostsNoAllocation) {
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
