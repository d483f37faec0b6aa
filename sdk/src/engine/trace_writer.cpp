// A recording as JSON of the Trace Event Format.
#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/json_line.h"
#include "engine/trace.h"

namespace banter::engine {
namespace {

constexpr uint64_t kProcess = 1, kStepTrack = 1;

const char* name_of(uint32_t terminal) {
  switch (static_cast<banter_event_kind>(terminal)) {
    case BANTER_EVENT_MODEL_READY:
      return "ready";
    case BANTER_EVENT_SNAPSHOT:
      return "saved";
    case BANTER_EVENT_DONE:
      return "done";
    case BANTER_EVENT_CANCELLED:
      return "cancelled";
    case BANTER_EVENT_FAILED:
      return "failed";
    default:
      return "running";
  }
}

class Writer {
 public:
  Writer(const TraceRing& ring, TraceSink sink, void* user_data) : ring_(ring), sink_(sink), user_data_(user_data) {}

  bool write() {
    raw("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_records\":");
    char digits[24];
    raw({digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, ring_.dropped()).ptr - digits)});
    raw("},\"traceEvents\":[");
    name("process_name", "banter");
    name("thread_name", "steps");
    for (size_t i = 0; i < ring_.size() && good_; ++i) {
      if (ring_[i].kind == TraceRecord::kStep) step(ring_[i]);
    }
    requests();
    raw("]}\n");
    flush();
    return good_;
  }

 private:
  /** Microseconds since the start. What began before it begins with it. */
  double at(uint64_t ns) const {
    return ns > ring_.started_ns ? static_cast<double>(ns - ring_.started_ns) / 1000 : 0.0;
  }

  void name(const char* what, const char* value) {
    event([&](JsonLine& json) {
      json.key("name").text(what).key("ph").text("M").pair("pid", kProcess).pair("tid", kStepTrack);
      json.key("args").open().key("name").text(value).close();
    });
  }

  void step(const TraceRecord& r) {
    const uint32_t prefill = r.figures[0], decode = r.figures[1];
    event([&](JsonLine& json) {
      json.key("name").text(prefill == 0 ? "decode" : decode == 0 ? "prefill" : "mixed");
      json.key("cat").text("step").key("ph").text("X").pair("pid", kProcess).pair("tid", kStepTrack);
      json.pair("ts", at(r.times[0])).pair("dur", at(r.times[1]) - at(r.times[0]));
      json.key("args").open().pair("prefill_rows", prefill).pair("decode_rows", decode);
      json.pair("sequences", r.figures[2]).pair("rested_us", r.times[4] / 1000).close();
    });
    counter("KV pages", r.times[1], {{"used", r.times[2]}, {"cached", r.times[3]}});
    counter("requests", r.times[1], {{"queued", r.figures[3]}, {"running", r.figures[4]}});
  }

  struct Series {
    const char* name;
    uint64_t value;
  };
  void counter(const char* what, uint64_t ns, std::initializer_list<Series> series) {
    event([&](JsonLine& json) {
      json.key("name").text(what).key("ph").text("C").pair("pid", kProcess).pair("ts", at(ns));
      json.key("args").open();
      for (const Series& s : series) json.pair(s.name, s.value);
      json.close();
    });
  }

