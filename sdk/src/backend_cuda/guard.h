// Nothing thrown (bad_alloc of a container) may leave the library.
#pragma once

#include <new>
#include <utility>

#include "banter/result.h"
#include "base/result.h"

namespace banter::cuda {

/** What `body` returns; or, where it throws, what `failed(code, sentence)` makes of that, which must not throw. The sentences
 *  fit into a string without memory. */
template <class F, class Failed>
auto guarded(F&& body, Failed&& failed) noexcept -> decltype(body()) {
  try {
    return std::forward<F>(body)();
  } catch (const std::bad_alloc&) {
    return failed(BANTER_ERROR_OUT_OF_MEMORY, "Out of memory.");
  } catch (...) {
    return failed(BANTER_ERROR_INTERNAL, "Internal error.");
  }
}

/** The same for a `body` that returns a Result. */
template <class F>
auto guarded(F&& body) noexcept -> decltype(body()) {
  return guarded(std::forward<F>(body), [](banter_result code, const char* why) { return Error{code, why}; });
}

}  // namespace banter::cuda
