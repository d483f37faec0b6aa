#include "text/jinja/lexer.h"

#include <charconv>
#include <system_error>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

/** \r\n and \r become \n, ill-formed UTF-8 becomes U+FFFD, and one line end at the very end goes. */
std::string normalize(std::string_view source) {
  std::string text = sanitize_utf8(source);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out.push_back(text[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::vector<Token>* tokens, SyntaxError* error)
      : text_(normalize(source)), tokens_(tokens), error_(error) {}

  bool run() {
    while (position_ < text_.size()) {
      if (!root()) return false;
    }
    emit(TokenKind::kEnd);
    return true;
  }

 private:
  bool fail(std::string message) {
    *error_ = {line_at(position_), std::move(message)};
    return false;
  }

  int line_at(size_t offset) {
    for (; line_offset_ < offset; ++line_offset_) line_ += text_[line_offset_] == '\n';
    return line_;
  }

  Token& emit(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_at(position_);
    token.text = std::move(text);
    tokens_->push_back(std::move(token));
    return tokens_->back();
  }

  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  bool at(std::string_view what) const { return std::string_view(text_).substr(position_, what.size()) == what; }

  /** End of the white space that starts at `offset`. */
  size_t skip_space(size_t offset) const {
    while (offset < text_.size()) {
      size_t next = offset;
      if (!is_space(next_code_point(text_, &next))) break;
      offset = next;
    }
    return offset;
  }

  bool root();
  void data_before(size_t end, char sign, bool variable);
  bool comment();
  bool raw(size_t content);
  size_t raw_tag(size_t begin, std::string_view word, char* begin_sign, bool end_of_raw) const;
  bool tag(bool variable);
  bool end_of_tag(bool variable);
  bool token();
  bool number();
  bool string();
  bool escape(std::string_view body, size_t* i, std::string* out);
  bool operation();

  std::string text_;
  std::vector<Token>* tokens_;
  SyntaxError* error_;
  size_t position_ = 0;
  size_t line_offset_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag or comment ended with a line end
  std::string brackets_;       // closing brackets that are still due
};

/** Emits the data in [position_, end) before a tag that starts there, as far as white-space control leaves it. */
void Lexer::data_before(size_t end, char sign, bool variable) {
  size_t stop = end;
  if (sign == '-') {
    while (stop > position_) {
      size_t start = previous_offset(text_, stop), next = start;
      if (start < position_ || !is_space(next_code_point(text_, &next))) break;
      stop = start;
    }
  } else if (sign != '+' && !variable) {
    size_t line = end;
    while (line > position_ && text_[line - 1] != '\n') --line;
    if ((line > position_ || line_starting_) && skip_space(line) >= end) stop = line;
  }
  if (stop > position_) emit(TokenKind::kData, text_.substr(position_, stop - position_));
}

bool Lexer::root() {
  size_t begin = position_;
  while (true) {
    begin = text_.find('{', begin);
    if (begin == std::string::npos || begin + 1 >= text_.size()) {
      emit(TokenKind::kData, text_.substr(position_));
      position_ = text_.size();
      return true;
    }
    const char next = text_[begin + 1];
    if (next == '{' || next == '%' || next == '#') break;
    ++begin;
  }
  char raw_sign = 0;
  const size_t raw_content = text_[begin + 1] == '%' ? raw_tag(begin, "raw", &raw_sign, false) : kEnd;
  const char after = begin + 2 < text_.size() ? text_[begin + 2] : '\0';
  const bool variable = text_[begin + 1] == '{', comment_tag = text_[begin + 1] == '#';
  const char sign = raw_content != kEnd ? raw_sign : (after == '-' || after == '+') ? after : '\0';
  data_before(begin, sign, variable);
  position_ = begin;
  if (raw_content != kEnd) return raw(raw_content);
  const size_t content = begin + (sign == '\0' ? 2 : 3);
  if (comment_tag) {
    position_ = content;
    return comment();
  }
  emit(variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
  position_ = content;
  return tag(variable);
}

bool Lexer::comment() {
  const size_t end = text_.find("#}", position_);
  if (end == std::string::npos) return fail("a comment is not closed with #}");
  const char sign = end > position_ ? text_[end - 1] : '\0';
  const size_t content = position_;
  position_ = end + 2;
  if (sign == '-') {
    position_ = skip_space(position_);
  } else if (sign != '+' && peek() == '\n') {
    ++position_;
  }
  line_starting_ = position_ > content && text_[position_ - 1] == '\n';
  return true;
}

/** End of the tag `{% word %}` at `begin`, or kEnd where there is another tag. */
size_t Lexer::raw_tag(size_t begin, std::string_view word, char* begin_sign, bool end_of_raw) const {
  size_t i = begin + 2;
  *begin_sign = '\0';
  if (i < text_.size() && (text_[i] == '-' || text_[i] == '+')) *begin_sign = text_[i++];
  i = skip_space(i);
  if (std::string_view(text_).substr(i, word.size()) != word) return kEnd;
  i = skip_space(i + word.size());
  const auto rest = std::string_view(text_).substr(i);
  if (rest.substr(0, 3) == "-%}") return skip_space(i + 3);
  if (end_of_raw && rest.substr(0, 3) == "+%}") return i + 3;
  if (rest.substr(0, 2) != "%}") return kEnd;
  i += 2;
  return end_of_raw && i < text_.size() && text_[i] == '\n' ? i + 1 : i;
}

bool Lexer::raw(size_t content) {
  position_ = content;
  line_starting_ = text_[content - 1] == '\n';
  for (size_t begin = content; (begin = text_.find("{%", begin)) != std::string::npos; ++begin) {
    char sign = 0;
    const size_t end = raw_tag(begin, "endraw", &sign, true);
    if (end == kEnd) continue;
    data_before(begin, sign, false);
    position_ = end;
    line_starting_ = text_[end - 1] == '\n';
    return true;
  }
  return fail("a raw block is not closed with endraw");
}

bool Lexer::end_of_tag(bool variable) {
  const std::string_view close = variable ? "}}" : "%}";
  size_t end = position_;
  if (peek() == '-' && std::string_view(text_).substr(position_ + 1, 2) == close) {
    end = skip_space(position_ + 3);
  } else if (!variable && peek() == '+' && std::string_view(text_).substr(position_ + 1, 2) == close) {
    end = position_ + 3;
  } else if (at(close)) {
    end = position_ + 2;
    if (!variable && end < text_.size() && text_[end] == '\n') ++end;
  } else {
    return false;
  }
  emit(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
  position_ = end;
  line_starting_ = text_[end - 1] == '\n';
  return true;
}

bool Lexer::tag(bool variable) {
  brackets_.clear();
  while (position_ < text_.size()) {
    if (brackets_.empty() && end_of_tag(variable)) return true;
    const size_t next = skip_space(position_);
    if (next != position_) {
      position_ = next;
      continue;
    }
    if (!token()) return false;
  }
  return true;  // the parser reports the missing end
}

bool Lexer::token() {
  const char c = peek();
  if (is_digit(c)) return number();
  if (c == '"' || c == '\'') return string();
  if (is_name_byte(c)) {
    size_t end = position_;
    while (end < text_.size() && is_name_byte(text_[end])) ++end;
    emit(TokenKind::kName, text_.substr(position_, end - position_));
    position_ = end;
    return true;
  }
  return operation();
}

bool Lexer::number() {
  const size_t begin = position_;
  // Digits with single underscores between them.
  const auto digits = [&](size_t i, int base) {
    while (i < text_.size() &&
           (digit_value(text_[i]) < base || (text_[i] == '_' && i > 0 && digit_value(text_[i - 1]) < base &&
                                             i + 1 < text_.size() && digit_value(text_[i + 1]) < base))) {
      ++i;
    }
    return i;
  };
  std::string clean;
  int base = 10;
  size_t end = begin;
  const char prefix = static_cast<char>(peek(1) | 0x20);
  if (peek() == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
    const int wanted = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
    const size_t first = peek(2) == '_' ? begin + 3 : begin + 2;
    if (first < text_.size() && digit_value(text_[first]) < wanted) {
      base = wanted;
      end = digits(first, base);
    }
  }
  bool is_float = false;
  if (base == 10) {
    end = digits(begin, 10);
    const bool after_dot = begin > 0 && text_[begin - 1] == '.';
    size_t i = end;
    if (!after_dot && i + 1 < text_.size() && text_[i] == '.' && is_digit(text_[i + 1])) {
      i = digits(i + 1, 10);
      is_float = true;
      end = i;
    }
    if (!after_dot && i < text_.size() && (text_[i] | 0x20) == 'e') {
      size_t exponent = i + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        end = digits(exponent, 10);
        is_float = true;
      }
    }
    if (!is_float && text_[begin] == '0') {  // 0 stands alone: 007 are three numbers
      for (size_t k = begin; k < end; ++k) {
        if (text_[k] != '0' && text_[k] != '_') {
          end = k;
          break;
        }
      }
    }
  }
  const size_t first = base == 10 ? begin : begin + 2;
  for (size_t i = first; i < end; ++i) {
    if (text_[i] != '_') clean.push_back(text_[i]);
  }
  Token& token = emit(is_float ? TokenKind::kFloat : TokenKind::kInteger);
  const char* stop = clean.data() + clean.size();
  if (is_float) {
    parse_float(clean, &token.number);
  } else if (std::from_chars(clean.data(), stop, token.integer, base).ec == std::errc::result_out_of_range) {
    return fail("a number exceeds 64 bits");
  }
  position_ = end;
  return true;
}

bool Lexer::string() {
  const char quote = peek();
  size_t end = position_ + 1;
  while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) return fail("a string is not closed");
  const std::string_view body = std::string_view(text_).substr(position_ + 1, end - position_ - 1);
  std::string decoded;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      decoded.push_back(body[i++]);
    } else if (!escape(body, &i, &decoded)) {
      return false;
    }
  }
  emit(TokenKind::kString, std::move(decoded));
  position_ = end + 1;
  return true;
}

