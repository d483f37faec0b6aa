// The one place that catches: nothing thrown below it (bad_alloc of a container, system_error of a thread) gets past it.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/result.h"

namespace banter::engine {

/** Runs `body` (returning Result<T>) and turns whatever is thrown into an Error. Building that Error must not throw
 *  itself, hence messages short enough to need no memory. */
template <class F>
auto guarded(F&& body) noexcept -> decltype(body()) {
  try {
    return std::forward<F>(body)();
  } catch (const std::bad_alloc&) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "Out of memory."};
  } catch (const std::system_error&) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "No thread left."};
  } catch (...) {
    return Error{BANTER_ERROR_INTERNAL, "Internal error."};
  }
}

/** The string that `make` returns, or a short one when there is no memory for it. For messages on the way out of a
 *  failure, where nothing may go wrong any more. */
template <class F>
std::string sentence(F&& make) noexcept {
  std::string text;
  const Result<void> made = guarded([&]() -> Result<void> {
    text = make();
    return {};
  });
  if (!made) text = "Out of memory.";  // fits the string itself
  return text;
}

}  // namespace banter::engine
