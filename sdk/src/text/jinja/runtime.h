// State of one render that every operation needs: budget, objects, the error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace banter::text::jinja {

/** One render. Used by one thread. */
class Runtime {
 public:
  Runtime(uint64_t work, size_t live, size_t text, int64_t now_unix_seconds)
      : budget(work, live, text), now(now_unix_seconds) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /** Records the first error, at the current line. Always false, so that callers write `return rt.fail(…)`. */
  bool fail(std::string message);
  /** As fail, for raise_exception: the message is the template's own words. */
  bool raise(std::string message);
  /** Fails with the reason why `value` is undefined. */
  bool fail_undefined(const Value& value);
  /** False, with the error recorded, once the budget is exhausted. */
  bool check() { return budget.ok() || fail(budget.fault_message()); }
  bool charge(uint64_t work) { return budget.charge(work) || check(); }
  bool failed() const { return failed_; }
  const std::string& message() const { return message_; }
  bool raised() const { return raised_; }
  int error_line() const { return error_line_; }

  /** A new object; alive until the render ends. */
  template <class T>
  T* make() {
    auto object = std::make_unique<T>();
    T* raw = object.get();
    budget.reserve(sizeof(T) + sizeof(void*));
    heap_.push_back(std::move(object));
    return raw;
  }
  /** Counts `count` values that are about to be stored in a container; fails before the memory is taken. */
  bool count_values(uint64_t count);
  /** A list (or tuple) of `items`, whose bytes are counted here. */
  Value make_list(std::vector<Value> items, Kind kind = Kind::kList);
  Value make_iterator(std::vector<Value> items);

  Value text(std::string_view bytes, bool trusted = true);
  /** The builder's text as a value; fails when the budget ran out while it was built. */
  bool finish(TextBuilder& builder, Value* out, bool markup = false);
  Value undefined(std::string_view why);

  Budget budget;
  int64_t now;    // seconds since 1970 that strftime_now shows
  int depth = 0;  // nested evaluations
  int line = 1;   // of the statement or expression being evaluated

 private:
  std::vector<std::unique_ptr<Object>> heap_;
  std::string message_;
  int error_line_ = 0;
  bool failed_ = false;
  bool raised_ = false;
};

/** Counts one nested evaluation for as long as it lives. */
class Nesting {
 public:
  explicit Nesting(Runtime& rt) : rt_(rt) { ++rt_.depth; }
  ~Nesting() { --rt_.depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  bool ok() const { return rt_.depth <= kMaxEvalDepth || rt_.fail("the template recurses too deeply"); }

 private:
  Runtime& rt_;
};

}  // namespace banter::text::jinja
