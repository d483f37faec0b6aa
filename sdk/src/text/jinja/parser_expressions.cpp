#include "text/jinja/parser.h"

namespace banter::text::jinja {

ExprPtr Parser::make(Expr::What what) const {
  auto expr = std::make_unique<Expr>();
  expr->what = what;
  expr->line = current().line;
  return expr;
}

Postfix* Parser::add_step(ExprPtr* out, Postfix::What what) {
  if ((*out)->what != Expr::What::kPostfix) {
    auto chain = make(Expr::What::kPostfix);
    chain->children.push_back(std::move(*out));
    *out = std::move(chain);
  }
  Postfix& step = (*out)->steps.emplace_back();
  step.what = what;
  step.line = current().line;
  return &step;
}

/** One expression, or several with commas between them as a tuple. */
bool Parser::parse_tuple(ExprPtr* out, bool conditional, bool parentheses, std::string_view end_name) {
  auto tuple = make(Expr::What::kTuple);
  bool is_tuple = false;
  while (true) {
    const bool at_end = current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
                        at_operator(")") || (!end_name.empty() && at_name(end_name));
    if (at_end) break;
    ExprPtr item;
    if (!parse_expression(&item, conditional)) return false;
    tuple->children.push_back(std::move(item));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple || (parentheses && tuple->children.empty())) {
    *out = std::move(tuple);
    return true;
  }
  if (tuple->children.empty()) return fail("expected an expression, got " + describe_current());
  *out = std::move(tuple->children[0]);
  return true;
}

bool Parser::parse_expression(ExprPtr* out, bool conditional) {
  Nesting nesting(*this);
  if (!nesting.ok() || !parse_or(out)) return false;
  for (int chained = 0; conditional && at_name("if"); ++chained) {
    if (depth_ + chained > kMaxParseDepth) return fail("the template is nested too deeply");
    auto choice = make(Expr::What::kConditional);
    advance();
    choice->children.resize(3);
    choice->children[1] = std::move(*out);
    if (!parse_or(&choice->children[0])) return false;
    const bool otherwise = skip_name("else");
    if (otherwise && !parse_expression(&choice->children[2])) return false;
    *out = std::move(choice);
    if (otherwise) break;  // the else part took any further `if`
  }
  return true;
}

bool Parser::parse_or(ExprPtr* out) {
  if (!parse_and(out)) return false;
  if (!at_name("or")) return true;
  auto chain = make(Expr::What::kOr);
  chain->children.push_back(std::move(*out));
  while (skip_name("or")) {
    ExprPtr next;
    if (!parse_and(&next)) return false;
    chain->children.push_back(std::move(next));
  }
  *out = std::move(chain);
  return true;
}

bool Parser::parse_and(ExprPtr* out) {
  if (!parse_not(out)) return false;
  if (!at_name("and")) return true;
  auto chain = make(Expr::What::kAnd);
  chain->children.push_back(std::move(*out));
  while (skip_name("and")) {
    ExprPtr next;
    if (!parse_not(&next)) return false;
    chain->children.push_back(std::move(next));
  }
  *out = std::move(chain);
  return true;
}

bool Parser::parse_not(ExprPtr* out) {
  if (!at_name("not")) return parse_compare(out);
  Nesting nesting(*this);
  if (!nesting.ok()) return false;
  auto negation = make(Expr::What::kNot);
  advance();
  negation->children.resize(1);
  if (!parse_not(&negation->children[0])) return false;
  *out = std::move(negation);
  return true;
}

bool Parser::parse_compare(ExprPtr* out) {
  if (!parse_sum(out)) return false;
  ExprPtr chain;
  while (true) {
    Operator op;
    if (at_operator("==")) {
      op = Operator::kEqual;
    } else if (at_operator("!=")) {
      op = Operator::kNotEqual;
    } else if (at_operator("<")) {
      op = Operator::kLess;
    } else if (at_operator("<=")) {
      op = Operator::kLessEqual;
    } else if (at_operator(">")) {
      op = Operator::kGreater;
    } else if (at_operator(">=")) {
      op = Operator::kGreaterEqual;
    } else if (at_name("in")) {
      op = Operator::kIn;
    } else if (at_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      op = Operator::kNotIn;
      advance();
    } else {
      break;
    }
    if (chain == nullptr) {
      chain = make(Expr::What::kCompare);
      chain->children.push_back(std::move(*out));
    }
    advance();
    ExprPtr next;
    if (!parse_sum(&next)) return false;
    chain->operators.push_back(op);
    chain->children.push_back(std::move(next));
  }
  if (chain != nullptr) *out = std::move(chain);
  return true;
}

bool Parser::parse_sum(ExprPtr* out) {
  if (!parse_concat(out)) return false;
  if (!at_operator("+") && !at_operator("-")) return true;
  auto chain = make(Expr::What::kArithmetic);
  chain->children.push_back(std::move(*out));
  while (at_operator("+") || at_operator("-")) {
    chain->operators.push_back(at_operator("+") ? Operator::kAdd : Operator::kSubtract);
    advance();
    ExprPtr next;
    if (!parse_concat(&next)) return false;
    chain->children.push_back(std::move(next));
  }
  *out = std::move(chain);
  return true;
}

bool Parser::parse_concat(ExprPtr* out) {
  if (!parse_product(out)) return false;
  if (!at_operator("~")) return true;
  auto chain = make(Expr::What::kConcat);
  chain->children.push_back(std::move(*out));
  while (skip_operator("~")) {
    ExprPtr next;
    if (!parse_product(&next)) return false;
    chain->children.push_back(std::move(next));
  }
  *out = std::move(chain);
  return true;
}

bool Parser::parse_product(ExprPtr* out) {
  if (!parse_power(out)) return false;
  ExprPtr chain;
  while (true) {
    Operator op;
    if (at_operator("*")) {
      op = Operator::kMultiply;
    } else if (at_operator("/")) {
      op = Operator::kDivide;
    } else if (at_operator("//")) {
      op = Operator::kFloorDivide;
    } else if (at_operator("%")) {
      op = Operator::kModulo;
    } else {
      break;
    }
    if (chain == nullptr) {
      chain = make(Expr::What::kArithmetic);
      chain->children.push_back(std::move(*out));
    }
    advance();
    ExprPtr next;
    if (!parse_power(&next)) return false;
    chain->operators.push_back(op);
    chain->children.push_back(std::move(next));
  }
  if (chain != nullptr) *out = std::move(chain);
  return true;
}

bool Parser::parse_power(ExprPtr* out) {
  if (!parse_unary(out)) return false;
  if (!at_operator("**")) return true;
  auto chain = make(Expr::What::kArithmetic);
  chain->children.push_back(std::move(*out));
  while (skip_operator("**")) {
    ExprPtr next;
    if (!parse_unary(&next)) return false;
    chain->operators.push_back(Operator::kPower);
    chain->children.push_back(std::move(next));
  }
  *out = std::move(chain);
  return true;
}

bool Parser::parse_unary(ExprPtr* out, bool with_filter) {
  if (at_operator("-") || at_operator("+")) {
    Nesting nesting(*this);
    if (!nesting.ok()) return false;
    auto sign = make(at_operator("-") ? Expr::What::kMinus : Expr::What::kPlus);
    advance();
    sign->children.resize(1);
    if (!parse_unary(&sign->children[0], false)) return false;
    *out = std::move(sign);
  } else if (!parse_primary(out)) {
    return false;
  }
  return parse_postfix(out) && (!with_filter || parse_filters(out));
}

bool Parser::parse_primary(ExprPtr* out) {
  switch (current().kind) {
    case TokenKind::kName:
      return parse_name(out);
    case TokenKind::kString:
      return parse_string(out);
    case TokenKind::kInteger:
      *out = make(Expr::What::kConstant);
      (*out)->constant = Value::of_int(current().integer);
      advance();
      return true;
    case TokenKind::kFloat:
      *out = make(Expr::What::kConstant);
      (*out)->constant = Value::of_float(current().number);
      advance();
      return true;
    default:
      break;
  }
  if (skip_operator("(")) return parse_tuple(out, true, true) && expect_operator(")");
  if (at_operator("[")) return parse_list(out);
  if (at_operator("{")) return parse_dict(out);
  return fail("unexpected " + describe_current());
}

bool Parser::parse_name(ExprPtr* out) {
  const std::string& name = current().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    *out = make(Expr::What::kConstant);
    (*out)->constant = Value::of_bool(name[0] == 't' || name[0] == 'T');
  } else if (name == "none" || name == "None") {
    *out = make(Expr::What::kConstant);
    (*out)->constant = Value::none();
  } else {
    *out = make(Expr::What::kName);
    (*out)->symbol = symbol(name);
    for (Stmt* function : functions_) {
      function->uses_caller |= name == "caller";
      function->uses_varargs |= name == "varargs";
      function->uses_kwargs |= name == "kwargs";
    }
  }
  advance();
  return true;
}

