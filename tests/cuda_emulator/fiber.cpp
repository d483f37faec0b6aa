#include "cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define BANTER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BANTER_ASAN 1
#endif
#endif
#if defined(BANTER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

// banter_emulator_switch(void** save, void* load): pushes the registers that a call must preserve, stores the stack
// pointer, loads the other one and returns there.
#if defined(__x86_64__)
asm(R"(
.text
.globl banter_emulator_switch
.hidden banter_emulator_switch
.type banter_emulator_switch,@function
banter_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size banter_emulator_switch, .-banter_emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl banter_emulator_switch
.hidden banter_emulator_switch
.type banter_emulator_switch,%function
banter_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size banter_emulator_switch, .-banter_emulator_switch
)");
#endif

extern "C" void banter_emulator_switch(void** save, void* load);

namespace banter::cuda_emulator {
namespace {

constexpr size_t kGuard = 64 * 1024;  // a multiple of every page size

#if !defined(__x86_64__) && !defined(__aarch64__)
// Elsewhere the C library's contexts serve; stack_pointer points to one.
ucontext_t* context_of(Fiber& fiber) {
  if (fiber.stack_pointer == nullptr) fiber.stack_pointer = std::calloc(1, sizeof(ucontext_t));
  return static_cast<ucontext_t*>(fiber.stack_pointer);
}
#endif

}  // namespace

void make_fiber(Fiber& fiber, void (*entry)()) {
  void* const memory =
      mmap(nullptr, kGuard + kFiberStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuard, PROT_NONE) != 0) {
    std::fprintf(stderr, "cuda_emulator: no memory for a thread's stack\n");
    std::abort();
  }
  fiber.stack = static_cast<std::byte*>(memory) + kGuard;
  fiber.stack_bytes = kFiberStack;
  restart_fiber(fiber, entry);
}

void restart_fiber(Fiber& fiber, void (*entry)()) {
#if defined(BANTER_ASAN)
  __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);  // what the frames that are given up had marked
#endif
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(fiber.stack + fiber.stack_bytes);
  *--top = nullptr;  // the entry function's return address
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
#elif defined(__aarch64__)
  auto* top = reinterpret_cast<void**>(fiber.stack + fiber.stack_bytes) - 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(entry);  // x30
  fiber.stack_pointer = top;
#else
  ucontext_t* const context = context_of(fiber);
  getcontext(context);
  context->uc_stack.ss_sp = fiber.stack;
  context->uc_stack.ss_size = fiber.stack_bytes;
  makecontext(context, entry, 0);
#endif
  fiber.fake_stack = nullptr;
}

void switch_fiber(Fiber& from, Fiber& to) {
#if defined(BANTER_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  banter_emulator_switch(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(context_of(from), context_of(to));
#endif
#if defined(BANTER_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void fiber_started() {
#if defined(BANTER_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

}  // namespace banter::cuda_emulator
