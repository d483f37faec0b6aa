// Ranges of the sampling parameters.
#include <cmath>
#include <cstdio>
#include <limits>

#include "sampling/sampler.h"

namespace banter::sampling {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

Error out_of_range(const std::string& field, const std::string& value, const std::string& range) {
  std::string message = "sampling parameter ";
  message.append(field).append(" is ").append(value).append(", which is not in ").append(range);
  return {BANTER_ERROR_INVALID_ARGUMENT, message.append("; set it to a value of that range.")};
}

/** "[low, high)", with the brackets given. */
std::string interval(char open, const std::string& low, const std::string& high, char close) {
  std::string text(1, open);
  text.append(low).append(", ").append(high).push_back(close);
  return text;
}

struct FloatRange {
  const char* field;
  float value;
  double low, high;
  bool low_included, high_included;
  const char* note;
};

/** NaN is in no range. */
bool contains(const FloatRange& r) {
  const double v = r.value;
  return (r.low_included ? v >= r.low : v > r.low) && (r.high_included ? v <= r.high : v < r.high);
}

struct IntRange {
  const char* field;
  int64_t value, low, high;
  const char* note;
};

Result<void> check_numbers(const SamplingParams& p) {
  const FloatRange floats[] = {
      {"temperature", p.temperature, 0, 10, true, true, " (0 = greedy)"},
      {"top_p", p.top_p, 0, 1, false, true, " (1 = off)"},
      {"min_p", p.min_p, 0, 1, true, false, " (0 = off)"},
      {"typical_p", p.typical_p, 0, 1, false, true, " (1 = off)"},
      {"repetition_penalty", p.repetition_penalty, double{0.01f}, 10, true, true, " (1 = off)"},
      {"presence_penalty", p.presence_penalty, -10, 10, true, true, " (0 = off)"},
      {"frequency_penalty", p.frequency_penalty, -10, 10, true, true, " (0 = off)"},
      {"dry_multiplier", p.dry_multiplier, 0, 100, true, true, " (0 = off)"},
      {"dry_base", p.dry_base, 1, 10, true, true, ""},
      {"xtc_probability", p.xtc_probability, 0, 1, true, true, " (0 = off)"},
      {"xtc_threshold", p.xtc_threshold, 0, 1, true, true, ""},
      {"mirostat_tau", p.mirostat_tau, 0, 100, false, true, ""},
      {"mirostat_eta", p.mirostat_eta, 0, 1, false, true, ""},
  };
  for (const FloatRange& r : floats) {
    if (contains(r)) continue;
    const std::string range =
        interval(r.low_included ? '[' : '(', number(r.low), number(r.high), r.high_included ? ']' : ')');
    return out_of_range(r.field, number(r.value), range + r.note);
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const IntRange integers[] = {
      {"top_k", p.top_k, 0, kMax, " (0 = off)"},
      {"penalty_last_n", p.penalty_last_n, -1, kMax, " (0 = off, -1 = all)"},
      {"dry_allowed_length", p.dry_allowed_length, 1, kMax, ""},
      {"dry_last_n", p.dry_last_n, -1, kMax, " (0 = off, -1 = all)"},
  };
  for (const IntRange& r : integers) {
    if (r.value >= r.low && r.value <= r.high) continue;
    const std::string range = interval('[', std::to_string(r.low), std::to_string(r.high), ']');
    return out_of_range(r.field, std::to_string(r.value), range + r.note);
  }
  if (p.mirostat != 0 && p.mirostat != 2)
    return out_of_range("mirostat", std::to_string(p.mirostat), "{0, 2} (0 = off)");
  return {};
}

/** "field[index]rest" */
std::string item(const char* field, size_t index, const std::string& rest = {}) {
  std::string text = field;
  return text.append("[").append(std::to_string(index)).append("]").append(rest);
}

Result<void> check_lists(const SamplingParams& p, int32_t vocabulary_size) {
  const std::string ids = interval('[', "0", std::to_string(vocabulary_size - 1), ']') + " (the vocabulary)";
  for (size_t i = 0; i < p.logit_bias.size(); ++i) {
    const auto [token, bias] = p.logit_bias[i];
    if (token < 0 || token >= vocabulary_size)
      return out_of_range(item("logit_bias", i, ".token"), std::to_string(token), ids);
    if (std::isnan(bias) || bias > std::numeric_limits<float>::max())
      return out_of_range(item("logit_bias", i, ".bias"), number(bias), "[-inf, 3.4e38] (-inf bans the token)");
  }
  constexpr size_t kMaxBreakerTokens = 64;
  for (size_t i = 0; i < p.dry_breakers.size(); ++i) {
    const std::vector<TokenId>& breaker = p.dry_breakers[i];
    if (breaker.empty() || breaker.size() > kMaxBreakerTokens)
      return out_of_range(item("dry_breakers", i, ".length"), std::to_string(breaker.size()),
                          interval('[', "1", std::to_string(kMaxBreakerTokens), ']'));
    for (size_t j = 0; j < breaker.size(); ++j)
      if (breaker[j] < 0 || breaker[j] >= vocabulary_size)
        return out_of_range(item("dry_breakers", i, item("", j)), std::to_string(breaker[j]), ids);
  }
  return {};
}

}  // namespace

Result<void> validate(const SamplingParams& p, int32_t vocabulary_size) {
  if (vocabulary_size < 1) return out_of_range("vocabulary_size", std::to_string(vocabulary_size), "[1, 2147483647]");
  if (Result<void> numbers = check_numbers(p); !numbers) return numbers;
  return check_lists(p, vocabulary_size);
}

}  // namespace banter::sampling
