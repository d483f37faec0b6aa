// Everything at random from four threads, at engines of several kinds. BANTER_SOAK_SECONDS sets how long together; a few
// seconds by default.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>

#include "engine/resident.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

double soak_seconds() {
  const char* const text = std::getenv("BANTER_SOAK_SECONDS");
  return text != nullptr ? std::max(0.1, std::atof(text)) : 3.0;
}

/** What one thread does to characters of its own, and, with the rest, to the one engine. */
class Player {
 public:
  Player(Host& host, banter_model* model, uint32_t seed, std::atomic<int>& submitted)
      : host_(host), model_(model), random_(seed), submitted_(submitted) {
    for (banter_npc*& npc : npcs_) npc = make();
  }
  ~Player() {
    for (banter_npc* npc : npcs_) banter_npc_destroy(npc);
  }

  void act() {
    banter_npc*& npc = npcs_[pick(kNpcs)];
    banter_request_id request = 0;
    switch (pick(14)) {
      case 0:
        banter_npc_destroy(npc);
        npc = make();
        break;
      case 1:
        (void)banter_cancel(host_.engine, latest_);
        break;
      case 2:
        (void)banter_npc_reset(npc);
        break;
      case 3:
        (void)banter_npc_add_turn(npc, static_cast<banter_role>(pick(3)), words().c_str(), BANTER_ZERO_TERMINATED);
        break;
      case 4:
        save(npc);
        break;
      case 5:
        if (!saved_.empty()) note(banter_npc_load(npc, saved_.data(), saved_.size(), nullptr, &request), request);
        break;
      case 6: {
        const std::string text = words();
        note(banter_model_complete(model_, text.data(), text.size(), ask().get(), &request), request);
        break;
      }
      case 7:
        controls();
        break;
      default: {
        const std::string text = words();
        note(banter_npc_say(npc, text.data(), text.size(), ask().get(), &request), request);
      }
    }
  }

  /** Bytes of a snapshot that came, for a thread to load. */
  static inline std::mutex snapshot_mutex;
  static inline std::vector<std::byte> snapshot;

