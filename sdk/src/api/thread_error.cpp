#include "api/thread_error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace banter::api {
namespace {

constexpr size_t kMessageBytes = 512;
/** The library's only state outside objects: a caller's latest message belongs to its thread, not to any engine. */
thread_local char t_message[kMessageBytes] = "";

}  // namespace

banter_result fail(banter_result code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(t_message, kMessageBytes, format, arguments);
  va_end(arguments);
  return code;
}

banter_result fail_plainly(banter_result code, const char* message) noexcept {
  const size_t length = std::min(std::strlen(message), kMessageBytes - 1);
  std::memcpy(t_message, message, length);
  t_message[length] = '\0';
  return code;
}

const char* thread_error() noexcept {
  return t_message;
}

}  // namespace banter::api
