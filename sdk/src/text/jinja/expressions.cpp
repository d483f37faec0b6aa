#include <algorithm>

#include "text/jinja/interpreter.h"

namespace banter::text::jinja {

bool Interpreter::evaluate(const Expr& expr, const ScopePtr& scope, Value* out) {
  if (!rt_.charge(1)) return false;
  if (expr.what == Expr::What::kConstant) {
    *out = expr.constant;
    return true;
  }
  if (expr.what == Expr::What::kName) {
    rt_.line = expr.line;
    return evaluate_name(expr, scope, out);
  }
  Nesting nesting(rt_);
  if (!nesting.ok()) return false;
  switch (expr.what) {
    case Expr::What::kList:
    case Expr::What::kTuple:
      return evaluate_list(expr, scope, out);
    case Expr::What::kDict:
      return evaluate_dict(expr, scope, out);
    case Expr::What::kConditional:
      return evaluate_conditional(expr, scope, out);
    case Expr::What::kOr:
    case Expr::What::kAnd:
      for (const auto& child : expr.children) {  // the value that decides, as in Python
        if (!evaluate(*child, scope, out)) return false;
        if (truthy(rt_, *out) == (expr.what == Expr::What::kOr)) break;
      }
      return true;
    case Expr::What::kNot:
      if (!evaluate(*expr.children[0], scope, out)) return false;
      *out = Value::of_bool(!truthy(rt_, *out));
      return true;
    case Expr::What::kCompare:
      return evaluate_compare(expr, scope, out);
    case Expr::What::kArithmetic:
      return evaluate_arithmetic(expr, scope, out);
    case Expr::What::kConcat:
      return evaluate_concat(expr, scope, out);
    case Expr::What::kMinus:
    case Expr::What::kPlus: {
      Value operand;
      if (!evaluate(*expr.children[0], scope, &operand)) return false;
      rt_.line = expr.line;
      return negate(rt_, operand, expr.what == Expr::What::kMinus, out);
    }
    default:
      return evaluate(*expr.children[0], scope, out) && apply_steps(expr.steps, scope, nullptr, out);
  }
}

bool Interpreter::evaluate_name(const Expr& expr, const ScopePtr& scope, Value* out) {
  for (const Scope* s = scope.get(); s != nullptr; s = s->parent.get()) {
    if (!rt_.charge(1 + s->values.size() / 8)) return false;
    for (const auto& [symbol, value] : s->values) {
      if (symbol != expr.symbol) continue;
      *out = value;
      return true;
    }
  }
  const auto index = static_cast<size_t>(expr.symbol);
  if (root_set_[index]) {
    *out = root_[index];
  } else {
    *out = rt_.undefined("'" + program_.symbols[index].substr(0, 64) + "' is undefined");
  }
  return rt_.check();
}

bool Interpreter::evaluate_list(const Expr& expr, const ScopePtr& scope, Value* out) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const auto& child : expr.children) {
    if (!evaluate(*child, scope, &items.emplace_back())) return false;
  }
  *out = rt_.make_list(std::move(items), expr.what == Expr::What::kList ? Kind::kList : Kind::kTuple);
  return rt_.check();
}

bool Interpreter::evaluate_dict(const Expr& expr, const ScopePtr& scope, Value* out) {
  auto* dict = rt_.make<DictObject>();
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    Value key, value;
    if (!evaluate(*expr.children[i], scope, &key) || !evaluate(*expr.children[i + 1], scope, &value) ||
        !dict->set(rt_, key, std::move(value))) {
      return false;
    }
  }
  *out = Value::of_object(Kind::kDict, dict);
  return rt_.check();
}

bool Interpreter::evaluate_conditional(const Expr& expr, const ScopePtr& scope, Value* out) {
  Value condition;
  if (!evaluate(*expr.children[0], scope, &condition)) return false;
  const Expr* chosen = truthy(rt_, condition) ? expr.children[1].get() : expr.children[2].get();
  if (chosen != nullptr) return evaluate(*chosen, scope, out);
  *out = rt_.undefined("the inline if-expression in line " + std::to_string(expr.line) +
                       " evaluated to false and no else section was defined");
  return rt_.check();
}

