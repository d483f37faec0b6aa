// Figures of requests and of the engine, their JSON line, and the trace of steps and requests.
#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <clocale>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/host.h"
#include "engine/json_line.h"
#include "engine/test_host.h"

namespace banter::test {
namespace {

using engine::Metrics;
using engine::RequestProgress;
using Json = nlohmann::json;

// ---------------------------------------------------------------- parts

TEST(RequestProgress, tells_first_time_from_again) {
  RequestProgress p;
  p.computed(10, 20, 50);  // prompt tokens 10 to 29; those before were in the cache
  EXPECT_EQ(p.prefilled, 20u);
  EXPECT_EQ(p.recomputed, 0u);
  p.computed(0, 25, 50);  // its pages were taken
  p.computed(25, 25, 50);
  EXPECT_EQ(p.prefilled, 40u);  // 10 cached, 40 computed
  EXPECT_EQ(p.recomputed, 30u);
  p.computed(50, 1, 50);
  p.computed(51, 3, 50);
  EXPECT_EQ(p.prefilled, 40u);
  EXPECT_EQ(p.recomputed, 30u);
  p.truncated(52);  // other words in place of the last two
  p.computed(52, 4, 50);
  EXPECT_EQ(p.recomputed, 30u);
}

TEST(JsonLine, counts_what_does_not_fit_and_knows_no_locale) {
  const char* const old = std::setlocale(LC_ALL, nullptr);
  const std::string before = old != nullptr ? old : "C";
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is there, a comma separates decimals
  const auto write = [](std::span<char> memory) {
    engine::JsonLine json(memory);
    json.open().pair("a", 1.5).key("b").open('[').number(uint64_t{1}).number(uint64_t{2}).close(']');
    json.key("c").text("x").pair("d", std::numeric_limits<double>::infinity()).close();
    return json.size();
  };
  char whole[128];
  const size_t length = write(whole);
  EXPECT_EQ(std::string_view(whole, length), R"({"a":1.500,"b":[1,2],"c":"x","d":0.000})");
  for (size_t room = 0; room <= length; ++room) {
    std::string cut(room + 8, '#');
    EXPECT_EQ(write(std::span(cut.data(), room)), length);
    EXPECT_EQ(cut, std::string(whole, room) + "########");
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST(Metrics, rates_and_shares_of_all_time_and_of_the_last_seconds) {
  constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
  Metrics metrics;
  const uint64_t start = engine::now_ns();
  metrics.step({start, start + 100 * kMs, 0, 200, 0, 1});
  metrics.step({start + 100 * kMs, start + 150 * kMs, 0, 0, 5, 5});
  metrics.step({start + 150 * kMs, start + 400 * kMs, 0, 100, 5, 6});
  banter_engine_statistics s = {};
  metrics.read(start + kSecond, s);
  EXPECT_EQ(s.prefill_steps, 1u);
  EXPECT_EQ(s.decode_steps, 1u);
  EXPECT_EQ(s.mixed_steps, 1u);
  EXPECT_NEAR(s.prefill_tokens_per_second, 300 / 0.35, 1e-6);
  EXPECT_NEAR(s.decode_tokens_per_second, 10 / 0.3, 1e-6);
  EXPECT_NEAR(s.rows_per_step, 310 / 3.0, 1e-9);
  EXPECT_NEAR(s.sequences_per_step, 4.0, 1e-9);
  EXPECT_NEAR(s.prefill_share, 0.1, 1e-3);
  EXPECT_NEAR(s.decode_share, 0.05, 1e-3);
  EXPECT_NEAR(s.mixed_share, 0.25, 1e-3);
  EXPECT_NEAR(s.idle_share, 0.6, 1e-3);
  EXPECT_EQ(s.recent_rows_per_step, s.rows_per_step);
  // Ten seconds later they are history.
  metrics.read(start + 10 * kSecond, s);
  EXPECT_EQ(s.recent_rows_per_step, 0.0);
  EXPECT_EQ(s.recent_idle_share, 1.0);
  EXPECT_NEAR(s.prefill_share, 0.01, 1e-3);
  metrics.step({start + 10 * kSecond, start + 12 * kSecond, 0, 0, 8, 8});
  metrics.read(start + 12 * kSecond, s);
  EXPECT_EQ(s.recent_sequences_per_step, 8.0);
  EXPECT_NEAR(s.recent_decode_tokens_per_second, 4.0, 1e-9);
  EXPECT_GT(s.recent_decode_share, 2 / 5.6);
  EXPECT_LT(s.recent_decode_share, 2 / 4.9);
  EXPECT_EQ(s.decode_steps, 2u);
  // Exactly where a step leaves the window.
  for (uint64_t ms = 16000; ms <= 18000; ms += 50) {
    metrics.read(start + ms * kMs, s);
    if (ms < 17000 - 1) {
      EXPECT_GT(s.recent_decode_share, 0.0) << ms;
    }
    if (ms > 17500 + 1) {
      EXPECT_EQ(s.recent_decode_share, 0.0) << ms;
    }
  }
}

TEST(Metrics, a_reader_sees_whole_steps_while_they_are_added) {
  Metrics metrics;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const uint64_t start = engine::now_ns();
    while (!stop.load()) {
      metrics.step({start, start + 1000, 0, 7, 7, 7});
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  const auto read = [&] {
    banter_engine_statistics s = {};
    metrics.read(engine::now_ns(), s);
    return s;
  };
  while (read().mixed_steps == 0) std::this_thread::yield();
  int whole = 0, reads = 0;
  uint64_t changes = 0, before = 0;
  for (; reads < 20000 || changes < 100; ++reads) {
    const banter_engine_statistics s = read();
    whole += s.rows_per_step == 14.0 && s.sequences_per_step == 7.0 ? 1 : 0;
    changes += s.mixed_steps != before ? 1 : 0;
    before = s.mixed_steps;
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(whole, reads / 2);  // bounded: a reader gives up while a writer is held up in the middle of a step
}

// ---------------------------------------------------------------- an engine

struct Collected {
  std::string json;
  int calls = 0, refuse_at = -1;
};
banter_result collect(const char* bytes, size_t size, void* to) {
  auto& collected = *static_cast<Collected*>(to);
  if (collected.calls++ == collected.refuse_at) return BANTER_ERROR_IO;
  collected.json.append(bytes, size);
  return BANTER_OK;
}

Json metrics_of(banter_engine* engine) {
  char line[4096];
  size_t length = 0;
  EXPECT_EQ(banter_engine_get_metrics_json(engine, line, sizeof line, &length), BANTER_OK);
  EXPECT_LT(length, sizeof line);
  EXPECT_EQ(std::strlen(line), length);
  EXPECT_EQ(std::strchr(line, '\n'), nullptr);
  return Json::parse(line);
}

TEST(EngineMetrics, OfRequestsAndOfTheEngine) {
  const std::vector<std::byte> bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.step_tokens = 16; });
  banter_model* const model = host.load(bytes);
  std::vector<banter_npc*> npcs;
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 4; ++i) {
    npcs.push_back(host.npc(model));
    requests.push_back(say(npcs.back(), "A long enough thing to say, number " + std::to_string(i), Ask(20, kGoOn)));
  }
  uint64_t prefilled = 0, generated = 0;
  for (const banter_request_id request : requests) {
    const banter_request_statistics s = host.finish(request).statistics;
    EXPECT_EQ(s.prefilled_tokens + s.cached_tokens, s.prompt_tokens);
    EXPECT_EQ(s.preemptions, 0u);
    EXPECT_EQ(s.recomputed_tokens, 0u);
    EXPECT_EQ(s.drafted_tokens, 0u);
    prefilled += s.prefilled_tokens;
    generated += s.generated_tokens;
  }
  ASSERT_TRUE(host.pump_until([&] { return host.statistics().requests_finished == 5; }));
  const banter_engine_statistics s = host.statistics();
  EXPECT_EQ(s.prefill_tokens, prefilled);
  EXPECT_EQ(s.decode_tokens, generated - 4);  // the last of each is not computed
  EXPECT_EQ(s.prefill_steps + s.decode_steps + s.mixed_steps, s.steps);
  EXPECT_GT(s.prefill_steps, 0u);
  EXPECT_GT(s.decode_steps, 0u);
  EXPECT_GT(s.prefill_tokens_per_second, 0.0);
  EXPECT_GT(s.decode_tokens_per_second, 0.0);
  EXPECT_GT(s.recent_decode_tokens_per_second, 0.0);
  EXPECT_NEAR(s.rows_per_step, static_cast<double>(prefilled + generated - 4) / static_cast<double>(s.steps), 1e-9);
  EXPECT_GT(s.sequences_per_step, 1.0);
  EXPECT_LE(s.sequences_per_step, 4.0);
  EXPECT_NEAR(s.prefill_share + s.decode_share + s.mixed_share + s.idle_share, 1.0, 1e-9);
  EXPECT_NEAR(s.recent_prefill_share + s.recent_decode_share + s.recent_mixed_share + s.recent_idle_share, 1.0, 1e-9);
  EXPECT_EQ(s.requests_queued, 0u);
  EXPECT_EQ(s.kv_pages_used, 0u);
  EXPECT_GT(s.kv_pages_cached, 0u);  // what four characters may say next
  EXPECT_LE(s.kv_pages_cached, s.kv_pages_total);
  EXPECT_EQ(s.kv_pages_swapped, 0u);

  const Json json = metrics_of(host.engine);
  EXPECT_EQ(json["requests"]["finished"], 5);
  EXPECT_EQ(json["tokens"]["prefill"], prefilled);
  EXPECT_EQ(json["kv_pages"]["cached"], s.kv_pages_cached);
  EXPECT_NEAR(json["total"]["rows_per_step"].get<double>(), s.rows_per_step, 1e-3);
  EXPECT_GT(json["recent"]["share"]["idle"].get<double>(), 0.0);

  for (banter_npc* npc : npcs) banter_npc_destroy(npc);
  EXPECT_TRUE(host.pump_until([&] { return host.statistics().kv_pages_used == 0; }));
  EXPECT_GT(host.statistics().kv_pages_cached, 0u);  // others may begin with the same words
}

TEST(EngineMetrics, WhatAPreemptionCosts) {
  const std::vector<std::byte> bytes = tiny_model();
  Host host;
  // Room for hardly more than one of the two.
  banter_model* const model = host.load(bytes, [](banter_model_config& c) {
    c.context_tokens = 256;
    c.kv_budget_bytes = 320 * tiny_bytes_per_token();
  });
  Ask background(200, kGoOn), player(200, kGoOn);
  background.config.priority = 0;
  player.config.priority = 7;
  // Slowly, so that the first is far from its end when the second comes.
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 0.02f), BANTER_OK);
  const banter_request_id first = say(host.npc(model), "Hello", background);
  ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[first].text.empty(); }));
  const banter_request_id second = say(host.npc(model), "Now me!", player);
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 1), BANTER_OK);
  EXPECT_EQ(host.finish(second).statistics.preemptions, 0u);
  const banter_request_statistics s = host.finish(first).statistics;
  EXPECT_EQ(s.generated_tokens, 200u);
  EXPECT_GE(s.preemptions, 1u);
  EXPECT_GT(s.recomputed_tokens, 0u);
  EXPECT_LE(s.prefilled_tokens, s.prompt_tokens);
  EXPECT_GE(host.statistics().preemptions, s.preemptions);
  EXPECT_EQ(host.statistics().recomputed_tokens, s.recomputed_tokens);
}

