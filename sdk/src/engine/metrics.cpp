#include "engine/metrics.h"

#include <algorithm>

#include "engine/host.h"
#include "engine/json_line.h"

namespace banter::engine {

void RequestProgress::computed(uint32_t at, uint32_t rows, uint32_t prompt) {
  const uint32_t end = at + rows;
  if (!started) furthest = at;
  started = true;
  const uint32_t fresh_from = std::clamp(furthest, at, end);
  recomputed += fresh_from - at;
  prefilled += std::min(end, prompt) - std::min(fresh_from, prompt);
  furthest = std::max(furthest, end);
}

void RequestProgress::truncated(uint32_t length) {
  furthest = std::min(furthest, length);
}

Metrics::Metrics() : created_ns_(now_ns()) {}

void Metrics::step(const StepFigures& step) {
  const uint64_t began = step.started_ns + step.rested_ns;
  const uint64_t ns = step.ended_ns > began ? step.ended_ns - began : 0;
  Sums more{};
  more[kPrefillTokens] = step.prefill_rows;
  more[kDecodeTokens] = step.decode_rows;
  more[kSequences] = step.sequences;
  const bool prefills = step.prefill_rows > 0, decodes = step.decode_rows > 0;
  more[prefills && decodes ? kMixedSteps : prefills ? kPrefillSteps : kDecodeSteps] = 1;
  more[prefills && decodes ? kMixedNs : prefills ? kPrefillNs : kDecodeNs] = ns;

  const uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const uint64_t period = step.ended_ns / kPeriodNs;
  Bucket& bucket = buckets_[period % buckets_.size()];
  if (bucket.period.load(std::memory_order_relaxed) != period) {
    bucket.period.store(period, std::memory_order_relaxed);
    for (std::atomic<uint64_t>& sum : bucket.sums) sum.store(0, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < kSums; ++i) {
    add(total_[i], more[i]);
    add(bucket.sums[i], more[i]);
  }
  version_.store(version + 2, std::memory_order_release);
}

void Metrics::kv_pages(const KvPages& pages) {
  pages_total_.store(pages.total, std::memory_order_relaxed);
  pages_used_.store(pages.used, std::memory_order_relaxed);
  pages_cached_.store(pages.cached, std::memory_order_relaxed);
  pages_swapped_.store(pages.swapped, std::memory_order_relaxed);
}

KvPages Metrics::kv_pages() const {
  return {pages_total_.load(std::memory_order_relaxed), pages_used_.load(std::memory_order_relaxed),
          pages_cached_.load(std::memory_order_relaxed), pages_swapped_.load(std::memory_order_relaxed)};
}

Metrics::Reading Metrics::read_sums(uint64_t first_period) const {
  constexpr int kTries = 8;  // steps take milliseconds, a try less than one microsecond
  Reading reading;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t version = version_.load(std::memory_order_acquire);
    reading = {};
    for (size_t s = 0; s < kSums; ++s) reading.total[s] = total_[s].load(std::memory_order_relaxed);
    for (const Bucket& bucket : buckets_) {
      if (bucket.period.load(std::memory_order_relaxed) < first_period) continue;
      for (size_t s = 0; s < kSums; ++s) reading.recent[s] += bucket.sums[s].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) break;
  }
  return reading;
}

EngineRates Metrics::rates(const Sums& sums, uint64_t elapsed_ns) {
  const auto value = [&](Sum sum) { return static_cast<double>(sums[sum]); };
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0.0; };
  EngineRates out;
  out.prefill_tokens_per_second = ratio(value(kPrefillTokens) * 1e9, value(kPrefillNs) + value(kMixedNs));
  out.decode_tokens_per_second = ratio(value(kDecodeTokens) * 1e9, value(kDecodeNs) + value(kMixedNs));
  const double steps = value(kPrefillSteps) + value(kDecodeSteps) + value(kMixedSteps);
  out.rows_per_step = ratio(value(kPrefillTokens) + value(kDecodeTokens), steps);
  out.sequences_per_step = ratio(value(kSequences), steps);
  // A step counts where it ends: a long one may have begun before the time looked at.
  const double busy = value(kPrefillNs) + value(kDecodeNs) + value(kMixedNs);
  const double whole = std::max(static_cast<double>(elapsed_ns), busy);
  out.prefill_share = ratio(value(kPrefillNs), whole);
  out.decode_share = ratio(value(kDecodeNs), whole);
  out.mixed_share = ratio(value(kMixedNs), whole);
  out.idle_share = whole > 0 ? (whole - busy) / whole : 1.0;
  return out;
}