bool Parser::parse_string(ExprPtr* out) {
  *out = make(Expr::What::kConstant);
  std::string text;
  for (; current().kind == TokenKind::kString; advance()) text += current().text;  // adjacent literals are one
  (*out)->constant =
      Value::of_text(std::make_shared<const Text>(std::move(text), true, std::vector<size_t>(), false, nullptr));
  return true;
}

bool Parser::parse_list(ExprPtr* out) {
  *out = make(Expr::What::kList);
  advance();
  while (!at_operator("]")) {
    if (!(*out)->children.empty() && !expect_operator(",")) return false;
    if (at_operator("]")) break;
    ExprPtr item;
    if (!parse_expression(&item)) return false;
    (*out)->children.push_back(std::move(item));
  }
  return expect_operator("]");
}

bool Parser::parse_dict(ExprPtr* out) {
  *out = make(Expr::What::kDict);
  advance();
  while (!at_operator("}")) {
    if (!(*out)->children.empty() && !expect_operator(",")) return false;
    if (at_operator("}")) break;
    ExprPtr key, value;
    if (!parse_expression(&key) || !expect_operator(":") || !parse_expression(&value)) return false;
    (*out)->children.push_back(std::move(key));
    (*out)->children.push_back(std::move(value));
  }
  return expect_operator("}");
}