TEST(EngineMetrics, BuffersAreCutNotOverrun) {
  Host host;
  size_t length = 0;
  ASSERT_EQ(banter_engine_get_metrics_json(host.engine, nullptr, 0, &length), BANTER_OK);
  EXPECT_GT(length, 100u);
  for (const size_t capacity : {size_t{1}, size_t{2}, size_t{100}}) {
    std::string buffer(capacity + 4, '#');
    size_t whole = 0;
    ASSERT_EQ(banter_engine_get_metrics_json(host.engine, buffer.data(), capacity, &whole), BANTER_OK);
    EXPECT_GE(whole, capacity);
    EXPECT_EQ(buffer[capacity - 1], '\0');
    EXPECT_EQ(buffer.substr(capacity), "####");
  }
  char byte = 0;
  EXPECT_EQ(banter_engine_get_metrics_json(host.engine, nullptr, 5, &length), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_get_metrics_json(host.engine, &byte, 1, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_get_metrics_json(nullptr, &byte, 1, &length), BANTER_ERROR_INVALID_ARGUMENT);
}

TEST(EngineMetrics, AnOlderCallersStatisticsAreNotOverrun) {
  Host host;
  struct Older {
    banter_engine_statistics figures;
    unsigned char guard[8];
  } older;
  std::memset(&older, 0xEE, sizeof older);
  older.figures.struct_size = offsetof(banter_engine_statistics, prefill_tokens_per_second);
  ASSERT_EQ(banter_engine_get_statistics(host.engine, &older.figures), BANTER_OK);
  unsigned char untouched[sizeof(double)];
  std::memset(untouched, 0xEE, sizeof untouched);
  EXPECT_EQ(std::memcmp(&older.figures.prefill_tokens_per_second, untouched, sizeof untouched), 0);
  EXPECT_EQ(older.figures.events_delayed, 0u);
}

// ---------------------------------------------------------------- the trace

struct Checked {
  std::map<std::string, std::string> ends;  // request id: how it ended
  std::map<std::string, std::set<std::string>> spans;
  std::map<std::string, std::vector<std::pair<double, double>>> decode;
  size_t steps = 0, loads = 0, counters = 0;
  uint64_t dropped = 0;
};

/** Every span ends inside the one that is open, every request begins and ends once, steps follow one another. */
Checked check_trace(const std::string& text) {
  Checked checked;
  const Json trace = Json::parse(text);
  checked.dropped = trace["otherData"]["dropped_records"];
  struct Open {
    std::string name;
    double since;
  };
  std::map<std::string, std::vector<Open>> open;
  std::map<std::string, double> latest;
  double step_ended = 0;
  for (const Json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"], name = event["name"];
    if (phase == "M") continue;
    const double ts = event["ts"];
    EXPECT_GE(ts, 0.0);
    if (phase == "C") {
      ++checked.counters;
      continue;
    }
    if (phase == "X") {
      ++checked.steps;
      EXPECT_GE(ts, step_ended - 0.002) << name;
      EXPECT_GE(event["dur"].get<double>(), 0.0);
      step_ended = ts + event["dur"].get<double>();
      const uint64_t prefill = event["args"]["prefill_rows"], decode = event["args"]["decode_rows"];
      EXPECT_EQ(name, prefill == 0 ? "decode" : decode == 0 ? "prefill" : "mixed");
      EXPECT_GE(prefill + decode, event["args"]["sequences"].get<uint64_t>());
      continue;
    }
    const std::string id = event["id"];
    std::vector<Open>& stack = open[id];
    EXPECT_GE(ts, latest[id]) << id << " " << name;
    latest[id] = ts;
    if (phase == "b") {
      const bool outer = name == "request" || name == "load";
      EXPECT_EQ(stack.empty(), outer) << id << " " << name;
      if (outer) {
        EXPECT_EQ(checked.spans.count(id), 0u) << id << " begins twice";
      }
      if (name != "prefill" && name != "recompute") {
        EXPECT_EQ(checked.spans[id].count(name), 0u) << name;
      }
      checked.spans[id].insert(name);
      if (name == "load") ++checked.loads;
      stack.push_back({name, ts});
    } else if (phase == "e") {
      if (stack.empty()) {
        ADD_FAILURE() << id << " " << name << " ends, but did not begin";
        continue;
      }
      EXPECT_EQ(stack.back().name, name) << id;
      if (name == "decode") checked.decode[id].emplace_back(stack.back().since, ts);
      stack.pop_back();
      if (!stack.empty()) continue;
      EXPECT_EQ(checked.ends.count(id), 0u) << id << " ends twice";
      checked.ends[id] = event["args"]["end"];
    } else {
      EXPECT_EQ(phase, "n");
      EXPECT_FALSE(stack.empty());
    }
  }
  for (const auto& [id, stack] : open) EXPECT_TRUE(stack.empty()) << id;
  EXPECT_EQ(checked.ends.size(), checked.spans.size());
  return checked;
}

std::string hex(banter_request_id id) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(id));
  return text;
}

