// Oniguruma's Ruby syntax, as far as tokenizer files use it, rewritten for PCRE2.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

namespace banter::text {
namespace {

constexpr int kMaxSetDepth = 8;

// PCRE2's own \s includes U+180E and its \w excludes marks; these follow Unicode, as Oniguruma does. Usable in sets.
constexpr std::string_view kWhiteSpace = R"(\p{White_Space})";
constexpr std::string_view kNotWhiteSpace = R"(\P{White_Space})";
constexpr std::string_view kWordItems = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    std::string out;
    out.reserve(in_.size() + 64);
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(out);
      } else if (c == '[') {
        ++at_;
        out += set(1);
      } else if (c == '(') {
        open_group(out);
      } else {
        out += c;
        ++at_;
      }
      if (!error_.message.empty()) return error_;
    }
    return out;
  }

 private:
  void fail(banter_result code, std::string what) {
    if (error_.message.empty()) error_ = {code, "The tokenizer's split pattern has " + std::move(what) + "."};
  }
  void unsupported(std::string what) {
    fail(BANTER_ERROR_UNSUPPORTED_TOKENIZER, std::move(what) + ", which is not supported");
  }
  bool at_end() const { return at_ >= in_.size(); }

  void open_group(std::string& out) {
    out += '(';
    ++at_;
    if (at_end()) return;
    if (in_[at_] == '*') return unsupported("a \"(*\" verb");
    if (in_[at_] != '?') return;
    // Ruby's m means what PCRE2 calls s, and its C, R and & do not exist: of flags only i and - are passed on.
    for (size_t i = at_ + 1; i < in_.size(); ++i) {
      const char c = in_[i];
      if (c == 'i' || c == '-') continue;
      const bool known = c == ':' || c == ')' || (i == at_ + 1 && (c == '=' || c == '!' || c == '<' || c == '>'));
      if (!known) unsupported(std::string("a \"(?") + c + "\" group");
      return;
    }
  }

  // An escape outside of sets.
  void escape(std::string& out) {
    if (at_ + 1 >= in_.size()) return fail(BANTER_ERROR_CORRUPT, "a single backslash at its end");
    const char c = in_[at_ + 1];
    switch (c) {
      case 'w':
        out.append("[").append(kWordItems).append("]");
        break;
      case 'W':
        out.append("[^").append(kWordItems).append("]");
        break;
      case 'h':
        out.append("[0-9A-Fa-f]");
        break;
      case 'H':
        out.append("[^0-9A-Fa-f]");
        break;
      default:
        return shared_escape(out);
    }
    at_ += 2;
  }

  // Escapes that mean the same inside and outside of sets. Leaves at_ behind the escape.
  void shared_escape(std::string& out) {
    if (at_ + 1 >= in_.size()) return fail(BANTER_ERROR_CORRUPT, "a single backslash at its end");
    const char c = in_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 's':
        out.append(kWhiteSpace);
        return;
      case 'S':
        out.append(kNotWhiteSpace);
        return;
      case 'd':
        out.append(R"(\p{Nd})");
        return;
      case 'D':
        out.append(R"(\P{Nd})");
        return;
      case 'u':
        return code_unit(out);
      case 'C':
      case 'K':
      case 'G':
      case 'g':
      case 'k':
      case 'Q':
      case 'E':
        return unsupported(std::string("a \\") + c);
      default:
        out.append({'\\', c});
    }
  }

  void code_unit(std::string& out) {
    const std::string_view digits = in_.substr(at_, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      return fail(BANTER_ERROR_CORRUPT, "a \\u without four hexadecimal digits");
    out.append("\\x{").append(digits).append("}");
    at_ += 4;
  }

  // A set, from behind its '[' to behind its ']', as an expression that matches one character.
  std::string set(int depth) {
    if (depth > kMaxSetDepth) {
      unsupported("sets nested too deeply");
      return {};
    }
    const bool negated = !at_end() && in_[at_] == '^';
    if (negated) ++at_;
    std::vector<std::string> terms;  // joined by &&
    while (error_.message.empty()) {
      bool last = false;
      terms.push_back(set_union(depth, last));
      if (last) break;
    }
    if (!error_.message.empty()) return {};
    std::string positive;
    for (size_t i = 0; i + 1 < terms.size(); ++i) positive.append("(?=").append(terms[i]).append(")");
    positive.append(terms.back());
    const bool plain = terms.size() == 1 && positive.size() > 1 && positive.front() == '[' && positive[1] != '^';
    if (!negated) return terms.size() == 1 ? positive : "(?:" + positive + ")";
    if (plain) return "[^" + positive.substr(1);
    return "(?:(?!" + positive + ")[\\x{0}-\\x{10FFFF}])";
  }

  // Items up to && or the closing bracket. `last`: it was the bracket.
  std::string set_union(int depth, bool& last) {
    std::string items;                // plain ones
    std::vector<std::string> nested;  // sets that are not a plain list
    bool any = false;
    while (error_.message.empty()) {
      if (at_end()) {
        fail(BANTER_ERROR_CORRUPT, "a set without its closing bracket");
        return {};
      }
      const char c = in_[at_];
      if (c == ']' && any) {
        ++at_;
        last = true;
        break;
      }
      if (c == '&' && in_.substr(at_, 2) == "&&") {
        at_ += 2;
        break;
      }
      any = true;
      set_item(depth, items, nested);
    }
    std::string result = items.empty() ? "" : "[" + items + "]";
    if (nested.empty() && !result.empty()) return result;
    for (const std::string& one : nested) result.append(result.empty() ? "" : "|").append(one);
    if (result.empty()) fail(BANTER_ERROR_CORRUPT, "an empty set");
    return nested.size() == 1 && items.empty() ? result : "(?:" + result + ")";
  }

  void set_item(int depth, std::string& items, std::vector<std::string>& nested) {
    const char c = in_[at_];
    if (c == '[') {
      if (at_ + 1 < in_.size() && in_[at_ + 1] == ':') {
        const size_t end = in_.find(":]", at_ + 2);
        if (end == std::string_view::npos) return fail(BANTER_ERROR_CORRUPT, "an unfinished POSIX class");
        items.append(in_.substr(at_, end + 2 - at_));
        at_ = end + 2;
        return;
      }
      ++at_;
      const std::string inner = set(depth + 1);
      if (inner.size() > 2 && inner.front() == '[' && inner[1] != '^') {
        items.append(inner, 1, inner.size() - 2);
      } else if (!inner.empty()) {
        nested.push_back(inner);
      }
      return;
    }
    if (c == '\\') {
      const char next = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
      if (next == 'w') {
        items.append(kWordItems);
        at_ += 2;
      } else if (next == 'W') {
        nested.push_back("[^" + std::string(kWordItems) + "]");
        at_ += 2;
      } else if (next == 'h') {
        items.append("0-9A-Fa-f");
        at_ += 2;
      } else {
        shared_escape(items);
      }
      return;
    }
    // A bracket as the first item, and a caret that begins the list after a nested set, stand for themselves.
    if (c == ']' || c == '^') items += '\\';
    items += c;
    ++at_;
  }

  std::string_view in_;
  size_t at_ = 0;
  Error error_{BANTER_OK, {}};
};

}  // namespace

Result<std::string> pattern_for_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace banter::text