bool Interpreter::evaluate_compare(const Expr& expr, const ScopePtr& scope, Value* out) {
  Value left, right;
  bool result = true;
  if (!evaluate(*expr.children[0], scope, &left)) return false;
  for (size_t i = 0; i < expr.operators.size() && result; ++i) {
    if (!evaluate(*expr.children[i + 1], scope, &right)) return false;
    rt_.line = expr.line;
    if (!compare(rt_, expr.operators[i], left, right, &result)) return false;
    left = std::move(right);
  }
  *out = Value::of_bool(result);
  return true;
}

bool Interpreter::evaluate_arithmetic(const Expr& expr, const ScopePtr& scope, Value* out) {
  if (!evaluate(*expr.children[0], scope, out)) return false;
  const bool only_add =
      std::all_of(expr.operators.begin(), expr.operators.end(), [](Operator op) { return op == Operator::kAdd; });
  size_t i = 0;
  // A run of text + text + … is joined once instead of once per +; everything else goes pair by pair.
  if (only_add && out->is(Kind::kString) && !out->text->markup() && expr.operators.size() > 1) {
    TextBuilder builder(rt_.budget);
    builder.append(*out->text);
    for (; i < expr.operators.size(); ++i) {
      Value right;
      if (!evaluate(*expr.children[i + 1], scope, &right)) return false;
      rt_.line = expr.line;
      if (right.is(Kind::kString) && !right.text->markup()) {
        builder.append(*right.text);
        continue;
      }
      Value left, sum;
      if (!rt_.finish(builder, &left) || !arithmetic(rt_, Operator::kAdd, left, right, &sum)) return false;
      *out = std::move(sum);
      ++i;
      break;
    }
    if (builder.size() > 0 && !rt_.finish(builder, out)) return false;
    if (!rt_.check()) return false;
  }
  for (; i < expr.operators.size(); ++i) {
    Value right, result;
    if (!evaluate(*expr.children[i + 1], scope, &right)) return false;
    rt_.line = expr.line;
    if (!arithmetic(rt_, expr.operators[i], *out, right, &result)) return false;
    *out = std::move(result);
  }
  return true;
}

bool Interpreter::evaluate_concat(const Expr& expr, const ScopePtr& scope, Value* out) {
  TextBuilder builder(rt_.budget);
  for (const auto& child : expr.children) {
    Value value;
    if (!evaluate(*child, scope, &value) || !append_str(rt_, value, builder)) return false;
  }
  return rt_.finish(builder, out);
}

bool Interpreter::apply_steps(const std::vector<Postfix>& steps, const ScopePtr& scope, const Value* caller,
                              Value* value) {
  for (size_t i = 0; i < steps.size(); ++i) {
    rt_.line = steps[i].line;
    const bool last = i + 1 == steps.size();
    if (!last && steps[i].what == Postfix::What::kAttribute && steps[i + 1].what == Postfix::What::kCall) {
      // A method that is called at once needs no object of its own.
      const NamedFunction* method = find_method(*value, steps[i].name);
      if (method != nullptr) {
        ++i;
        Arguments args;
        Value result;
        if (!evaluate_arguments(steps[i].arguments, scope, &args)) return false;
        rt_.line = steps[i].line;
        if (caller != nullptr && i + 1 == steps.size()) args.keyword.emplace_back("caller", *caller);
        if (!method->function(rt_, *value, args, &result) || !rt_.check()) return false;
        *value = std::move(result);
        continue;
      }
    }
    if (!apply_step(steps[i], scope, last ? caller : nullptr, value)) return false;
  }
  return true;
}

