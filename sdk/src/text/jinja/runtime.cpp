#include "text/jinja/runtime.h"

namespace banter::text::jinja {

bool Runtime::fail(std::string message) {
  if (!failed_) {
    failed_ = true;
    error_line_ = line;
    message_ = std::move(message);
  }
  return false;
}

bool Runtime::raise(std::string message) {
  if (!failed_) raised_ = true;
  return fail(std::move(message));
}

bool Runtime::fail_undefined(const Value& value) {
  return fail(value.text == nullptr ? "a value is undefined" : std::string(value.bytes()));
}

bool Runtime::count_values(uint64_t count) {
  if (count > kEnd / sizeof(Value) || !budget.fits(static_cast<size_t>(count) * sizeof(Value))) {
    budget.fits(kEnd);
    return check();
  }
  budget.reserve(static_cast<size_t>(count) * sizeof(Value));
  return charge(count);
}

Value Runtime::make_list(std::vector<Value> items, Kind kind) {
  auto* list = make<ListObject>();
  budget.reserve(items.size() * sizeof(Value));
  list->items = std::move(items);
  return Value::of_object(kind, list);
}

Value Runtime::make_iterator(std::vector<Value> items) {
  auto* iterator = make<IteratorObject>();
  budget.reserve(items.size() * sizeof(Value));
  iterator->items = std::move(items);
  return Value::of_object(Kind::kIterator, iterator);
}

Value Runtime::text(std::string_view bytes, bool trusted) {
  TextBuilder builder(budget);
  builder.append(bytes, trusted);
  return Value::of_text(builder.finish());
}

bool Runtime::finish(TextBuilder& builder, Value* out, bool markup) {
  if (!check()) return false;
  *out = Value::of_text(builder.finish(markup));
  return check();
}

Value Runtime::undefined(std::string_view why) {
  Value value;
  TextBuilder builder(budget);
  builder.append(why, false);
  value.text = builder.finish();
  return value;
}

}  // namespace banter::text::jinja
