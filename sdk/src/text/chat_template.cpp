#include "text/chat_template.h"

#include <algorithm>
#include <ctime>

#include "text/jinja/interpreter.h"

namespace banter::text {

namespace {

using jinja::Interpreter;
using jinja::Kind;
using jinja::Program;
using jinja::Runtime;
using jinja::Value;

constexpr size_t kMaxSource = size_t{512} << 10;  // the largest known ones have 30 KiB
constexpr uint64_t kWork = 10'000'000;  // about a second on a slow core; real conversations need some ten thousand
constexpr size_t kLive = size_t{64} << 20;
constexpr size_t kText = size_t{16} << 20;

/** Names that a role may have for its letters to count as the template's: some templates spell control tokens with the
 *  role inside ("<|user|>"), and these words alone cannot spell any other. */
bool is_known_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {"system",   "user",          "assistant",    "tool",   "developer",
                                         "function", "ipython",       "model",        "critic", "observation",
                                         "context",  "tool_response", "tool_results", "human",  "environment"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

/** Bytes that a value roughly takes, for the render's limits; depth is bounded as the conversion's is. */
size_t size_of(const Json& json, int depth) {
  size_t size = sizeof(Value);
  if (json.is_string()) return size + json.get_ref<const std::string&>().size();
  if (depth > jinja::kMaxValueDepth) return size;
  if (json.is_array()) {
    for (const Json& item : json) size += size_of(item, depth + 1);
  } else if (json.is_object()) {
    for (const auto& [key, item] : json.items()) size += 2 * sizeof(Value) + key.size() + size_of(item, depth + 1);
  }
  return size;
}

/** Outside data as values that are trusted nowhere. */
bool convert(Runtime& rt, const Json& json, Value* out, int depth) {
  if (depth > jinja::kMaxValueDepth) return rt.fail("the input is nested too deeply");
  if (!rt.charge(1)) return false;
  switch (json.type()) {
    case Json::value_t::boolean:
      *out = Value::of_bool(json.get<bool>(), false);
      return true;
    case Json::value_t::number_integer:
      *out = Value::of_int(json.get<int64_t>(), false);
      return true;
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      *out = number <= INT64_MAX ? Value::of_int(static_cast<int64_t>(number), false)
                                 : Value::of_float(static_cast<double>(number), false);
      return true;
    }
    case Json::value_t::number_float:
      *out = Value::of_float(json.get<double>(), false);
      return true;
    case Json::value_t::string:
      *out = rt.text(jinja::sanitize_utf8(json.get_ref<const std::string&>()), false);
      return rt.check();
    case Json::value_t::array: {
      std::vector<Value> items(json.size());
      for (size_t i = 0; i < items.size(); ++i) {
        if (!convert(rt, json[i], &items[i], depth + 1)) return false;
      }
      *out = rt.make_list(std::move(items));
      out->as<jinja::ListObject>()->trusted = false;
      return rt.check();
    }
    case Json::value_t::object: {
      auto* dict = rt.make<jinja::DictObject>();
      dict->trusted = false;
      for (const auto& [key, item] : json.items()) {
        Value value;
        if (!convert(rt, item, &value, depth + 1) ||
            !dict->set(rt, rt.text(jinja::sanitize_utf8(key), false), std::move(value))) {
          return false;
        }
      }
      *out = Value::of_object(Kind::kDict, dict);
      return rt.check();
    }
    default:
      *out = Value::none(false);
      return true;
  }
}

/** Conversation turns: as other data, but a known role is trusted. */
bool convert_messages(Runtime& rt, const Json& json, Value* out) {
  if (!convert(rt, json, out, 0)) return false;
  if (!out->is(Kind::kList)) return true;
  const Value role = rt.text("role");
  for (Value& message : out->as<jinja::ListObject>()->items) {
    if (!message.is(Kind::kDict)) continue;
    Value* found = nullptr;
    if (!message.as<jinja::DictObject>()->find(rt, role, &found)) return false;
    if (found != nullptr && found->is(Kind::kString) && is_known_role(found->bytes())) *found = rt.text(found->bytes());
  }
  return rt.check();
}

bool convert_turns(Runtime& rt, const std::vector<ChatTurn>& turns, Value* out) {
  std::vector<Value> items(turns.size());
  for (size_t i = 0; i < turns.size(); ++i) {
    if (!rt.charge(1)) return false;
    auto* dict = rt.make<jinja::DictObject>();
    dict->trusted = false;
    Value role = rt.text(jinja::sanitize_utf8(turns[i].role), is_known_role(turns[i].role));
    Value content = rt.text(jinja::sanitize_utf8(turns[i].content), false);
    if (!dict->set(rt, rt.text("role", false), std::move(role)) ||
        !dict->set(rt, rt.text("content", false), std::move(content))) {
      return false;
    }
    items[i] = Value::of_object(Kind::kDict, dict);
  }
  *out = rt.make_list(std::move(items));
  out->as<jinja::ListObject>()->trusted = false;
  return rt.check();
}

size_t size_of(const std::vector<ChatTurn>& turns) {
  size_t size = 0;
  for (const ChatTurn& turn : turns) size += 5 * sizeof(Value) + turn.role.size() + turn.content.size();
  return size;
}

/** Local time, as seconds since 1970-01-01 00:00 of the local calendar. */
int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{}, utc{};
#ifdef _WIN32
  localtime_s(&local, &now);
  gmtime_s(&utc, &now);
#else
  localtime_r(&now, &local);
  gmtime_r(&now, &utc);
#endif
  int days = local.tm_yday - utc.tm_yday;
  if (local.tm_year != utc.tm_year) days = local.tm_year > utc.tm_year ? 1 : -1;
  return static_cast<int64_t>(now) + days * 86400 + (local.tm_hour - utc.tm_hour) * 3600 +
         (local.tm_min - utc.tm_min) * 60;
}

std::vector<Segment> to_segments(std::string bytes, bool trusted, const std::vector<size_t>& flips) {
  std::vector<Segment> segments;
  size_t begin = 0;
  for (size_t i = 0; i <= flips.size(); ++i, trusted = !trusted) {
    const size_t end = i < flips.size() ? flips[i] : bytes.size();
    if (end > begin) segments.push_back({bytes.substr(begin, end - begin), trusted});
    begin = end;
  }
  return segments;
}

class ParsedTemplate final : public ChatTemplate {
 public:
  explicit ParsedTemplate(size_t source_size) : source_size_(source_size) {}
  Program program;

