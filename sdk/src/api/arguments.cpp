#include "api/arguments.h"

#include <cmath>
#include <cstdio>

#include "api/guard.h"
#include "banter/banter.h"
#include "engine/engine.h"
#include "text/utf8.h"

namespace banter::api {
namespace {

constexpr uint32_t kMostStopStrings = 32, kMostBannedStrings = 64, kMostStopTokens = 64;
constexpr uint32_t kMostBreakers = 32;
constexpr size_t kMostStringBytes = 256, kMostBreakerBytes = 40;

struct FloatRange {
  const char* field;
  float value, low, high;
  bool above_low = false;   // `low` itself is out
  bool below_high = false;  // `high` itself is out
};
struct IntRange {
  const char* field;
  int32_t value, low, high;
};

banter_result check_floats(const char* name, std::span<const FloatRange> ranges) noexcept {
  for (const FloatRange& r : ranges) {
    const bool low = r.above_low ? r.value > r.low : r.value >= r.low;
    const bool high = r.below_high ? r.value < r.high : r.value <= r.high;
    if (low && high) continue;  // NaN is neither
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s is %g; give a value in %c%g, %g%c.", name, r.field,
                static_cast<double>(r.value), r.above_low ? '(' : '[', static_cast<double>(r.low),
                static_cast<double>(r.high), r.below_high ? ')' : ']');
  }
  return BANTER_OK;
}

banter_result check_ints(const char* name, std::span<const IntRange> ranges) noexcept {
  for (const IntRange& r : ranges) {
    if (r.value >= r.low && r.value <= r.high) continue;
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s is %d; give a value in [%d, %d].", name, r.field, r.value, r.low,
                r.high);
  }
  return BANTER_OK;
}

struct StringList {
  const char* owner;  // what messages call the struct
  const char* field;
  const char* const* strings;
  uint32_t count, most;
  size_t most_bytes = kMostStringBytes;
};

BANTER_GAME_THREAD banter_result read_strings(const StringList& list, std::span<const char* const>& out) noexcept {
  if (list.count == 0) return BANTER_OK;
  if (list.count > list.most) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s has %u %s; at most %u are possible.", list.owner, list.count,
                list.field, list.most);
  }
  if (list.strings == nullptr) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s is NULL, but its count is %u.", list.owner, list.field,
                list.count);
  }
  for (uint32_t i = 0; i < list.count; ++i) {
    const char* const s = list.strings[i];
    if (s == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s[%u] is NULL.", list.owner, list.field, i);
    const auto* const end = static_cast<const char*>(std::memchr(s, 0, list.most_bytes + 1));
    if (end == s || end == nullptr) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s[%u] is %s; give 1 to %zu bytes.", list.owner, list.field, i,
                  end == s ? "empty" : "too long", list.most_bytes);
    }
    if (!is_valid_utf8({s, static_cast<size_t>(end - s)})) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.%s[%u] is not valid UTF-8.", list.owner, list.field, i);
    }
  }
  out = {list.strings, list.count};
  return BANTER_OK;
}

}  // namespace

void log_refusal(const Caller& caller) noexcept {
  const engine::EngineConfig& config = caller.engine->config();
  if (!config.validate) return;
  char line[640];
  std::snprintf(line, sizeof line, "%s: %s", caller.function, thread_error());
  config.log.write(BANTER_LOG_WARNING, line);
}

BANTER_GAME_THREAD bool is_valid_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    // Most text is ASCII: eight bytes at a time.
    while (text.size() >= 8) {
      uint64_t word;
      std::memcpy(&word, text.data(), 8);
      if ((word & 0x8080808080808080u) != 0) break;
      text.remove_prefix(8);
    }
    if (text.empty()) break;
    const text::Utf8Step step = text::utf8_step(text);
    if (step.status != text::Utf8Status::kOk) return false;
    text.remove_prefix(step.size);
  }
  return true;
}

BANTER_GAME_THREAD banter_result read_text(const char* name, const char* text, size_t length,
                                           std::string_view& out) noexcept {
  out = {};
  if (text == nullptr) {
    if (length == 0 || length == BANTER_ZERO_TERMINATED) return BANTER_OK;
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s is NULL, but its length is %zu.", name, length);
  }
  if (length == BANTER_ZERO_TERMINATED) length = std::strlen(text);
  if (length > PTRDIFF_MAX) return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s has a length of %zu.", name, length);
  const std::string_view view(text, length);
  if (!is_valid_utf8(view)) return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s is not valid UTF-8.", name);
  out = view;
  return BANTER_OK;
}