bool Parser::parse_postfix(ExprPtr* out) {
  while (true) {
    if (at_operator(".")) {
      Postfix* step = add_step(out, Postfix::What::kAttribute);
      advance();
      if (current().kind == TokenKind::kInteger) {
        step->what = Postfix::What::kItem;
        step->first = make(Expr::What::kConstant);
        step->first->constant = Value::of_int(current().integer);
        advance();
      } else if (!expect_name(&step->name)) {
        return false;
      }
    } else if (at_operator("[")) {
      Postfix* step = add_step(out, Postfix::What::kItem);
      advance();
      if (!parse_subscript(step)) return false;
    } else if (at_operator("(")) {
      Postfix* step = add_step(out, Postfix::What::kCall);
      if (!parse_arguments(&step->arguments)) return false;
    } else {
      return true;
    }
  }
}

bool Parser::parse_subscript(Postfix* step) {
  ExprPtr tuple = make(Expr::What::kTuple);
  bool is_slice = false;
  while (!at_operator("]")) {
    if (!tuple->children.empty() && !expect_operator(",")) return false;
    if (is_slice) return fail("a slice cannot be one of several keys");
    ExprPtr key;
    if (!parse_subscribed(&key, step, &is_slice)) return false;
    if (is_slice && !tuple->children.empty()) return fail("a slice cannot be one of several keys");
    if (!is_slice) tuple->children.push_back(std::move(key));
    if (is_slice && at_operator(",")) return fail("a slice cannot be one of several keys");
  }
  advance();
  if (is_slice) {
    step->what = Postfix::What::kSlice;
  } else if (tuple->children.size() == 1) {
    step->first = std::move(tuple->children[0]);
  } else {
    step->first = std::move(tuple);
  }
  return true;
}

