/* Preloaded into Godot for the tests of sanitizer builds. Godot opens extensions with RTLD_DEEPBIND, so that they bind to their own copies of
   what the process has already; the sanitizers' run-time libraries refuse that, because their replacements of malloc and others must be found.
   This dlopen leaves the flag out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void* dlopen(const char* path, int flags) {
  typedef void* (*open_function)(const char*, int);
  static open_function next;
  if (next == NULL) {
    /* A function's address comes as an object's. */
    *(void**)&next = dlsym(RTLD_NEXT, "dlopen");
  }
  return next(path, flags & ~RTLD_DEEPBIND);
}