TEST(EngineTrace, EveryRequestBeginsAndEndsOnceAndSpansNest) {
  const std::vector<std::byte> bytes = tiny_model();
  Host host([](banter_engine_config& c) { c.step_tokens = 16; });
  ASSERT_EQ(banter_engine_trace_start(host.engine, 0), BANTER_OK) << banter_last_error_message();
  EXPECT_EQ(banter_engine_trace_start(host.engine, 0), BANTER_ERROR_STATE);
  banter_model* const model = host.load(bytes, [](banter_model_config& c) {
    c.context_tokens = 256;
    c.kv_budget_bytes = 320 * tiny_bytes_per_token();  // so small that requests take pages from one another
  });
  std::vector<banter_request_id> done, cancelled;
  // However late this thread gets to cancelling, there is something to cancel.
  ASSERT_EQ(banter_engine_set_paused(host.engine, 1), BANTER_OK);
  for (int i = 0; i < 6; ++i) {
    Ask ask(60, kGoOn);
    ask.config.priority = i;
    done.push_back(say(host.npc(model), "Some words of number " + std::to_string(i), ask));
    ask.config.max_tokens = 0;
    cancelled.push_back(say(host.npc(model), "Others", ask));
    EXPECT_EQ(banter_cancel(host.engine, cancelled.back()), BANTER_OK);
  }
  ASSERT_EQ(banter_engine_set_paused(host.engine, 0), BANTER_OK);
  Ask bad(5);
  bad.bans = {"x"};
  const banter_request_id failed = complete(model, std::string(3000, 'x'), bad);
  for (const banter_request_id request : done) EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_DONE);
  for (const banter_request_id request : cancelled) EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_CANCELLED);
  EXPECT_EQ(host.finish(failed).kind, BANTER_EVENT_FAILED);
  // And one that still runs, slowly.
  ASSERT_EQ(banter_engine_set_cpu_share(host.engine, 0.01f), BANTER_OK);
  const banter_request_id running = say(host.npc(model), "Endless", Ask(0, kGoOn));
  ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[running].text.empty(); }));
  Collected trace;
  ASSERT_EQ(banter_engine_trace_stop(host.engine, collect, &trace), BANTER_OK) << banter_last_error_message();
  const banter_engine_statistics s = host.statistics();

  Checked checked = check_trace(trace.json);
  EXPECT_EQ(checked.dropped, 0u);
  EXPECT_EQ(checked.loads, 1u);
  EXPECT_EQ(checked.ends.size(), 15u);
  for (const banter_request_id request : done) {
    EXPECT_EQ(checked.ends[hex(request)], "done");
    EXPECT_TRUE(checked.spans[hex(request)].contains("queued"));
    EXPECT_TRUE(checked.spans[hex(request)].contains("prefill"));
    EXPECT_TRUE(checked.spans[hex(request)].contains("decode"));
  }
  for (const banter_request_id request : cancelled) EXPECT_EQ(checked.ends[hex(request)], "cancelled");
  EXPECT_EQ(checked.ends[hex(failed)], "failed");
  EXPECT_EQ(checked.ends[hex(running)], "running");
  EXPECT_LE(checked.steps, s.steps);
  EXPECT_GT(checked.steps, 60u);
  EXPECT_EQ(checked.counters, checked.steps * 2);
  if (s.preemptions > 0) {
    EXPECT_NE(trace.json.find("\"preempted\""), std::string::npos);
  }
}

