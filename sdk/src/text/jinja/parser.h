// Recursive descent over the token list; statements and expressions live in two source files.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/lexer.h"

namespace banter::text::jinja {

/** Parses one token list into a Program. Every function returns false after the first error. */
class Parser {
 public:
  Parser(std::vector<Token> tokens, Program* program, SyntaxError* error)
      : tokens_(std::move(tokens)), program_(program), error_(error) {}
  bool run();

 private:
  /** Counts nesting for as long as it lives. */
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nesting() { --parser_.depth_; }
    bool ok() const { return parser_.depth_ <= kMaxParseDepth || parser_.fail("the template is nested too deeply"); }

   private:
    Parser& parser_;
  };

  // Tokens.
  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  void advance() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool at_operator(std::string_view op) const { return current().kind == TokenKind::kOperator && current().text == op; }
  bool at_name(std::string_view name) const { return current().kind == TokenKind::kName && current().text == name; }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  bool expect_operator(std::string_view op);
  bool expect_name(std::string* name);
  bool expect(TokenKind kind);
  std::string describe_current() const;
  bool fail(std::string message, int line = 0);
  int symbol(const std::string& name);

  // Statements (parser.cpp).
  bool parse_block(Block* body, std::initializer_list<std::string_view> ends, std::string* end, bool whole = false);
  bool parse_body(Block* body, std::string_view end);
  bool parse_statement(Block* body);
  bool parse_for(Stmt* stmt);
  bool parse_if(Stmt* stmt);
  bool parse_set(Stmt* stmt);
  bool parse_with(Stmt* stmt);
  bool parse_macro(Stmt* stmt);
  bool parse_call_block(Stmt* stmt);
  bool parse_filter_block(Stmt* stmt);
  bool parse_signature(Stmt* stmt);
  bool parse_function_body(Stmt* stmt, std::string_view end);
  bool parse_name_target(Target* target);
  bool parse_target(Target* target, bool with_namespace);
  bool parse_target_primary(Target* target);

  // Expressions (parser_expressions.cpp).
  bool parse_tuple(ExprPtr* out, bool conditional, bool parentheses, std::string_view end_name = {});
  bool parse_expression(ExprPtr* out, bool conditional = true);
  bool parse_or(ExprPtr* out);
  bool parse_and(ExprPtr* out);
  bool parse_not(ExprPtr* out);
  bool parse_compare(ExprPtr* out);
  bool parse_sum(ExprPtr* out);
  bool parse_concat(ExprPtr* out);
  bool parse_product(ExprPtr* out);
  bool parse_power(ExprPtr* out);
  bool parse_unary(ExprPtr* out, bool with_filter = true);
  bool parse_primary(ExprPtr* out);
  bool parse_name(ExprPtr* out);
  bool parse_string(ExprPtr* out);
  bool parse_list(ExprPtr* out);
  bool parse_dict(ExprPtr* out);
  bool parse_postfix(ExprPtr* out);
  bool parse_filters(ExprPtr* out);
  bool parse_filter(ExprPtr* out);
  bool parse_test(ExprPtr* out);
  bool parse_dotted_name(std::string* name);
  bool parse_subscript(Postfix* step);
  bool parse_subscribed(ExprPtr* key, Postfix* slice, bool* is_slice);
  bool parse_arguments(std::vector<CallArgument>* arguments);
  ExprPtr make(Expr::What what) const;
  /** Appends a step to *out, making it a kPostfix where it is none. */
  Postfix* add_step(ExprPtr* out, Postfix::What what);

  std::vector<Token> tokens_;
  Program* program_;
  SyntaxError* error_;
  std::unordered_map<std::string, int> symbols_;
  std::vector<Stmt*> functions_;  // macros and call blocks around the current position
  size_t position_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // `for` bodies around the current position, within the innermost function
  bool failed_ = false;
};

}  // namespace banter::text::jinja
