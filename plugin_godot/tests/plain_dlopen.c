/* Preloaded into Godot for the tests of sanitizer builds. Godot opens extensions with RTLD_DEEPBIND, so that they bind to their own copies of
   what the process has already; the sanitizers' run-time libraries refuse that, because their replacements of malloc and others must be found.
   This dlopen leaves the flag out. With BANTER_KEEP_LIBRARY in the environment the extension stays where it is when Godot closes it: else nobody
   could tell any more, when leaks are looked for, whose they are. With BANTER_PLANT_FAULT in the environment it does something wrong when the extension is opened: a test that
   wrong is found. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static volatile int shared;

static void* touch_shared(void* unused) {
  int i;
  for (i = 0; i < 1000; i++) shared = i;
  return unused;
}

/* A race for the thread sanitizer, a write behind a block for the address sanitizer. */
static void plant_fault(void) {
  pthread_t thread;
  volatile char* block;
  if (pthread_create(&thread, NULL, touch_shared, NULL) == 0) {
    touch_shared(NULL);
    pthread_join(thread, NULL);
  }
  block = malloc(8);
  if (block != NULL) block[8 + shared % 2] = 1;
  free((void*)block);
}

void* dlopen(const char* path, int flags) {
  typedef void* (*open_function)(const char*, int);
  open_function next;
  /* A function's address comes as an object's. */
  *(void**)&next = dlsym(RTLD_NEXT, "dlopen");
  if (path != NULL && strstr(path, "libbanter_godot") != NULL && getenv("BANTER_PLANT_FAULT") != NULL) plant_fault();
  if (path != NULL && strstr(path, "libbanter_godot") != NULL && getenv("BANTER_KEEP_LIBRARY") != NULL)
    flags |= RTLD_NODELETE;
  return next(path, flags & ~RTLD_DEEPBIND);
}