bool Interpreter::apply_step(const Postfix& step, const ScopePtr& scope, const Value* caller, Value* value) {
  Value result;
  switch (step.what) {
    case Postfix::What::kAttribute:
      if (!attribute_of(*value, step.name, &result)) return false;
      break;
    case Postfix::What::kItem: {
      Value key;
      if (!evaluate(*step.first, scope, &key)) return false;
      rt_.line = step.line;
      if (value->is(Kind::kLoop) && key.is(Kind::kString)) {
        if (!loop_attribute(*value, key.bytes(), &result)) return false;
      } else if (!get_item(rt_, *value, key, &result)) {
        return false;
      }
      break;
    }
    case Postfix::What::kSlice:
      return apply_slice(step, scope, value);
    case Postfix::What::kCall: {
      Arguments args;
      if (!evaluate_arguments(step.arguments, scope, &args)) return false;
      if (caller != nullptr) args.keyword.emplace_back("caller", *caller);
      rt_.line = step.line;
      if (!call(*value, args, &result)) return false;
      break;
    }
    default:
      return apply_function(step, scope, value);
  }
  *value = std::move(result);
  return rt_.check();
}

bool Interpreter::apply_slice(const Postfix& step, const ScopePtr& scope, Value* value) {
  Value bounds[3];
  const ExprPtr* written[3] = {&step.first, &step.second, &step.third};
  for (int i = 0; i < 3; ++i) {
    bounds[i] = Value::none();
    if (*written[i] != nullptr && !evaluate(**written[i], scope, &bounds[i])) return false;
  }
  rt_.line = step.line;
  Value result;
  if (!get_slice(rt_, *value, bounds[0], bounds[1], bounds[2], &result)) return false;
  *value = std::move(result);
  return rt_.check();
}

bool Interpreter::apply_function(const Postfix& step, const ScopePtr& scope, Value* value) {
  const bool filter = step.what == Postfix::What::kFilter;
  if (step.function == nullptr) {
    return rt_.fail(std::string("No ") + (filter ? "filter" : "test") + " named '" + step.name.substr(0, 64) + "'.");
  }
  Arguments args;
  Value result;
  if (!evaluate_arguments(step.arguments, scope, &args)) return false;
  rt_.line = step.line;
  if (!step.function->function(rt_, *value, args, &result) || !rt_.check()) return false;
  *value = step.what == Postfix::What::kTestNot ? Value::of_bool(!truthy(rt_, result)) : std::move(result);
  return true;
}

bool Interpreter::attribute_of(const Value& object, std::string_view name, Value* out) {
  if (object.is(Kind::kLoop)) return loop_attribute(object, name, out);
  return get_attribute(rt_, object, name, out);
}

bool Interpreter::evaluate_arguments(const std::vector<CallArgument>& written, const ScopePtr& scope, Arguments* out) {
  for (const CallArgument& argument : written) {
    Value value;
    if (!evaluate(*argument.value, scope, &value)) return false;
    switch (argument.how) {
      case CallArgument::How::kPositional:
        out->positional.push_back(std::move(value));
        break;
      case CallArgument::How::kKeyword:
        out->keyword.emplace_back(argument.name, std::move(value));
        break;
      case CallArgument::How::kUnpackList:
        if (!collect(rt_, value, &out->positional)) return false;
        break;
      case CallArgument::How::kUnpackDict:
        if (!value.is(Kind::kDict)) return rt_.fail("argument after ** must be a mapping");
        for (const auto& entry : value.as<DictObject>()->entries) {
          if (!entry.key.is(Kind::kString)) return rt_.fail("keywords must be strings");
          if (!rt_.charge(1)) return false;
          out->keyword.emplace_back(std::string(entry.key.bytes()), entry.value);
        }
        break;
    }
  }
  return true;
}