  /** Groups the records by request: those of one follow one another in time, each span inside the one that is open. */
  void requests() {
    std::vector<uint32_t> order;
    order.reserve(ring_.size());
    for (size_t i = 0; i < ring_.size(); ++i) {
      if (ring_[i].kind != TraceRecord::kStep) order.push_back(static_cast<uint32_t>(i));
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return ring_[a].request != ring_[b].request ? ring_[a].request < ring_[b].request : a < b;
    });
    for (size_t first = 0; first < order.size() && good_;) {
      size_t end = first;
      while (end < order.size() && ring_[order[end]].request == ring_[order[first]].request) ++end;
      // Its own record is the last: the others were written while it ran.
      if (ring_[order[end - 1]].kind == TraceRecord::kRequest)
        one_request(std::span(order).subspan(first, end - first));
      first = end;
    }
  }

  void one_request(std::span<const uint32_t> parts) {
    const TraceRecord& r = ring_[parts.back()];
    const uint64_t submitted = r.times[0], started = r.times[1], first_token = r.times[2], last_token = r.times[3];
    const uint64_t ended = std::max({r.times[4], last_token, submitted});
    const char* const what = r.figures[4] != 0 ? "load" : "request";
    begin(r, what, submitted);
    begin(r, "queued", submitted);
    // A request may lose pages of a shared prefix before anything of it was computed.
    const uint64_t dequeued = started != 0 ? started : ended;
    size_t next = 0;
    for (; next + 1 < parts.size() && ring_[parts[next]].times[0] < dequeued; ++next) {
      if (ring_[parts[next]].kind == TraceRecord::kPreempted) instant(ring_[parts[next]], "preempted");
    }
    finish(r, "queued", dequeued);
    // From its first token to its last; what is computed in between is inside.
    bool begun = false, over = false;
    const auto decode_until = [&](uint64_t ns) {
      if (first_token != 0 && !begun && ns >= first_token) {
        begin(r, "decode", first_token);
        begun = true;
      }
      if (begun && !over && ns > last_token) {
        finish(r, "decode", last_token);
        over = true;
      }
    };
    for (const uint32_t i : parts.subspan(next, parts.size() - 1 - next)) {
      const TraceRecord& part = ring_[i];
      decode_until(part.times[0]);
      if (part.kind == TraceRecord::kChunk) {
        chunk(part);
      } else {
        instant(part, "preempted");
      }
    }
    decode_until(UINT64_MAX);
    event([&](JsonLine& json) {
      head(json, r.request, what, "e", ended);
      json.key("args").open().key("end").text(name_of(r.figures[0]));
      json.pair("prompt_tokens", r.figures[1]).pair("cached_tokens", r.figures[2]);
      json.pair("generated_tokens", r.figures[3]).close();
    });
  }

  void chunk(const TraceRecord& part) {
    const char* const what = part.figures[2] != 0 ? "recompute" : "prefill";
    event([&](JsonLine& json) {
      head(json, part.request, what, "b", part.times[0]);
      json.key("args").open().pair("position", part.figures[0]).pair("rows", part.figures[1]).close();
    });
    finish(part, what, part.times[1]);
  }
  void begin(const TraceRecord& r, const char* what, uint64_t ns) {
    event([&](JsonLine& json) { head(json, r.request, what, "b", ns); });
  }
  void finish(const TraceRecord& r, const char* what, uint64_t ns) {
    event([&](JsonLine& json) { head(json, r.request, what, "e", ns); });
  }
  void instant(const TraceRecord& r, const char* what) {
    event([&](JsonLine& json) { head(json, r.request, what, "n", r.times[0]); });
  }
  void head(JsonLine& json, uint64_t request, const char* what, const char* phase, uint64_t ns) const {
    char id[24] = "0x";
    const char* const end = std::to_chars(id + 2, id + sizeof id, request, 16).ptr;
    json.key("name").text(what).key("cat").text("request").key("ph").text(phase);
    json.key("id").text({id, static_cast<size_t>(end - id)});
    json.pair("pid", kProcess).pair("tid", kStepTrack).pair("ts", at(ns));
  }

  template <class F>
  void event(F&& fill) {
    if (sizeof buffer_ - used_ < kMostEventBytes) flush();
    if (!first_event_) raw(",");
    first_event_ = false;
    raw("\n");
    JsonLine json(std::span(buffer_ + used_, sizeof buffer_ - used_));
    json.open();
    fill(json);
    json.close();
    used_ += json.size();
  }
  void raw(std::string_view bytes) {
    if (sizeof buffer_ - used_ < bytes.size()) flush();
    std::memcpy(buffer_ + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  void flush() {
    good_ = good_ && (used_ == 0 || sink_(buffer_, used_, user_data_));
    used_ = 0;
  }

  static constexpr size_t kMostEventBytes = 512;  // of fixed names and numbers
  const TraceRing& ring_;
  TraceSink sink_;
  void* user_data_;
  bool good_ = true, first_event_ = true;
  size_t used_ = 0;
  char buffer_[8192];
};

}  // namespace

bool write_trace(const TraceRing& ring, TraceSink sink, void* user_data) {
  return Writer(ring, sink, user_data).write();
}

}  // namespace banter::engine
