#include "model/memory_info.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#endif

namespace banter::model {

#ifdef _WIN32

std::optional<uint64_t> available_memory() {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  if (GlobalMemoryStatusEx(&status) == 0) return {};
  return status.ullAvailPhys;
}

#elif defined(__APPLE__)

std::optional<uint64_t> available_memory() {
  vm_statistics64_data_t statistics;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const kern_return_t result =
      host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&statistics), &count);
  if (result != KERN_SUCCESS) return {};
  return (uint64_t{statistics.free_count} + statistics.inactive_count) * vm_page_size;
}

#else

namespace {

struct FileClose {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileClose>;

std::optional<uint64_t> number_in(const char* path) {
  const File file(std::fopen(path, "re"));
  unsigned long long value = 0;
  if (file == nullptr || std::fscanf(file.get(), "%llu", &value) != 1) return {};  // "max" is no number: no limit
  return value;
}

std::optional<uint64_t> field_in(const char* path, const char* field) {
  const File file(std::fopen(path, "re"));
  if (file == nullptr) return {};
  char line[256];
  const size_t length = std::strlen(field);
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    unsigned long long value = 0;
    if (std::strncmp(line, field, length) == 0 && std::sscanf(line + length, "%llu", &value) == 1) return value;
  }
  return {};
}

// A container's own limit, as it sees it. The page cache of mapped files counts as used there but is given up first.
std::optional<uint64_t> control_group_room() {
  const std::optional<uint64_t> limit = number_in("/sys/fs/cgroup/memory.max");
  const std::optional<uint64_t> used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return {};
  const uint64_t cache = field_in("/sys/fs/cgroup/memory.stat", "file ").value_or(0);
  const uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<uint64_t> available_memory() {
  std::optional<uint64_t> available;
  if (const std::optional<uint64_t> kib = field_in("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  if (const std::optional<uint64_t> room = control_group_room()) available = std::min(available.value_or(*room), *room);
  return available;
}

#endif

}  // namespace banter::model
