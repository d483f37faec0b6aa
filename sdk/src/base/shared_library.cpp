#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace banter {
namespace {

struct Free {
  void operator()(char* text) const { std::free(text); }
};

/** "" with errno set when there is no such file. */
std::string absolute_path(const std::string& path) {
  const std::unique_ptr<char, Free> resolved(realpath(path.c_str(), nullptr));
  return resolved == nullptr ? std::string() : std::string(resolved.get());
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const std::string& path) {
  const std::string absolute = absolute_path(path);
  if (absolute.empty()) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return Error{BANTER_ERROR_FILE_NOT_FOUND, "there is no file " + path + "."};
    }
    return Error{BANTER_ERROR_IO, path + " cannot be opened: " + std::strerror(error) + "."};
  }
  void* const handle = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return Error{BANTER_ERROR_UNSUPPORTED,
                 "the system cannot load it: " + std::string(why != nullptr ? why : absolute.c_str()) + "."};
  }
  return SharedLibrary(handle);
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) static_cast<void>(dlclose(handle_));
}

void* SharedLibrary::symbol(const char* name) const {
  return dlsym(handle_, name);
}

Result<CodeLocation> locate_this_code() {
  const auto here = reinterpret_cast<void*>(&locate_this_code);
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || info.dli_fname == nullptr) {
    return Error{BANTER_ERROR_IO, "the system does not tell where this library is."};
  }
  CodeLocation location;
  // The program's own entry has no name; what dladdr() gives for it is how it was called, which may be relative.
  location.is_program = map != nullptr && map->l_name != nullptr && map->l_name[0] == '\0';
  location.path = absolute_path(location.is_program ? "/proc/self/exe" : info.dli_fname);
  if (location.path.empty()) {
    return Error{BANTER_ERROR_IO, "the system does not tell where this library is: " + std::string(info.dli_fname) +
                                      " has no absolute path."};
  }
  return location;
}

}  // namespace banter