bool Interpreter::call(const Value& callee, const Arguments& args, Value* out) {
  switch (callee.kind) {
    case Kind::kFunction:
      return callee.function->function(rt_, Value(), args, out) && rt_.check();
    case Kind::kMethod: {
      const auto* bound = callee.as<MethodObject>();
      return bound->method->function(rt_, bound->self, args, out) && rt_.check();
    }
    case Kind::kMacro:
      return call_macro(callee, args, out);
    case Kind::kLoop:
      return call_loop(callee, args, out);
    case Kind::kJoiner: {
      auto* joiner = callee.as<JoinerObject>();
      *out = joiner->used ? Value::of_text(joiner->separator) : rt_.text("");
      joiner->used = true;
      return rt_.check();
    }
    case Kind::kUndefined:
      return rt_.fail_undefined(callee);
    default:
      return rt_.fail(std::string("'") + type_name(callee) + "' object is not callable");
  }
}

bool Interpreter::call_macro(const Value& macro, const Arguments& args, Value* out) {
  Nesting nesting(rt_);
  if (!nesting.ok()) return false;
  const auto& object = *macro.as<MacroObject>();
  const auto scope = std::make_shared<Scope>(object.scope);
  TextBuilder builder(rt_.budget);
  if (!bind_macro(object, args, scope) || run_block(object.stmt->body, scope, builder) == Flow::kError) return false;
  return rt_.finish(builder, out);
}

bool Interpreter::bind_macro(const MacroObject& macro, const Arguments& args, const ScopePtr& scope) {
  const Stmt& stmt = *macro.stmt;
  const std::string name = "macro '" + stmt.name.substr(0, 64) + "'";
  std::vector<bool> used(args.keyword.size());
  const auto take = [&](std::string_view wanted) -> const Value* {
    rt_.budget.charge(1 + args.keyword.size() / 8);
    for (size_t i = 0; i < args.keyword.size(); ++i) {
      if (used[i] || args.keyword[i].first != wanted) continue;
      used[i] = true;
      return &args.keyword[i].second;
    }
    return nullptr;
  };
  bool takes_caller = false;
  for (size_t i = 0; i < stmt.parameters.size(); ++i) {
    const Parameter& parameter = stmt.parameters[i];
    takes_caller = takes_caller || parameter.symbol == program_.caller_symbol;
    const Value* given = i < args.positional.size() ? &args.positional[i] : take(parameter.name);
    Value value;
    if (given != nullptr) {
      value = *given;
    } else if (parameter.fallback == nullptr) {
      value = rt_.undefined("parameter '" + parameter.name.substr(0, 64) + "' was not provided");
    } else if (!evaluate(*parameter.fallback, scope, &value)) {
      return false;
    }
    if (!set_variable(parameter.symbol, std::move(value), scope)) return false;
  }
  if (stmt.uses_caller && !takes_caller) {
    const Value* caller = take("caller");
    if (!set_variable(program_.caller_symbol, caller != nullptr ? *caller : rt_.undefined("No caller defined"),
                      scope)) {
      return false;
    }
  }
  auto* rest = stmt.uses_kwargs ? rt_.make<DictObject>() : nullptr;
  for (size_t i = 0; i < args.keyword.size(); ++i) {
    if (used[i]) continue;
    if (rest == nullptr)
      return rt_.fail(name + " takes no keyword argument '" + args.keyword[i].first.substr(0, 64) + "'");
    if (!rest->set(rt_, rt_.text(args.keyword[i].first), args.keyword[i].second)) return false;
  }
  if (rest != nullptr && !set_variable(program_.kwargs_symbol, Value::of_object(Kind::kDict, rest), scope))
    return false;
  if (stmt.uses_varargs) {
    std::vector<Value> more;
    for (size_t i = stmt.parameters.size(); i < args.positional.size(); ++i) more.push_back(args.positional[i]);
    return set_variable(program_.varargs_symbol, rt_.make_list(std::move(more), Kind::kTuple), scope) && rt_.check();
  }
  if (args.positional.size() > stmt.parameters.size()) {
    return rt_.fail(name + " takes not more than " + std::to_string(stmt.parameters.size()) + " argument(s)");
  }
  return rt_.check();
}

}  // namespace banter::text::jinja