bool Lexer::escape(std::string_view body, size_t* i, std::string* out) {
  const char c = body[*i + 1];  // a string never ends in an open escape
  *i += 2;
  const auto number_escape = [&](size_t digits) {
    uint32_t value = 0;
    for (size_t k = 0; k < digits; ++k, ++*i) {
      if (*i >= body.size() || digit_value(body[*i]) > 15) return fail("a string has a truncated escape sequence");
      value = value * 16 + static_cast<uint32_t>(digit_value(body[*i]));
    }
    if (value > 0x10FFFF) return fail("a string has an escape sequence beyond U+10FFFF");
    append_utf8(out, value);
    return true;
  };
  constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
  const size_t simple = kFrom.find(c);
  if (simple != std::string_view::npos) {
    out->push_back(kTo[simple]);
  } else if (c == '\n') {
    // a line that continues
  } else if (c == 'x') {
    return number_escape(2);
  } else if (c == 'u') {
    return number_escape(4);
  } else if (c == 'U') {
    return number_escape(8);
  } else if (c == 'N') {
    return fail("\\N{…} escapes are not supported");
  } else if (c >= '0' && c <= '7') {
    uint32_t value = static_cast<uint32_t>(c - '0');
    for (int k = 0; k < 2 && *i < body.size() && body[*i] >= '0' && body[*i] <= '7'; ++k, ++*i) {
      value = value * 8 + static_cast<uint32_t>(body[*i] - '0');
    }
    append_utf8(out, value);
  } else {
    out->push_back('\\');
    out->push_back(c);
  }
  return true;
}

bool Lexer::operation() {
  constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                             "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  for (const std::string_view op : kOperators) {
    if (!at(op)) continue;
    const char c = op[0];
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) return fail(std::string("unexpected '") + c + "'");
      if (brackets_.back() != c)
        return fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      brackets_.pop_back();
    }
    emit(TokenKind::kOperator, std::string(op));
    position_ += op.size();
    return true;
  }
  size_t next = position_;
  next_code_point(text_, &next);
  return fail("unexpected character '" + text_.substr(position_, next - position_) + "'");
}

}  // namespace

bool tokenize(std::string_view source, std::vector<Token>* tokens, SyntaxError* error) {
  return Lexer(source, tokens, error).run();
}

}  // namespace banter::text::jinja
