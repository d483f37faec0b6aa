// Template text to tokens, with Jinja2's white-space control (trim_blocks and lstrip_blocks on).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"

namespace banter::text::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, decoded string, or the operator's spelling
  int64_t integer = 0;
  double number = 0;
};

/** Appends the tokens of `source`, the last being kEnd. */
bool tokenize(std::string_view source, std::vector<Token>* tokens, SyntaxError* error);

}  // namespace banter::text::jinja
