// What banter_last_error_message() returns: one message per thread.
#pragma once

#include <string>

#include "banter/result.h"

namespace banter::api {

/** Keeps the message for this thread and returns the code. No allocation. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
banter_result
fail(banter_result code, const char* format, ...) noexcept;

/** The same for a text that needs no formatting: the refusals of the game thread's calls, which should cost little. */
banter_result fail_plainly(banter_result code, const char* message) noexcept;

/** "" when nothing failed on this thread yet. Valid until this thread's next failure. */
const char* thread_error() noexcept;

}  // namespace banter::api