 private:
  static constexpr uint32_t kNpcs = 6;
  uint32_t pick(uint32_t count) { return static_cast<uint32_t>(random_() % count); }
  std::string words() {
    std::string text = pick(2) == 0 ? "The goats of Ash. " : "";
    text.append(pick(120), static_cast<char>('a' + pick(26)));
    return text + " ";
  }
  Ask ask() {
    Ask ask(1 + pick(24), kGoOn);
    ask.sampling.temperature = pick(2) == 0 ? 0.0f : 0.9f;
    ask.sampling.seed = random_();
    ask.config.priority = static_cast<int32_t>(pick(8));
    if (pick(16) == 0) ask.config.deadline_ms = 1 + pick(50);
    return ask;
  }
  banter_npc* make() {
    const std::string persona = "You live in the village of Ash, between two rivers. " + std::string(pick(60), 'p');
    return host_.npc(model_, persona.c_str(), [&](banter_npc_config& c) {
      c.context_policy = static_cast<banter_context_policy>(pick(4));
      c.context_tokens = 160 + pick(200);
      c.reply_reserve_tokens = 32;
    });
  }
  void save(banter_npc* npc) {
    banter_save_config config;
    banter_save_config_init(&config, sizeof config);
    config.flags = pick(2) == 0 ? 0 : uint32_t{BANTER_SAVE_KV_PAGES};
    banter_request_id request = 0;
    note(banter_npc_save(npc, &config, &request), request);
    const std::lock_guard lock(snapshot_mutex);
    saved_ = snapshot;
  }
  void controls() {
    switch (pick(5)) {
      case 0:
        banter_engine_set_budget(host_.engine, pick(4) == 0 ? 0 : (uint64_t{1} << 18) + pick(1u << 20));
        break;
      case 1:
        banter_engine_set_frame_budget(host_.engine, static_cast<float>(pick(3)));
        break;
      case 2:
        banter_engine_set_cpu_share(host_.engine, pick(2) == 0 ? 1.0f : 0.6f);
        break;
      case 3:
        banter_engine_set_paused(host_.engine, pick(12) == 0 ? 1 : 0);
        break;
      default: {
        char line[4096];
        size_t length = 0;
        (void)banter_engine_get_metrics_json(host_.engine, line, sizeof line, &length);
        (void)host_.statistics();
      }
    }
  }
  void note(banter_result code, banter_request_id request) {
    if (code == BANTER_OK) {
      ++submitted_;
      latest_ = request;
    } else {
      EXPECT_EQ(code, BANTER_ERROR_BUSY) << banter_last_error_message();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Host& host_;
  banter_model* model_;
  std::mt19937 random_;
  std::atomic<int>& submitted_;
  banter_npc* npcs_[kNpcs] = {};
  banter_request_id latest_ = 0;
  std::vector<std::byte> saved_;
};

/** How the characters of one engine are computed. */
struct Setting {
  const char* name;
  banter_kv_type kv_type;
  banter_speculation speculation;
};
constexpr Setting kSettings[] = {{"f32, n-grams", BANTER_KV_AUTO, BANTER_SPECULATION_NGRAM},
                                 {"int8, a draft model", BANTER_KV_INT8, BANTER_SPECULATION_DRAFT},
                                 {"int4, n-grams", BANTER_KV_INT4, BANTER_SPECULATION_NGRAM},
                                 {"bf16", BANTER_KV_BF16, BANTER_SPECULATION_NONE}};

/** Four players at one engine, and who takes the events. */
class Soak {
 public:
  Soak(const Setting& setting, const std::vector<std::byte>& bytes) : bytes_(bytes) {
    host_.keep_events = false;
    banter_model* draft = nullptr;
    if (setting.speculation == BANTER_SPECULATION_DRAFT) {
      draft = host_.load(bytes, [](banter_model_config& c) { c.kv_budget_bytes = 1 << 18; });
    }
    model_ = host_.load(bytes, [&](banter_model_config& c) {
      c.context_tokens = 400;
      c.kv_budget_bytes = 1 << 19;
      c.kv_type = setting.kv_type;
      c.speculation = setting.speculation;
      c.draft_model = draft;
    });
    host_.outcomes.clear();
  }

  void run(double seconds) {
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) threads.emplace_back([this, t] { play(100 + t); });
    const auto start = std::chrono::steady_clock::now();
    size_t settled = 0;
    for (double passed = 0; passed < seconds;) {
      host_.pump();
      tidy();
      banter_wait(host_.engine, 5);
      passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (settled == 0 && passed > 0.2 * seconds) settled = resident_bytes();
    }
    if (!kSanitized) {
      EXPECT_LT(resident_bytes(), settled + kMostGrowth) << "after " << ended_ << " requests";
    }
    stop_ = true;
    EXPECT_TRUE(host_.pump_until([&] { return running_ == 0; }, 60));
    for (std::thread& thread : threads) thread.join();
  }

  /** Everything ends, gives back what it held, and a reply is as if nothing had been. */
  void settle(const Setting& setting) {
    banter_engine_set_paused(host_.engine, 0);
    banter_engine_set_frame_budget(host_.engine, 0);
    banter_engine_set_cpu_share(host_.engine, 1);
    banter_engine_set_budget(host_.engine, 0);
    const auto all_ended = [&] {
      tidy();
      return ended_ == submitted_;
    };
    EXPECT_TRUE(host_.pump_until(all_ended, 60));
    EXPECT_EQ(ended_, submitted_);
    EXPECT_GT(ended_, 15);
    EXPECT_TRUE(host_.pump_until([&] { return host_.statistics().requests_active == 0; }));
    EXPECT_TRUE(host_.pump_until([&] { return host_.statistics().kv_bytes_used == 0; }));
    Host fresh;
    banter_model* const model = fresh.load(bytes_, [&](banter_model_config& c) { c.kv_type = setting.kv_type; });
    const auto expected = fresh.finish(complete(model, "Once upon a time", Ask(20, kGoOn))).tokens;
    EXPECT_EQ(host_.finish(complete(model_, "Once upon a time", Ask(20, kGoOn))).tokens, expected);
    if (setting.speculation == BANTER_SPECULATION_DRAFT) {
      EXPECT_GT(host_.statistics().drafted_tokens, 0u);
    }
  }

 private:
  /** What allocators keep for themselves and what full queues hold; a leak grows with the time that the soak is given. */
  static constexpr size_t kMostGrowth = 12 << 20;

  void play(uint32_t seed) {
    {
      Player player(host_, model_, seed, submitted_);
      while (!stop_) {
        player.act();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    --running_;
  }
  /** Outcomes of what has ended go, so that a long run's memory stays flat. */
  void tidy() {
    for (auto at = host_.outcomes.begin(); at != host_.outcomes.end();) {
      if (at->second.kind == 0) {
        ++at;
        continue;
      }
      EXPECT_EQ(at->second.terminals, 1);
      if (at->second.kind == BANTER_EVENT_SNAPSHOT) {
        const std::lock_guard lock(Player::snapshot_mutex);
        Player::snapshot = at->second.bytes;
      }
      ++ended_;
      at = host_.outcomes.erase(at);
    }
  }

  Host host_{[](banter_engine_config& c) {
    c.max_requests = 48;
    c.max_events = 64;
    c.text_buffer_bytes = 32768;
    c.thread_count = 2;
    c.swap_budget_bytes = 1 << 18;
  }};
  const std::vector<std::byte>& bytes_;
  banter_model* model_ = nullptr;
  std::atomic<int> submitted_{0}, running_{4};
  std::atomic<bool> stop_{false};
  int ended_ = 0;
};

TEST(Soak, EverythingAtRandomFromFourThreads) {
  TinyModelOptions options;
  options.layers = 1;
  const auto bytes = tiny_model(options);
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    Soak soak(setting, bytes);
    soak.run(soak_seconds() / static_cast<double>(std::size(kSettings)));
    soak.settle(setting);
  }
}

}  // namespace
}  // namespace banter::test
