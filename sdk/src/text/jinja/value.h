// Values of the template language and the objects behind them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/text.h"

namespace banter::text::jinja {

class Runtime;
struct Value;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kIterator,
  kDictView,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
  kCycler,
  kJoiner,
};

/** What is allocated during a render. Owned by the Runtime's heap until the render ends, so cycles are harmless. */
struct Object {
  virtual ~Object() = default;
};

/** Positional and keyword arguments of a call. */
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

/** A filter, test, function or method in C++. `self` is the filtered value or the object of the method. On failure it
 *  has called Runtime::fail and returns false. */
using Function = bool (*)(Runtime& rt, const Value& self, const Arguments& args, Value* out);

struct NamedFunction {
  std::string_view name;
  Function function;
};

/** One value. Scalars carry whether they stem from the template; texts know it per byte, containers per element. */
struct Value {
  Kind kind = Kind::kUndefined;
  bool trusted = true;
  union {
    int64_t integer = 0;
    double number;
    bool boolean;
    Object* object;
    const NamedFunction* function;
  };
  TextPtr text;  // kString: the text (never null); kUndefined: why (may be null)

  static Value none(bool trusted = true) { return scalar(Kind::kNone, trusted); }
  static Value of_bool(bool value, bool trusted = true) {
    Value v = scalar(Kind::kBool, trusted);
    v.boolean = value;
    return v;
  }
  static Value of_int(int64_t value, bool trusted = true) {
    Value v = scalar(Kind::kInt, trusted);
    v.integer = value;
    return v;
  }
  static Value of_float(double value, bool trusted = true) {
    Value v = scalar(Kind::kFloat, trusted);
    v.number = value;
    return v;
  }
  static Value of_text(TextPtr value) {
    Value v = scalar(Kind::kString, true);
    v.text = std::move(value);
    return v;
  }
  static Value of_object(Kind kind, Object* value) {
    Value v = scalar(kind, true);
    v.object = value;
    return v;
  }

  bool is(Kind k) const { return kind == k; }
  /** bool, int: what Python's int operations accept. */
  bool is_integral() const { return kind == Kind::kInt || kind == Kind::kBool; }
  bool is_numeric() const { return is_integral() || kind == Kind::kFloat; }
  int64_t as_int() const { return kind == Kind::kBool ? static_cast<int64_t>(boolean) : integer; }
  double as_double() const { return kind == Kind::kFloat ? number : static_cast<double>(as_int()); }
  std::string_view bytes() const { return text ? text->bytes() : std::string_view(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(object);
  }

 private:
  static Value scalar(Kind kind, bool trusted) {
    Value v;
    v.kind = kind;
    v.trusted = trusted;
    return v;
  }
};

/** kList and kTuple. */
struct ListObject : Object {
  std::vector<Value> items;
  bool trusted = true;  // the brackets and commas when printed
  bool group = false;   // a tuple of `groupby`, with attributes grouper and list
};

/** An insertion-ordered map; keys are hashable values. */
struct DictObject : Object {
  struct Entry {
    Value key, value;
    size_t hash;
  };
  std::vector<Entry> entries;
  bool trusted = true;

  /** Finds a key; `*found` is null when absent. Fails on an unhashable key. */
  bool find(Runtime& rt, const Value& key, Value** found);
  /** A key spelled `name`, or null. */
  const Value* find_text(std::string_view name) const;
  bool set(Runtime& rt, const Value& key, Value value);
  /** Removes entry `index`. */
  void erase(size_t index);
  /** Index of a key, or kEnd. */
  bool index_of(Runtime& rt, const Value& key, size_t* index);

 private:
  void rebuild(size_t slots);
  size_t probe(size_t hash) const;
  std::vector<uint32_t> slots_;  // open addressing: entry index + 1, 0 = free; empty while there are few entries
};

struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1;
  bool trusted = true;
  size_t size() const;
  int64_t at(size_t index) const { return start + static_cast<int64_t>(index) * step; }
};

/** A one-shot iterator: what generators of filters are in Jinja2. */
struct IteratorObject : Object {
  std::vector<Value> items;
  size_t cursor = 0;
};

struct DictViewObject : Object {
  enum class What : uint8_t { kKeys, kValues, kItems };
  DictObject* dict = nullptr;
  What what = What::kKeys;
};

struct NamespaceObject : Object {
  DictObject attributes;
};

struct MethodObject : Object {
  Value self;
  const NamedFunction* method = nullptr;
};

struct CyclerObject : Object {
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : Object {
  TextPtr separator;
  bool used = false;
};

/** Where a `for` or a filter gets its elements from, one at a time; sees changes of a list as Python does. */
class Elements {
 public:
  /** Fails where `source` cannot be iterated. */
  bool start(Runtime& rt, const Value& source);
  /** Next element into `*out`, or `*done`. */
  bool next(Runtime& rt, Value* out, bool* done);

 private:
  Value source_;
  size_t position_ = 0;
};

/** Python's name of a value's type, for messages: "str", "int", "dict", … */
const char* type_name(const Value& value);
/** "'dict object'"-style description of undefined attributes' owners, without quotes. */
std::string describe_type(const Value& value);

bool truthy(Runtime& rt, const Value& value);
bool equal(Runtime& rt, const Value& a, const Value& b, bool* out, int depth = 0);
/** Three-way order: -1, 0, 1; 2 = unordered (NaN). `op` names the operator for the message. */
bool order(Runtime& rt, const Value& a, const Value& b, const char* op, int* out, int depth = 0);
bool hash_value(Runtime& rt, const Value& value, size_t* out, int depth = 0);
/** len(value); `*known` false (and no failure) where the type has no length. */
bool length_of(Runtime& rt, const Value& value, size_t* out, bool* known);
/** All elements as a new vector. */
bool collect(Runtime& rt, const Value& source, std::vector<Value>* out);

/** str(value) and repr(value) appended, each byte trusted as what it was made from. */
bool append_str(Runtime& rt, const Value& value, TextBuilder& out);
bool append_repr(Runtime& rt, const Value& value, TextBuilder& out, int depth = 0);
bool to_text(Runtime& rt, const Value& value, TextPtr* out);
/** Python's repr() of a float. */
std::string format_float(double value);

}  // namespace banter::text::jinja
