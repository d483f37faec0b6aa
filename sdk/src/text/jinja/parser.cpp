#include "text/jinja/parser.h"

namespace banter::text::jinja {

bool Parser::fail(std::string message, int line) {
  if (!failed_) {
    failed_ = true;
    *error_ = {line > 0 ? line : current().line, std::move(message)};
  }
  return false;
}

std::string Parser::describe_current() const {
  switch (current().kind) {
    case TokenKind::kData:
      return "template text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "a number";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + current().text.substr(0, 64) + "'";
  }
}

bool Parser::skip_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  advance();
  return true;
}

bool Parser::expect_operator(std::string_view op) {
  return skip_operator(op) || fail("expected '" + std::string(op) + "', got " + describe_current());
}

bool Parser::expect_name(std::string* name) {
  if (current().kind != TokenKind::kName) return fail("expected a name, got " + describe_current());
  *name = current().text;
  advance();
  return true;
}

bool Parser::expect(TokenKind kind) {
  if (current().kind != kind) {
    return fail(std::string("expected '") + (kind == TokenKind::kVariableEnd ? "}}" : "%}") + "', got " +
                describe_current());
  }
  advance();
  return true;
}

int Parser::symbol(const std::string& name) {
  const auto [entry, added] = symbols_.emplace(name, static_cast<int>(program_->symbols.size()));
  if (added) program_->symbols.push_back(name);
  return entry->second;
}

bool Parser::run() {
  program_->loop_symbol = symbol("loop");
  program_->caller_symbol = symbol("caller");
  program_->varargs_symbol = symbol("varargs");
  program_->kwargs_symbol = symbol("kwargs");
  return parse_block(&program_->body, {}, nullptr, true);
}

/** Statements up to a tag that starts with one of `ends` (left behind its name), or to the end of the template. */
bool Parser::parse_block(Block* body, std::initializer_list<std::string_view> ends, std::string* end, bool whole) {
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  while (true) {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::kEnd: {
        if (whole) return true;
        std::string names;
        for (const auto name : ends) names += (names.empty() ? "" : " or ") + std::string(name);
        return fail("the template ends where " + names + " was expected");
      }
      case TokenKind::kData: {
        auto stmt = std::make_unique<Stmt>();
        stmt->what = Stmt::What::kText;
        stmt->line = token.line;
        stmt->text = std::make_shared<const Text>(token.text, true, std::vector<size_t>(), false, nullptr);
        body->push_back(std::move(stmt));
        advance();
        break;
      }
      case TokenKind::kVariableBegin: {
        auto stmt = std::make_unique<Stmt>();
        stmt->what = Stmt::What::kOutput;
        stmt->line = token.line;
        advance();
        if (!parse_tuple(&stmt->value, true, false) || !expect(TokenKind::kVariableEnd)) return false;
        body->push_back(std::move(stmt));
        break;
      }
      case TokenKind::kBlockBegin: {
        advance();
        for (const auto name : ends) {
          if (!at_name(name)) continue;
          *end = std::string(name);
          advance();
          return true;
        }
        if (!parse_statement(body) || !expect(TokenKind::kBlockEnd)) return false;
        break;
      }
      default:
        return fail("unexpected " + describe_current());
    }
  }
}

/** The rest of an opening tag, statements, and the name of the closing tag. */
bool Parser::parse_body(Block* body, std::string_view end) {
  std::string found;
  return expect(TokenKind::kBlockEnd) && parse_block(body, {end}, &found);
}

