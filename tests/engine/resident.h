// How much memory this process has, for tests that it stays so.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace banter::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/** Their own memory grows as they please, and everything takes many times as long. */
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline size_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace banter::test
