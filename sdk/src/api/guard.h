// The border of the library: no exception leaves, every failure has a code and a message.
#pragma once

#include "api/thread_error.h"
#include "engine/guard.h"

namespace banter::api {

/** Runs the body of an exported function, which returns a code and has called fail() where it is not BANTER_OK.
 *  engine::guarded(), which the engine thread uses too, is the one place that catches. */
template <class F>
banter_result guard(F&& body) noexcept {
  banter_result code = BANTER_OK;
  const Result<void> ran = engine::guarded([&]() -> Result<void> {
    code = body();
    return {};
  });
  if (ran) return code;
  return fail(ran.error().code, "%s", ran.error().message.c_str());
}

inline banter_result fail(const Error& error) noexcept {
  return fail(error.code, "%s", error.message.c_str());
}

}  // namespace banter::api