bool Parser::parse_statement(Block* body) {
  auto stmt = std::make_unique<Stmt>();
  stmt->line = current().line;
  std::string tag;
  if (!expect_name(&tag)) return false;
  bool ok = false;
  if (tag == "for") {
    ok = parse_for(stmt.get());
  } else if (tag == "if") {
    ok = parse_if(stmt.get());
  } else if (tag == "set") {
    ok = parse_set(stmt.get());
  } else if (tag == "macro") {
    ok = parse_macro(stmt.get());
  } else if (tag == "call") {
    ok = parse_call_block(stmt.get());
  } else if (tag == "filter") {
    ok = parse_filter_block(stmt.get());
  } else if (tag == "with") {
    ok = parse_with(stmt.get());
  } else if (tag == "generation") {
    stmt->what = Stmt::What::kScope;
    ok = parse_function_body(stmt.get(), "endgeneration");
  } else if (tag == "block") {  // nothing can override it here, so it stands for its body
    stmt->what = Stmt::What::kScope;
    ok = expect_name(&stmt->name) && (skip_name("scoped"), skip_name("required"), true) &&
         parse_body(&stmt->body, "endblock") && (skip_name(stmt->name), true);
  } else if (tag == "print") {
    stmt->what = Stmt::What::kOutput;
    ok = parse_tuple(&stmt->value, true, false);
  } else if (tag == "break" || tag == "continue") {
    stmt->what = tag == "break" ? Stmt::What::kBreak : Stmt::What::kContinue;
    ok = loops_ > 0 || fail("'" + tag + "' outside of a loop", stmt->line);
  } else {
    return fail("unknown tag '" + tag.substr(0, 64) + "'", stmt->line);
  }
  if (ok) body->push_back(std::move(stmt));
  return ok;
}

bool Parser::parse_for(Stmt* stmt) {
  stmt->what = Stmt::What::kFor;
  if (!parse_target(&stmt->target, false)) return false;
  if (!skip_name("in")) return fail("expected 'in', got " + describe_current());
  if (!parse_tuple(&stmt->value, false, false, "recursive")) return false;
  if (skip_name("if") && !parse_expression(&stmt->condition)) return false;
  stmt->recursive = skip_name("recursive");
  std::string end;
  if (!expect(TokenKind::kBlockEnd)) return false;
  ++loops_;
  const bool parsed = parse_block(&stmt->body, {"endfor", "else"}, &end);
  --loops_;
  return parsed && (end == "endfor" || parse_body(&stmt->otherwise, "endfor"));
}

bool Parser::parse_if(Stmt* stmt) {
  stmt->what = Stmt::What::kIf;
  while (true) {
    Stmt::Branch branch;
    std::string end;
    if (!parse_tuple(&branch.condition, false, false) || !expect(TokenKind::kBlockEnd) ||
        !parse_block(&branch.body, {"elif", "else", "endif"}, &end)) {
      return false;
    }
    stmt->branches.push_back(std::move(branch));
    if (end == "elif") continue;
    if (end == "endif") return true;
    Stmt::Branch otherwise;
    if (!parse_body(&otherwise.body, "endif")) return false;
    stmt->branches.push_back(std::move(otherwise));
    return true;
  }
}

bool Parser::parse_set(Stmt* stmt) {
  if (!parse_target(&stmt->target, true)) return false;
  if (skip_operator("=")) {
    stmt->what = Stmt::What::kSet;
    return parse_tuple(&stmt->value, true, false);
  }
  stmt->what = Stmt::What::kSetBlock;
  if (at_operator("|")) {
    stmt->value = make(Expr::What::kConstant);
    while (skip_operator("|")) {
      if (!parse_filter(&stmt->value)) return false;
    }
  }
  return parse_body(&stmt->body, "endset");
}

bool Parser::parse_with(Stmt* stmt) {
  stmt->what = Stmt::What::kWith;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->assignments.empty() && !expect_operator(",")) return false;
    Target target;
    ExprPtr value;
    if (!parse_target(&target, false) || !expect_operator("=") || !parse_expression(&value)) return false;
    stmt->assignments.emplace_back(std::move(target), std::move(value));
  }
  return parse_body(&stmt->body, "endwith");
}

bool Parser::parse_signature(Stmt* stmt) {
  if (!expect_operator("(")) return false;
  while (!at_operator(")")) {
    if (!stmt->parameters.empty() && !expect_operator(",")) return false;
    Parameter parameter;
    if (!expect_name(&parameter.name)) return false;
    parameter.symbol = symbol(parameter.name);
    for (const Parameter& other : stmt->parameters) {
      if (other.symbol == parameter.symbol) return fail("two parameters are named '" + parameter.name + "'");
    }
    if (skip_operator("=")) {
      if (!parse_expression(&parameter.fallback)) return false;
    } else if (!stmt->parameters.empty() && stmt->parameters.back().fallback != nullptr) {
      return fail("a parameter without default follows one with default");
    }
    stmt->parameters.push_back(std::move(parameter));
  }
  return expect_operator(")");
}