TEST(EngineTrace, ASmallRingKeepsTheNewest) {
  const std::vector<std::byte> bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  const banter_request_id before = say(host.npc(model), "Before", Ask(100, kGoOn));
  ASSERT_TRUE(host.pump_until([&] { return !host.outcomes[before].text.empty(); }));
  ASSERT_EQ(banter_engine_trace_start(host.engine, 16), BANTER_OK);
  host.finish(before);
  banter_request_id last = 0;
  for (int i = 0; i < 20; ++i) host.finish(last = say(host.npc(model), "Hello", Ask(4, kGoOn)));
  Collected trace;
  ASSERT_EQ(banter_engine_trace_stop(host.engine, collect, &trace), BANTER_OK);
  const Checked checked = check_trace(trace.json);
  EXPECT_GT(checked.dropped, 50u);
  EXPECT_EQ(checked.ends.at(hex(last)), "done");
  EXPECT_LE(checked.ends.size() + checked.steps, 16u);
}

TEST(EngineTrace, StartsAndStopsInEveryState) {
  const std::vector<std::byte> bytes = tiny_model();
  auto host = std::make_unique<Host>();
  EXPECT_EQ(banter_engine_trace_stop(host->engine, collect, nullptr), BANTER_ERROR_STATE);
  EXPECT_EQ(banter_engine_trace_start(host->engine, 15), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_trace_start(host->engine, (1u << 24) + 1), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_trace_start(nullptr, 0), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(banter_engine_trace_stop(nullptr, collect, nullptr), BANTER_ERROR_INVALID_ARGUMENT);
  // Asleep.
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(banter_engine_trace_start(host->engine, 16), BANTER_OK);
    Collected trace;
    ASSERT_EQ(banter_engine_trace_stop(host->engine, collect, &trace), BANTER_OK);
    EXPECT_EQ(check_trace(trace.json).ends.size(), 0u);
  }
  // At work, with a writer that refuses, or with none.
  banter_model* const model = host->load(bytes);
  const banter_request_id request = say(host->npc(model), "Hello", Ask(0, kGoOn));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(banter_engine_trace_start(host->engine, 64), BANTER_OK);
    host->pump();
    Collected trace;
    trace.refuse_at = i % 2;
    const banter_result stopped = banter_engine_trace_stop(host->engine, i % 3 == 0 ? nullptr : collect, &trace);
    EXPECT_TRUE(stopped == BANTER_OK || (stopped == BANTER_ERROR_IO && i % 3 != 0)) << i;
  }
  EXPECT_EQ(banter_cancel(host->engine, request), BANTER_OK);
  host->finish(request);
  ASSERT_EQ(banter_engine_trace_start(host->engine, 64), BANTER_OK);
  host.reset();  // the recording goes with the engine
}

TEST(EngineTrace, RecordingChangesNoWords) {
  const std::vector<std::byte> bytes = tiny_model();
  const auto run = [&](bool traced) {
    Host host;
    banter_model* const model = host.load(bytes);
    if (traced) {
      EXPECT_EQ(banter_engine_trace_start(host.engine, 16), BANTER_OK);
    }
    Ask ask(40, kGoOn);
    ask.sampling.temperature = 1;
    return host.finish(say(host.npc(model), "Hello", ask)).tokens;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace banter::test