BANTER_GAME_THREAD banter_result read_sampling(const banter_sampling_config* config, Sampling& out,
                                               const char* name) noexcept {
  banter_sampling_config c;
  banter_sampling_config_init(&c, sizeof c);
  if (config != nullptr) {
    if (const banter_result code = read_struct("banter_sampling_config", config, c)) return code;
  }
  if (c.flags != 0) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_sampling_config.flags must be 0.");
  const FloatRange floats[] = {
      {"temperature", c.temperature, 0, 10},
      {"top_p", c.top_p, 0, 1, true},
      {"min_p", c.min_p, 0, 1, false, true},
      {"typical_p", c.typical_p, 0, 1, true},
      {"repetition_penalty", c.repetition_penalty, 0.01f, 10},
      {"presence_penalty", c.presence_penalty, -10, 10},
      {"frequency_penalty", c.frequency_penalty, -10, 10},
      {"dry_multiplier", c.dry_multiplier, 0, 100},
      {"dry_base", c.dry_base, 1, 10},
      {"xtc_probability", c.xtc_probability, 0, 1},
      {"xtc_threshold", c.xtc_threshold, 0, 1},
      {"mirostat_tau", c.mirostat_tau, 0, 100, true},
      {"mirostat_eta", c.mirostat_eta, 0, 1, true},
  };
  if (const banter_result code = check_floats(name, floats)) return code;
  const IntRange ints[] = {
      {"top_k", c.top_k, 0, INT32_MAX},
      {"penalty_last_tokens", c.penalty_last_tokens, -1, INT32_MAX},
      {"dry_allowed_length", c.dry_allowed_length, 1, INT32_MAX},
      {"dry_last_tokens", c.dry_last_tokens, -1, INT32_MAX},
      {"mirostat", c.mirostat, 0, 2},
  };
  if (const banter_result code = check_ints(name, ints)) return code;
  if (c.mirostat == 1) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.mirostat is 1; give 0 (off) or 2.", name);
  }
  if (c.logit_bias_count > 0 && (c.logit_bias_tokens == nullptr || c.logit_bias_values == nullptr)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.logit_bias_count is %u, but an array is NULL.", name,
                c.logit_bias_count);
  }
  for (uint32_t i = 0; i < c.logit_bias_count; ++i) {
    const float value = c.logit_bias_values[i];
    if (!std::isnan(value) && !(std::isinf(value) && value > 0) && c.logit_bias_tokens[i] >= 0) continue;
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "%s.logit_bias[%u] is %g for token %d; give a token "
                "of the vocabulary, and a number or minus infinity.",
                name, i, static_cast<double>(value), c.logit_bias_tokens[i]);
  }
  if (c.reserved0 != 0) return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.reserved0 must be 0.", name);
  if (const auto code =
          read_strings({name, "dry_breakers", c.dry_breakers, c.dry_breaker_count, kMostBreakers, kMostBreakerBytes},
                       out.dry_breakers)) {
    return code;
  }
  out.settings = {c.seed,
                  c.temperature,
                  c.top_p,
                  c.min_p,
                  c.typical_p,
                  c.repetition_penalty,
                  c.presence_penalty,
                  c.frequency_penalty,
                  c.dry_multiplier,
                  c.dry_base,
                  c.xtc_probability,
                  c.xtc_threshold,
                  c.mirostat_tau,
                  c.mirostat_eta,
                  c.top_k,
                  c.penalty_last_tokens,
                  c.dry_allowed_length,
                  c.dry_last_tokens,
                  c.mirostat};
  out.bias_tokens = {c.logit_bias_tokens, c.logit_bias_count};
  out.bias_values = {c.logit_bias_values, c.logit_bias_count};
  return BANTER_OK;
}

BANTER_GAME_THREAD banter_result read_request(const banter_request_config* config, uint32_t allowed_flags,
                                              engine::Submission& out) noexcept {
  banter_request_config c;
  banter_request_config_init(&c, sizeof c);
  if (config != nullptr) {
    if (const banter_result code = read_struct("banter_request_config", config, c)) return code;
  }
  if ((c.flags & ~allowed_flags) != 0) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_request_config.flags has bits (0x%x) that this call does not know.", c.flags & ~allowed_flags);
  }
  if (c.reserved0 != 0 || c.reserved1 != 0) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_request_config.reserved0 and reserved1 must be 0.");
  }
  if (c.priority != BANTER_PRIORITY_DEFAULT && (c.priority < 0 || c.priority > 7)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_request_config.priority is %d; give a value in [0, 7], or BANTER_PRIORITY_DEFAULT.",
                c.priority);
  }
  constexpr const char* kOwner = "banter_request_config";
  if (const auto code = read_strings({kOwner, "stop_strings", c.stop_strings, c.stop_string_count, kMostStopStrings},
                                     out.stop_strings)) {
    return code;
  }
  if (const auto code =
          read_strings({kOwner, "banned_strings", c.banned_strings, c.banned_string_count, kMostBannedStrings},
                       out.banned_strings)) {
    return code;
  }
  if (c.stop_token_count > kMostStopTokens || (c.stop_token_count > 0 && c.stop_tokens == nullptr)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_request_config.stop_tokens is NULL, or its count %u above %u.",
                c.stop_token_count, kMostStopTokens);
  }
  out.stop_tokens = {c.stop_tokens, c.stop_token_count};
  out.flags = c.flags;
  out.max_tokens = c.max_tokens;
  if (c.thinking < BANTER_THINKING_AUTO || c.thinking > BANTER_THINKING_ON) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_request_config.thinking is %d; give BANTER_THINKING_AUTO, _OFF or _ON.", c.thinking);
  }
  out.thinking = static_cast<dialogue::Thinking>(c.thinking);
  out.thinking_budget_tokens = c.thinking_budget_tokens;
  out.priority = c.priority;
  out.deadline_ms = c.deadline_ms;
  if (c.user_data != nullptr) out.user_data = c.user_data;
  return c.sampling != nullptr ? read_sampling_into(c.sampling, out) : BANTER_OK;
}

}  // namespace banter::api
