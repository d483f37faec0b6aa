// Shared libraries that are opened at run time.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace banter {

/** An opened library; closed when this goes, unless keep() was called. */
class SharedLibrary {
 public:
  /** All of its symbols are resolved now, and none is seen by other libraries. A relative path is taken from the current
   *  folder, never searched for. Errors: FILE_NOT_FOUND, UNSUPPORTED (no library, another machine's, a symbol missing). */
  static Result<SharedLibrary> open(const std::string& path);

  SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedLibrary& operator=(SharedLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~SharedLibrary();

  /** Null when there is no such symbol. */
  void* symbol(const char* name) const;
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  /** The library stays for the life of the process. */
  void keep() { handle_ = nullptr; }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

/** Where this code is: the absolute path of the library or, when it was linked statically, of the program. */
struct CodeLocation {
  std::string path;
  bool is_program = false;
};
/** Errors: IO, when the system does not tell. */
Result<CodeLocation> locate_this_code();

}  // namespace banter