/** A body that is a function of its own: loops outside of it cannot be left from inside. */
bool Parser::parse_function_body(Stmt* stmt, std::string_view end) {
  const int loops = loops_;
  loops_ = 0;
  functions_.push_back(stmt);
  const bool parsed = parse_body(&stmt->body, end);
  functions_.pop_back();
  loops_ = loops;
  for (const Parameter& parameter : stmt->parameters) {
    if (stmt->uses_caller && parameter.name == "caller" && parameter.fallback == nullptr) {
      return fail("a parameter named caller needs a default", stmt->line);
    }
  }
  return parsed;
}

bool Parser::parse_macro(Stmt* stmt) {
  stmt->what = Stmt::What::kMacro;
  if (!expect_name(&stmt->name)) return false;
  stmt->symbol = symbol(stmt->name);
  return parse_signature(stmt) && parse_function_body(stmt, "endmacro");
}

bool Parser::parse_call_block(Stmt* stmt) {
  stmt->what = Stmt::What::kCallBlock;
  stmt->name = "caller";
  if (at_operator("(") && !parse_signature(stmt)) return false;
  const int line = current().line;
  if (!parse_expression(&stmt->value)) return false;
  if (stmt->value->what != Expr::What::kPostfix || stmt->value->steps.back().what != Postfix::What::kCall) {
    return fail("a call block needs a call of a macro", line);
  }
  return parse_function_body(stmt, "endcall");
}

bool Parser::parse_filter_block(Stmt* stmt) {
  stmt->what = Stmt::What::kFilterBlock;
  stmt->value = make(Expr::What::kConstant);
  do {
    if (!parse_filter(&stmt->value)) return false;
  } while (skip_operator("|"));
  return parse_body(&stmt->body, "endfilter");
}

bool Parser::parse_name_target(Target* target) {
  std::string name;
  if (!expect_name(&name)) return false;
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) return fail("cannot assign to '" + name + "'");
  }
  target->what = Target::What::kName;
  target->symbol = symbol(name);
  return true;
}

bool Parser::parse_target_primary(Target* target) {
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  const char* close = at_operator("(") ? ")" : at_operator("[") ? "]" : nullptr;
  if (close == nullptr) return parse_name_target(target);
  advance();
  target->what = Target::What::kTuple;
  bool comma = close[0] == ']';
  while (!at_operator(close)) {
    if (!target->parts.empty() && !expect_operator(",")) return false;
    if (at_operator(close)) {
      comma = true;
      break;
    }
    if (!target->parts.empty()) comma = true;
    Target part;
    if (!parse_target_primary(&part)) return false;
    target->parts.push_back(std::move(part));
  }
  advance();
  if (target->parts.size() == 1 && !comma) {  // (a) is a
    Target only = std::move(target->parts[0]);
    *target = std::move(only);
  }
  return true;
}

bool Parser::parse_target(Target* target, bool with_namespace) {
  if (with_namespace && look().kind == TokenKind::kOperator && look().text == ".") {
    if (!parse_name_target(target)) return false;
    advance();
    target->what = Target::What::kAttribute;
    return expect_name(&target->attribute);
  }
  if (!parse_target_primary(target)) return false;
  if (!at_operator(",")) return true;
  Target first = std::move(*target);
  *target = Target();
  target->what = Target::What::kTuple;
  target->parts.push_back(std::move(first));
  while (skip_operator(",")) {
    if (at_name("in") || at_operator("=") || current().kind == TokenKind::kBlockEnd) break;
    Target part;
    if (!parse_target_primary(&part)) return false;
    target->parts.push_back(std::move(part));
  }
  return true;
}

bool parse_program(std::string_view source, Program* program, SyntaxError* error) {
  std::vector<Token> tokens;
  if (!tokenize(source, &tokens, error)) return false;
  return Parser(std::move(tokens), program, error).run();
}

}  // namespace banter::text::jinja