void Metrics::read(uint64_t now, banter_engine_statistics& out) const {
  const uint64_t period = now / kPeriodNs;
  const uint64_t first = period > kPeriods ? period - kPeriods : 1;
  const Reading reading = read_sums(first);
  const auto since = [&](uint64_t start) { return now > start ? now - start : 0; };
  const EngineRates total = rates(reading.total, since(created_ns_));
  out.prefill_tokens_per_second = total.prefill_tokens_per_second;
  out.decode_tokens_per_second = total.decode_tokens_per_second;
  out.rows_per_step = total.rows_per_step;
  out.sequences_per_step = total.sequences_per_step;
  out.prefill_share = total.prefill_share;
  out.decode_share = total.decode_share;
  out.mixed_share = total.mixed_share;
  out.idle_share = total.idle_share;
  const EngineRates recent = rates(reading.recent, since(std::max(created_ns_, first * kPeriodNs)));
  out.recent_prefill_tokens_per_second = recent.prefill_tokens_per_second;
  out.recent_decode_tokens_per_second = recent.decode_tokens_per_second;
  out.recent_rows_per_step = recent.rows_per_step;
  out.recent_sequences_per_step = recent.sequences_per_step;
  out.recent_prefill_share = recent.prefill_share;
  out.recent_decode_share = recent.decode_share;
  out.recent_mixed_share = recent.mixed_share;
  out.recent_idle_share = recent.idle_share;
  out.prefill_steps = reading.total[kPrefillSteps];
  out.decode_steps = reading.total[kDecodeSteps];
  out.mixed_steps = reading.total[kMixedSteps];
  const auto running = static_cast<uint32_t>(requests_running());
  out.requests_queued = out.requests_active - std::min(out.requests_active, running);
  const KvPages pages = kv_pages();
  out.kv_pages_total = pages.total;
  out.kv_pages_used = pages.used;
  out.kv_pages_cached = pages.cached;
  out.kv_pages_swapped = pages.swapped;
  out.preemptions = preemptions_.load(std::memory_order_relaxed);
  out.recomputed_tokens = recomputed_.load(std::memory_order_relaxed);
  out.drafted_tokens = drafted_.load(std::memory_order_relaxed);
  out.accepted_tokens = accepted_.load(std::memory_order_relaxed);
}

namespace {

void write_rates(JsonLine& json, const EngineRates& rates) {
  json.open()
      .pair("prefill_tokens_per_second", rates.prefill_tokens_per_second)
      .pair("decode_tokens_per_second", rates.decode_tokens_per_second)
      .pair("rows_per_step", rates.rows_per_step)
      .pair("sequences_per_step", rates.sequences_per_step);
  json.key("share")
      .open()
      .pair("prefill", rates.prefill_share)
      .pair("decode", rates.decode_share)
      .pair("mixed", rates.mixed_share)
      .pair("idle", rates.idle_share)
      .close()
      .close();
}

}  // namespace

size_t to_json(const banter_engine_statistics& s, std::span<char> memory) {
  JsonLine json(memory);
  json.open();
  json.key("requests")
      .open()
      .pair("submitted", s.requests_submitted)
      .pair("finished", s.requests_finished)
      .pair("active", s.requests_active)
      .pair("queued", s.requests_queued)
      .close();
  json.key("steps")
      .open()
      .pair("all", s.steps)
      .pair("prefill", s.prefill_steps)
      .pair("decode", s.decode_steps)
      .pair("mixed", s.mixed_steps)
      .close();
  json.key("tokens")
      .open()
      .pair("prefill", s.prefill_tokens)
      .pair("decode", s.decode_tokens)
      .pair("recomputed", s.recomputed_tokens)
      .pair("drafted", s.drafted_tokens)
      .pair("accepted", s.accepted_tokens)
      .close();
  json.pair("preemptions", s.preemptions);
  write_rates(json.key("total"), {s.prefill_tokens_per_second, s.decode_tokens_per_second, s.rows_per_step,
                                  s.sequences_per_step, s.prefill_share, s.decode_share, s.mixed_share, s.idle_share});
  write_rates(json.key("recent"), {s.recent_prefill_tokens_per_second, s.recent_decode_tokens_per_second,
                                   s.recent_rows_per_step, s.recent_sequences_per_step, s.recent_prefill_share,
                                   s.recent_decode_share, s.recent_mixed_share, s.recent_idle_share});
  json.key("kv_pages")
      .open()
      .pair("total", s.kv_pages_total)
      .pair("used", s.kv_pages_used)
      .pair("cached", s.kv_pages_cached)
      .pair("swapped", s.kv_pages_swapped)
      .close();
  json.key("bytes")
      .open()
      .pair("weights", s.weight_bytes)
      .pair("kv_total", s.kv_bytes_total)
      .pair("kv_used", s.kv_bytes_used)
      .close();
  json.pair("models", s.models_loaded)
      .pair("busy_ms", static_cast<double>(s.busy_microseconds) / 1000)
      .pair("events_delayed", s.events_delayed)
      .close();
  return json.size();
}

size_t to_json(const banter_request_statistics& s, std::span<char> memory) {
  JsonLine json(memory);
  json.open()
      .pair("queue_ms", s.queue_ms)
      .pair("ttft_ms", s.ttft_ms)
      .pair("prefill_ms", s.prefill_ms)
      .pair("decode_ms", s.decode_ms)
      .pair("itl_mean_ms", s.itl_mean_ms)
      .pair("itl_p50_ms", s.itl_p50_ms)
      .pair("itl_p99_ms", s.itl_p99_ms)
      .pair("prompt_tokens", s.prompt_tokens)
      .pair("cached_tokens", s.cached_tokens)
      .pair("prefilled_tokens", s.prefilled_tokens)
      .pair("generated_tokens", s.generated_tokens)
      .pair("thought_tokens", s.thought_tokens)
      .pair("drafted_tokens", s.drafted_tokens)
      .pair("accepted_tokens", s.accepted_tokens)
      .pair("preemptions", s.preemptions)
      .pair("recomputed_tokens", s.recomputed_tokens)
      .close();
  return json.size();
}

}  // namespace banter::engine