  Result<std::vector<Segment>> render(const TemplateInput& input) const override {
    const size_t size = size_of(input.turns) + size_of(input.messages, 0) + size_of(input.extra, 0) + source_size_;
    Runtime rt(input.max_steps != 0 ? input.max_steps : kWork + size, kLive + 16 * size, kText + 4 * size,
               input.now_unix_seconds != 0 ? input.now_unix_seconds : local_now());
    Interpreter interpreter(program, rt);
    jinja::TextBuilder out(rt.budget);
    if (!define_variables(input, rt, interpreter) || !interpreter.run(out)) return failure(rt);
    std::string bytes;
    bool trusted = false;
    std::vector<size_t> flips;
    out.take(&bytes, &trusted, &flips);
    return to_segments(std::move(bytes), trusted, flips);
  }

 private:
  static Error failure(const Runtime& rt) {
    if (rt.raised()) return {BANTER_ERROR_TEMPLATE, rt.message()};
    return {BANTER_ERROR_TEMPLATE,
            "The chat template failed in line " + std::to_string(rt.error_line()) + ": " + rt.message()};
  }

  /** Sets those of the input's variables that the template mentions. */
  bool define_variables(const TemplateInput& input, Runtime& rt, Interpreter& interpreter) const {
    const auto symbol = [&](const char* name) { return program.find_symbol(name); };
    // transformers always passes these two.
    interpreter.define(symbol("tools"), Value::none());
    interpreter.define(symbol("documents"), Value::none());
    if (input.has_bos) interpreter.define(symbol("bos_token"), rt.text(jinja::sanitize_utf8(input.bos_token)));
    if (input.has_eos) interpreter.define(symbol("eos_token"), rt.text(jinja::sanitize_utf8(input.eos_token)));
    for (const auto& [name, value] : input.switches) interpreter.define(symbol(name.c_str()), Value::of_bool(value));
    if (input.extra.is_object()) {
      for (const auto& [name, json] : input.extra.items()) {
        Value value;
        const int at = program.find_symbol(name);
        if (at < 0) continue;
        if (!convert(rt, json, &value, 0)) return false;
        interpreter.define(at, std::move(value));
      }
    }
    interpreter.define(symbol("add_generation_prompt"), Value::of_bool(input.add_generation_prompt));
    if (symbol("messages") < 0) return rt.check();
    Value messages;
    const bool converted = input.turns.empty() ? convert_messages(rt, input.messages, &messages)
                                               : convert_turns(rt, input.turns, &messages);
    if (!converted) return false;
    interpreter.define(symbol("messages"), std::move(messages));
    return rt.check();
  }

  size_t source_size_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    return Error{BANTER_ERROR_TEMPLATE, "The chat template is larger than 512 KiB, which no real one is."};
  }
  auto parsed = std::make_unique<ParsedTemplate>(source.size());
  jinja::SyntaxError error;
  if (!jinja::parse_program(source, &parsed->program, &error)) {
    return Error{BANTER_ERROR_TEMPLATE,
                 "The chat template cannot be parsed: line " + std::to_string(error.line) + ": " + error.message};
  }
  return std::unique_ptr<ChatTemplate>(std::move(parsed));
}

std::string join(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) text += segment.text;
  return text;
}

}  // namespace banter::text
