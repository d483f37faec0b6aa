// Everything at random from four threads. BANTER_SOAK_SECONDS sets how long; a few seconds by default.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>

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

TEST(Soak, EverythingAtRandomFromFourThreads) {
  TinyModelOptions options;
  options.layers = 1;
  const auto bytes = tiny_model(options);
  Host host([](banter_engine_config& c) {
    c.max_requests = 48;
    c.max_events = 64;
    c.text_buffer_bytes = 32768;
    c.thread_count = 2;
    c.swap_budget_bytes = 1 << 18;
  });
  host.keep_events = false;
  banter_model* const model = host.load(bytes, [](banter_model_config& c) {
    c.context_tokens = 400;
    c.kv_budget_bytes = 1 << 19;
    c.speculation = BANTER_SPECULATION_NGRAM;
  });
  host.outcomes.clear();
  std::atomic<int> submitted{0}, running{4};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      {
        Player player(host, model, 100 + t, submitted);
        while (!stop) {
          player.act();
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      }
      --running;
    });
  }
  int ended = 0;
  const auto tidy = [&] {
    // Outcomes of what has ended go, so that a long run's memory stays flat.
    for (auto at = host.outcomes.begin(); at != host.outcomes.end();) {
      if (at->second.kind == 0) {
        ++at;
        continue;
      }
      EXPECT_EQ(at->second.terminals, 1);
      if (at->second.kind == BANTER_EVENT_SNAPSHOT) {
        const std::lock_guard lock(Player::snapshot_mutex);
        Player::snapshot = at->second.bytes;
      }
      ++ended;
      at = host.outcomes.erase(at);
    }
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(soak_seconds());
  while (std::chrono::steady_clock::now() < end) {
    host.pump();
    tidy();
    banter_wait(host.engine, 5);
  }
  stop = true;
  EXPECT_TRUE(host.pump_until([&] { return running == 0; }, 60));
  for (std::thread& thread : threads) thread.join();
  banter_engine_set_paused(host.engine, 0);
  banter_engine_set_frame_budget(host.engine, 0);
  banter_engine_set_cpu_share(host.engine, 1);
  banter_engine_set_budget(host.engine, 0);
  EXPECT_TRUE(host.pump_until(
      [&] {
        tidy();
        return ended == submitted;
      },
      60));
  EXPECT_EQ(ended, submitted);
  EXPECT_GT(ended, 50);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().requests_active == 0; }));
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_bytes_used == 0; }));
  // And it talks as if nothing had been.
  Host fresh;
  const auto expected = fresh.finish(complete(fresh.load(bytes), "Once upon a time", Ask(20, kGoOn))).tokens;
  EXPECT_EQ(host.finish(complete(model, "Once upon a time", Ask(20, kGoOn))).tokens, expected);
}

}  // namespace
}  // namespace banter::test
