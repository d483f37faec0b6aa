// A parser with a planted fault, to prove that the replay driver finds one: it dies on a length byte above what
// follows.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2 && data[0] == '#' && data[1] > size - 2) {
    fprintf(stderr, "planted fault reached\n");
    abort();
  }
  return 0;
}
