#include "text/jinja/interpreter.h"

namespace banter::text::jinja {

Interpreter::Interpreter(const Program& program, Runtime& rt)
    : program_(program), rt_(rt), root_(program.symbols.size()), root_set_(program.symbols.size()) {
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const NamedFunction* function = find_global(program.symbols[i]);
    if (function == nullptr) continue;
    root_[i].kind = Kind::kFunction;
    root_[i].function = function;
    root_set_[i] = true;
  }
}

void Interpreter::define(int symbol, Value value) {
  if (symbol < 0) return;
  root_[static_cast<size_t>(symbol)] = std::move(value);
  root_set_[static_cast<size_t>(symbol)] = true;
}

bool Interpreter::run(TextBuilder& out) {
  return run_block(program_.body, nullptr, out) != Flow::kError && rt_.check();
}

Interpreter::Flow Interpreter::run_block(const Block& block, const ScopePtr& scope, TextBuilder& out) {
  Nesting nesting(rt_);
  if (!nesting.ok()) return Flow::kError;
  for (const auto& stmt : block) {
    rt_.line = stmt->line;
    if (!rt_.charge(1)) return Flow::kError;
    const Flow flow = run_statement(*stmt, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_statement(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const auto done = [](bool ok) { return ok ? Flow::kNext : Flow::kError; };
  switch (stmt.what) {
    case Stmt::What::kText:
      out.append(*stmt.text);
      return done(rt_.check());
    case Stmt::What::kOutput:
      return done(run_output(stmt, scope, out));
    case Stmt::What::kIf:
      return run_if(stmt, scope, out);
    case Stmt::What::kFor:
      return run_for(stmt, scope, out);
    case Stmt::What::kSet: {
      Value value;
      return done(evaluate(*stmt.value, scope, &value) && assign(stmt.target, std::move(value), scope));
    }
    case Stmt::What::kSetBlock:
      return run_set_block(stmt, scope);
    case Stmt::What::kMacro:
      return done(set_variable(stmt.symbol, make_macro(stmt, scope), scope) && rt_.check());
    case Stmt::What::kCallBlock:
      return done(run_call_block(stmt, scope, out));
    case Stmt::What::kFilterBlock:
      return run_filter_block(stmt, scope, out);
    case Stmt::What::kWith:
      return run_with(stmt, scope, out);
    case Stmt::What::kScope:
      return run_block(stmt.body, std::make_shared<Scope>(scope), out);
    case Stmt::What::kBreak:
      return Flow::kBreak;
    case Stmt::What::kContinue:
      return Flow::kContinue;
  }
  return Flow::kError;
}

bool Interpreter::run_output(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  Value value;
  if (!evaluate(*stmt.value, scope, &value)) return false;
  rt_.line = stmt.line;
  return append_str(rt_, value, out);
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  for (const auto& branch : stmt.branches) {
    if (branch.condition != nullptr) {
      Value value;
      if (!evaluate(*branch.condition, scope, &value)) return Flow::kError;
      if (!truthy(rt_, value)) continue;
    }
    return run_block(branch.body, scope, out);
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_set_block(const Stmt& stmt, const ScopePtr& scope) {
  TextBuilder captured(rt_.budget);
  const Flow flow = run_block(stmt.body, std::make_shared<Scope>(scope), captured);
  if (flow != Flow::kNext) return flow;
  Value value;
  if (!rt_.finish(captured, &value)) return Flow::kError;
  if (stmt.value != nullptr && !apply_steps(stmt.value->steps, scope, nullptr, &value)) return Flow::kError;
  return assign(stmt.target, std::move(value), scope) ? Flow::kNext : Flow::kError;
}

Interpreter::Flow Interpreter::run_filter_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  TextBuilder captured(rt_.budget);
  const Flow flow = run_block(stmt.body, std::make_shared<Scope>(scope), captured);
  if (flow != Flow::kNext) return flow;
  Value value;
  const bool ok = rt_.finish(captured, &value) && apply_steps(stmt.value->steps, scope, nullptr, &value) &&
                  append_str(rt_, value, out);
  return ok ? Flow::kNext : Flow::kError;
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const auto inner = std::make_shared<Scope>(scope);
  for (const auto& [target, expr] : stmt.assignments) {
    Value value;
    if (!evaluate(*expr, scope, &value) || !assign(target, std::move(value), inner)) return Flow::kError;
  }
  return run_block(stmt.body, inner, out);
}

bool Interpreter::run_call_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  const Value caller = make_macro(stmt, scope);
  Value value;
  return rt_.check() && evaluate(*stmt.value->children[0], scope, &value) &&
         apply_steps(stmt.value->steps, scope, &caller, &value) && append_str(rt_, value, out);
}

Value Interpreter::make_macro(const Stmt& stmt, const ScopePtr& scope) {
  auto* macro = rt_.make<MacroObject>();
  macro->stmt = &stmt;
  macro->scope = scope;
  return Value::of_object(Kind::kMacro, macro);
}

bool Interpreter::set_variable(int symbol, Value value, const ScopePtr& scope) {
  if (scope == nullptr) {
    define(symbol, std::move(value));
    return true;
  }
  scope->set(symbol, std::move(value));
  return rt_.charge(1 + scope->values.size() / 8);
}

bool Interpreter::assign(const Target& target, Value value, const ScopePtr& scope) {
  if (target.what == Target::What::kName) return set_variable(target.symbol, std::move(value), scope);
  if (target.what == Target::What::kAttribute) {
    Expr name;
    name.symbol = target.symbol;
    Value object;
    if (!evaluate_name(name, scope, &object)) return false;
    if (!object.is(Kind::kNamespace)) return rt_.fail("cannot assign attribute on non-namespace object");
    return object.as<NamespaceObject>()->attributes.set(rt_, rt_.text(target.attribute), std::move(value)) &&
           rt_.check();
  }
  const bool iterable = !value.is(Kind::kUndefined) || target.parts.empty();
  std::vector<Value> items;
  if (!iterable) return rt_.fail("not enough values to unpack: the value is undefined");
  if (!collect(rt_, value, &items)) return false;
  if (items.size() != target.parts.size()) {
    return rt_.fail(std::string(items.size() < target.parts.size() ? "not enough" : "too many") +
                    " values to unpack (expected " + std::to_string(target.parts.size()) + ", got " +
                    std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!assign(target.parts[i], std::move(items[i]), scope)) return false;
  }
  return true;
}

}  // namespace banter::text::jinja
