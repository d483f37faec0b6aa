// Result<T>: a value, or an error code with a sentence a person can act on. We never throw; see CONTRIBUTING.md.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "banter/result.h"

namespace banter {

/** Why something failed. `message` is one English sentence: what, where, and what to do about it. */
struct Error {
  banter_result code = BANTER_ERROR_INTERNAL;
  std::string message;
};

/** A T, or the Error that kept us from having one. */
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace banter
