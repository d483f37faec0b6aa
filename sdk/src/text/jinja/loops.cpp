#include "text/jinja/interpreter.h"

namespace banter::text::jinja {

namespace {

bool loop_cycle(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!args.keyword.empty()) return rt.fail("cycle() takes no keyword arguments");
  if (args.positional.empty()) return rt.fail("no items for cycling given");
  const auto index = static_cast<size_t>(self.as<LoopObject>()->index0);
  *out = args.positional[index % args.positional.size()];
  return true;
}

bool loop_changed(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  auto* loop = self.as<LoopObject>();
  Value value = rt.make_list(args.positional, Kind::kTuple);
  bool same = false;
  if (loop->changed_before && !equal(rt, loop->changed_value, value, &same)) return false;
  loop->changed_before = true;
  loop->changed_value = value;
  *out = Value::of_bool(!same);
  return rt.check();
}

constexpr NamedFunction kCycle = {"cycle", loop_cycle};
constexpr NamedFunction kChanged = {"changed", loop_changed};

}  // namespace

Interpreter::Flow Interpreter::run_for(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
  Value iterable;
  if (!evaluate(*stmt.value, scope, &iterable)) return Flow::kError;
  rt_.line = stmt.line;
  return run_loop(stmt, scope, iterable, 0, out);
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int64_t depth0,
                                        TextBuilder& out) {
  auto* loop = rt_.make<LoopObject>();
  loop->stmt = &stmt;
  loop->scope = scope;
  loop->depth0 = depth0;
  loop->filtered = stmt.condition != nullptr;
  loop->running = true;
  size_t length = 0;
  bool known = false;
  if (!rt_.check() || !loop->elements.start(rt_, iterable) || !length_of(rt_, iterable, &length, &known)) {
    return Flow::kError;
  }
  if (known && !loop->filtered) loop->length = static_cast<int64_t>(length);
  bool completed = false;  // some run of the body reached its end; `else` is for loops where none did
  Flow flow = Flow::kNext;
  while (true) {
    Value item;
    bool done = false;
    if (!advance(*loop, &item, &done)) {
      flow = Flow::kError;
      break;
    }
    if (done) break;
    const auto inner = std::make_shared<Scope>(scope);
    if (!assign(stmt.target, std::move(item), inner) ||
        !set_variable(program_.loop_symbol, Value::of_object(Kind::kLoop, loop), inner)) {
      flow = Flow::kError;
      break;
    }
    flow = run_block(stmt.body, inner, out);
    if (flow == Flow::kError || flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  // What the loop kept alive goes now, not at the end of the render.
  loop->running = false;
  loop->scope = nullptr;
  loop->elements = Elements();
  loop->after = loop->before = loop->current = Value();
  if (flow == Flow::kError) return flow;
  if (completed || stmt.otherwise.empty()) return Flow::kNext;
  return run_block(stmt.otherwise, std::make_shared<Scope>(scope), out);
}

/** The next element that passes the loop's filter. */
bool Interpreter::draw(LoopObject& loop, Value* item, bool* done) {
  while (true) {
    if (!loop.elements.next(rt_, item, done)) return false;
    if (*done || !loop.filtered) return true;
    const auto inner = std::make_shared<Scope>(loop.scope);
    Value verdict;
    if (!assign(loop.stmt->target, *item, inner) || !evaluate(*loop.stmt->condition, inner, &verdict)) return false;
    if (truthy(rt_, verdict)) return true;
  }
}

bool Interpreter::advance(LoopObject& loop, Value* item, bool* done) {
  *done = false;
  if (loop.has_after) {
    *item = std::move(loop.after);
    loop.has_after = false;
  } else if (!draw(loop, item, done)) {
    return false;
  }
  if (*done) return true;
  ++loop.index0;
  loop.before = std::move(loop.current);
  loop.current = *item;
  return true;
}

bool Interpreter::peek(LoopObject& loop) {
  if (loop.has_after || !loop.running) return true;
  bool done = false;
  if (!draw(loop, &loop.after, &done)) return false;
  loop.has_after = !done;
  return true;
}

bool Interpreter::loop_length(LoopObject& loop, int64_t* length) {
  if (loop.length < 0) {
    std::vector<Value> rest;
    while (loop.running) {
      Value item;
      bool done = false;
      if (!draw(loop, &item, &done)) return false;
      if (done) break;
      if (!rt_.budget.fits((rest.size() + 1) * sizeof(Value))) return rt_.check();
      rest.push_back(std::move(item));
    }
    loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + (loop.has_after ? 1 : 0);
    loop.filtered = false;  // what is left has passed the filter
    if (!loop.elements.start(rt_, rt_.make_list(std::move(rest)))) return false;
  }
  *length = loop.length;
  return rt_.check();
}

bool Interpreter::loop_attribute(const Value& self, std::string_view name, Value* out) {
  auto& loop = *self.as<LoopObject>();
  int64_t length = 0;
  if (name == "index" || name == "index0") {
    *out = Value::of_int(loop.index0 + (name == "index" ? 1 : 0));
  } else if (name == "first") {
    *out = Value::of_bool(loop.index0 == 0);
  } else if (name == "depth" || name == "depth0") {
    *out = Value::of_int(loop.depth0 + (name == "depth" ? 1 : 0));
  } else if (name == "last") {
    if (!peek(loop)) return false;
    *out = Value::of_bool(!loop.has_after);
  } else if (name == "length" || name == "revindex" || name == "revindex0") {
    if (!loop_length(loop, &length)) return false;
    *out = Value::of_int(name == "length" ? length : length - loop.index0 - (name == "revindex0" ? 1 : 0));
  } else if (name == "previtem") {
    *out = loop.index0 == 0 ? rt_.undefined("there is no previous item") : loop.before;
  } else if (name == "nextitem") {
    if (!peek(loop)) return false;
    *out = loop.has_after ? loop.after : rt_.undefined("there is no next item");
  } else if (name == "cycle" || name == "changed") {
    auto* method = rt_.make<MethodObject>();
    method->self = self;
    method->method = name == "cycle" ? &kCycle : &kChanged;
    *out = Value::of_object(Kind::kMethod, method);
  } else {
    return get_attribute(rt_, self, name, out);
  }
  return rt_.check();
}

bool Interpreter::call_loop(const Value& self, const Arguments& args, Value* out) {
  const auto& loop = *self.as<LoopObject>();
  if (!loop.stmt->recursive) {
    return rt_.fail("the loop must have the 'recursive' marker to be called recursively");
  }
  if (args.positional.size() != 1 || !args.keyword.empty() || !loop.running) {
    return rt_.fail("a recursive loop is called with one iterable, while it runs");
  }
  Nesting nesting(rt_);
  if (!nesting.ok()) return false;
  TextBuilder builder(rt_.budget);
  const ScopePtr scope = loop.scope;
  if (run_loop(*loop.stmt, scope, args.positional[0], loop.depth0 + 1, builder) == Flow::kError) return false;
  return rt_.finish(builder, out);
}

}  // namespace banter::text::jinja
