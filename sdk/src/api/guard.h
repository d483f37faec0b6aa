// The border of the library: no exception leaves, every failure has a code and a message.
#pragma once

#include "api/thread_error.h"
#include "engine/guard.h"

namespace banter::engine {
class Engine;
}

namespace banter::api {

struct Caller;
/** Logs this thread's message behind the function's name, where the engine was created with BANTER_ENGINE_VALIDATE. */
void log_refusal(const Caller& caller) noexcept;

/** Who is calling: filled in by the body of an exported function, for the log of refused arguments. */
struct Caller {
  const char* function;
  const engine::Engine* engine = nullptr;
};

/** Runs the body of an exported function, which returns a code and has called fail() where it is not BANTER_OK.
 *  engine::guarded(), which the engine thread uses too, is the one place that catches. */
template <class F>
banter_result guard(const char* function, F&& body) noexcept {
  Caller caller{function};
  banter_result code = BANTER_OK;
  const Result<void> ran = engine::guarded([&]() -> Result<void> {
    code = body(caller);
    return {};
  });
  if (!ran) return fail(ran.error().code, "%s", ran.error().message.c_str());
  if (code == BANTER_ERROR_INVALID_ARGUMENT && caller.engine != nullptr) log_refusal(caller);
  return code;
}

inline banter_result fail(const Error& error) noexcept {
  return fail(error.code, "%s", error.message.c_str());
}

}  // namespace banter::api
