// Runs a parsed template over its syntax tree.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace banter::text::jinja {

struct Scope;
/** Shared, because a macro keeps the scope that it was defined in. Null is the outermost scope. */
using ScopePtr = std::shared_ptr<Scope>;

struct Scope {
  explicit Scope(ScopePtr outer) : parent(std::move(outer)) {}
  ScopePtr parent;
  std::vector<std::pair<int, Value>> values;  // few: searched linearly

  void set(int symbol, Value value) {
    for (auto& [name, old] : values) {
      if (name == symbol) {
        old = std::move(value);
        return;
      }
    }
    values.emplace_back(symbol, std::move(value));
  }
};

struct MacroObject : Object {
  const Stmt* stmt = nullptr;
  ScopePtr scope;
};

/** The `loop` variable and the iteration behind it. Elements are drawn one by one; `last` and `nextitem` look one
 *  ahead, `length` of a filtered loop draws all that are left. */
struct LoopObject : Object {
  const Stmt* stmt = nullptr;
  ScopePtr scope;  // outside of the loop
  Elements elements;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  int64_t length = -1;  // -1: not known yet
  bool filtered = false, has_after = false, running = false, changed_before = false;
  Value after, current, before, changed_value;
};

/** One run of one program. Used by one thread, once. */
class Interpreter {
 public:
  Interpreter(const Program& program, Runtime& rt);

  /** Sets a variable of the outermost scope, if the template mentions it. */
  void define(int symbol, Value value);
  bool run(TextBuilder& out);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue, kError };

  // Statements (interpreter.cpp).
  Flow run_block(const Block& block, const ScopePtr& scope, TextBuilder& out);
  Flow run_statement(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow run_if(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow run_set_block(const Stmt& stmt, const ScopePtr& scope);
  Flow run_filter_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow run_with(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  bool run_output(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  bool run_call_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  bool set_variable(int symbol, Value value, const ScopePtr& scope);
  bool assign(const Target& target, Value value, const ScopePtr& scope);
  Value make_macro(const Stmt& stmt, const ScopePtr& scope);

  // Loops (loops.cpp).
  Flow run_for(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow run_loop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int64_t depth0, TextBuilder& out);
  bool draw(LoopObject& loop, Value* item, bool* done);
  bool advance(LoopObject& loop, Value* item, bool* done);
  bool peek(LoopObject& loop);
  bool loop_length(LoopObject& loop, int64_t* length);
  bool loop_attribute(const Value& loop, std::string_view name, Value* out);
  bool call_loop(const Value& loop, const Arguments& args, Value* out);

  // Expressions (expressions.cpp).
  bool evaluate(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_name(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_list(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_dict(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_compare(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_arithmetic(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_concat(const Expr& expr, const ScopePtr& scope, Value* out);
  bool evaluate_conditional(const Expr& expr, const ScopePtr& scope, Value* out);
  /** Applies steps to *value in place; `caller` goes to the last call as its keyword argument. */
  bool apply_steps(const std::vector<Postfix>& steps, const ScopePtr& scope, const Value* caller, Value* value);
  bool apply_step(const Postfix& step, const ScopePtr& scope, const Value* caller, Value* value);
  bool apply_slice(const Postfix& step, const ScopePtr& scope, Value* value);
  bool apply_function(const Postfix& step, const ScopePtr& scope, Value* value);
  bool attribute_of(const Value& object, std::string_view name, Value* out);
  bool evaluate_arguments(const std::vector<CallArgument>& written, const ScopePtr& scope, Arguments* out);
  bool call(const Value& callee, const Arguments& args, Value* out);
  bool call_macro(const Value& macro, const Arguments& args, Value* out);
  bool bind_macro(const MacroObject& macro, const Arguments& args, const ScopePtr& scope);

  const Program& program_;
  Runtime& rt_;
  std::vector<Value> root_;
  std::vector<bool> root_set_;
};

}  // namespace banter::text::jinja