bool Parser::parse_subscribed(ExprPtr* key, Postfix* slice, bool* is_slice) {
  if (!at_operator(":")) {
    if (!parse_expression(key)) return false;
    if (!at_operator(":")) return true;
    slice->first = std::move(*key);
  }
  *is_slice = true;
  advance();
  const auto bound_follows = [&] { return !at_operator(":") && !at_operator("]") && !at_operator(","); };
  if (bound_follows() && !parse_expression(&slice->second)) return false;
  if (!skip_operator(":")) return true;
  return !bound_follows() || parse_expression(&slice->third);
}

bool Parser::parse_arguments(std::vector<CallArgument>* arguments) {
  if (!expect_operator("(")) return false;
  bool keywords = false, lists = false, dicts = false;
  while (!at_operator(")")) {
    if (!arguments->empty()) {
      if (!expect_operator(",")) return false;
      if (at_operator(")")) break;
    }
    CallArgument argument;
    bool allowed = true;
    if (skip_operator("*")) {
      argument.how = CallArgument::How::kUnpackList;
      allowed = !lists && !dicts;
      lists = true;
    } else if (skip_operator("**")) {
      argument.how = CallArgument::How::kUnpackDict;
      allowed = !dicts;
      dicts = true;
    } else if (current().kind == TokenKind::kName && look().kind == TokenKind::kOperator && look().text == "=") {
      argument.how = CallArgument::How::kKeyword;
      argument.name = current().text;
      advance();
      advance();
      allowed = !dicts;
      keywords = true;
    } else {
      allowed = !lists && !dicts && !keywords;
    }
    if (!allowed) return fail("arguments of a call are in an order that is not allowed");
    if (!parse_expression(&argument.value)) return false;
    arguments->push_back(std::move(argument));
  }
  return expect_operator(")");
}

bool Parser::parse_filters(ExprPtr* out) {
  while (true) {
    if (skip_operator("|")) {
      if (!parse_filter(out)) return false;
    } else if (at_name("is")) {
      if (!parse_test(out)) return false;
    } else if (at_operator("(")) {
      Postfix* step = add_step(out, Postfix::What::kCall);
      if (!parse_arguments(&step->arguments)) return false;
    } else {
      return true;
    }
  }
}

bool Parser::parse_dotted_name(std::string* name) {
  if (!expect_name(name)) return false;
  while (skip_operator(".")) {
    std::string part;
    if (!expect_name(&part)) return false;
    *name += "." + part;
  }
  return true;
}

bool Parser::parse_filter(ExprPtr* out) {
  Postfix* step = add_step(out, Postfix::What::kFilter);
  if (!parse_dotted_name(&step->name)) return false;
  step->function = find_filter(step->name);
  return !at_operator("(") || parse_arguments(&step->arguments);
}

bool Parser::parse_test(ExprPtr* out) {
  Postfix* step = add_step(out, Postfix::What::kTest);
  advance();
  if (skip_name("not")) step->what = Postfix::What::kTestNot;
  if (!parse_dotted_name(&step->name)) return false;
  step->function = find_test(step->name);
  if (at_operator("(")) return parse_arguments(&step->arguments);
  const bool operand = current().kind == TokenKind::kName || current().kind == TokenKind::kString ||
                       current().kind == TokenKind::kInteger || current().kind == TokenKind::kFloat ||
                       at_operator("[") || at_operator("{");
  if (!operand || at_name("else") || at_name("or") || at_name("and")) return true;
  if (at_name("is")) return fail("tests cannot be chained with 'is'");
  CallArgument argument;
  Nesting nesting(*this);
  if (!nesting.ok() || !parse_primary(&argument.value) || !parse_postfix(&argument.value)) return false;
  step->arguments.push_back(std::move(argument));
  return true;
}

}  // namespace banter::text::jinja
