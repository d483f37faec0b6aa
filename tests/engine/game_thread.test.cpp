// What the game's thread pays for: in submit, cancel and poll no allocation, no lock, and no system call but one to wake
// an engine that sleeps. Counted, not believed: malloc and the lock functions are replaced, and a seccomp filter on the
// game thread traps every system call other than futex, which goes through syscall(), also replaced.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "engine/test_host.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BANTER_SANITIZED 1
#else
#define BANTER_SANITIZED 0
#endif

namespace {

struct Counts {
  long allocations = 0, locks = 0, wakes = 0, other_futexes = 0;
};
thread_local bool t_counting = false;
thread_local Counts t_counts;
volatile sig_atomic_t g_trapped = 0;
volatile sig_atomic_t g_trapped_number = -1;

}  // namespace

#if !BANTER_SANITIZED
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (t_counting) ++t_counts.allocations;
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? 12 : 0;
}
void free(void* memory) {
  if (t_counting && memory != nullptr) ++t_counts.allocations;
  __libc_free(memory);
}

#define BANTER_COUNT_LOCK(name, type)                                             \
  int name(type* object) {                                                        \
    using Function = int (*)(type*);                                              \
    static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, #name)); \
    if (t_counting) ++t_counts.locks;                                             \
    return real(object);                                                          \
  }
BANTER_COUNT_LOCK(pthread_mutex_lock, pthread_mutex_t)
BANTER_COUNT_LOCK(pthread_mutex_trylock, pthread_mutex_t)
BANTER_COUNT_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
BANTER_COUNT_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
#undef BANTER_COUNT_LOCK
int pthread_spin_lock(pthread_spinlock_t* lock) {
  using Function = int (*)(pthread_spinlock_t*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_spin_lock"));
  if (t_counting) ++t_counts.locks;
  return real(lock);
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& value : a) value = va_arg(list, long);
  va_end(list);
  if (t_counting && number == SYS_futex) {
    ((a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE ? t_counts.wakes : t_counts.other_futexes) += 1;
  }
  long result;
  register long r10 __asm__("r10") = a[3];
  register long r8 __asm__("r8") = a[4];
  register long r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result < 0 ? -1 : result;
}
}  // extern "C"
#endif

namespace banter::test {
namespace {

void on_trap(int, siginfo_t* info, void*) {
  g_trapped = g_trapped + 1;
  g_trapped_number = info->si_syscall;
}

/** From now on this thread's system calls, futex and leaving a signal handler apart, raise SIGSYS instead. For good: so
 *  the thread may only count afterwards, and never ends while the process lives. */
bool trap_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  sock_fprog program{static_cast<unsigned short>(sizeof filter / sizeof filter[0]), filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct Work {
  banter_engine* engine = nullptr;
  banter_model* model = nullptr;
  std::vector<banter_npc*> npcs;
  int rounds = 0;
  // Results.
  std::atomic<int> state{0};  // 1: done, 2: no seccomp here
  Counts counts;
  long calls = 0, accepted = 0, busy = 0, events = 0, terminals = 0, stale = 0, refused = 0, begun = 0;
};

void frame(Work& work, int i, const std::string& words, Ask& ask) {
  banter_npc* const npc = work.npcs[static_cast<size_t>(i) % work.npcs.size()];
  banter_request_id request = 0;
  banter_result code = i % 5 == 0 ? banter_model_complete(work.model, words.data(), words.size(), &ask.config, &request)
                                  : banter_npc_say(npc, words.data(), words.size(), &ask.config, &request);
  ++work.calls;
  (code == BANTER_OK ? work.accepted : work.busy) += 1;
  if (i % 3 == 0) {
    (void)banter_cancel(work.engine, request);
    ++work.calls;
  }
  if (i % 4 == 0) {
    work.stale += banter_cancel(work.engine, 0xFFFFFF) == BANTER_ERROR_NOT_FOUND;
    work.refused += banter_npc_say(npc, "\xFF", 1, nullptr, &request) == BANTER_ERROR_INVALID_ARGUMENT;
    work.calls += 2;
  }
  (void)banter_npc_add_turn(npc, BANTER_ROLE_USER, "aside", 5);
  if (i % 6 == 0) (void)banter_npc_reset(npc);
  // Frames come and go, with a budget that is set anew and taken away.
  if (i % 50 == 0) (void)banter_engine_set_frame_budget(work.engine, i % 100 == 0 ? 0.0f : 4.0f);
  work.begun += banter_engine_begin_frame(work.engine) == BANTER_OK;
  ++work.calls;
  banter_event events[16];
  uint32_t count = 0;
  (void)banter_poll(work.engine, events, sizeof events[0], 16, &count);
  work.calls += 3;
  work.events += count;
  for (uint32_t e = 0; e < count; ++e) work.terminals += is_terminal(events[e].kind);
  banter_engine_statistics figures;
  figures.struct_size = sizeof figures;
  (void)banter_engine_get_statistics(work.engine, &figures);
  char line[4096];
  size_t length = 0;
  (void)banter_engine_get_metrics_json(work.engine, line, sizeof line, &length);
}

void* game(void* argument) {
  Work& work = *static_cast<Work*>(argument);
  const std::string words(700, 'w');
  Ask ask(6, kGoOn);
  ask.stops = {"stop one", "stop two"};
  ask.bans = {"never"};
  ask.get();
  frame(work, 0, words, ask);  // what a first call may cost once (lazy binding) is not counted
  work.calls = work.accepted = work.busy = work.events = work.terminals = work.stale = work.refused = 0;
  if (!trap_system_calls()) {
    work.state = 2;
    for (;;) pause();
  }
  t_counts = {};
  t_counting = true;
  const auto start = std::chrono::steady_clock::now();  // no system call where the clock is mapped
  auto next = start;
  for (int i = 1; i <= work.rounds || work.terminals < 400; ++i) {
    frame(work, i, words, ask);
    // Let the engine work: a pause without a system call.
    next += std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < next) {
    }
    if (next > start + std::chrono::seconds(50)) break;
  }
  t_counting = false;
  work.counts = t_counts;
  work.state = 1;
  for (;;) {  // ending would need system calls
    static std::atomic<uint32_t> never{0};
    syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
  return nullptr;
}

TEST(GameThread, SubmitCancelAndPollTakeNoLockNoMemoryAndNoSystemCall) {
  if (BANTER_SANITIZED) GTEST_SKIP() << "The sanitizers replace malloc and make system calls of their own.";
  static const auto bytes = tiny_model();
  static Host host([](banter_engine_config& c) {
    c.max_requests = 24;
    c.max_events = 64;
    c.text_buffer_bytes = 16384;
  });
  static Work work;  // the game thread never ends, so what it uses must stay
  work.engine = host.engine;
  work.model = host.load(bytes);
  for (int i = 0; i < 6; ++i) work.npcs.push_back(host.npc(work.model, "P"));
  work.rounds = 1000;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, game, &work), 0);
  for (int i = 0; i < 60000 && work.state == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (work.state == 2) GTEST_SKIP() << "This system allows no seccomp filter, so system calls cannot be counted.";
  ASSERT_EQ(work.state, 1);

  EXPECT_EQ(work.counts.allocations, 0);
  EXPECT_EQ(work.counts.locks, 0);
  EXPECT_EQ(g_trapped, 0) << "system call number " << g_trapped_number;
  EXPECT_EQ(work.counts.other_futexes, 0);
  EXPECT_LE(work.counts.wakes, work.calls);
  // The test must have met what it is about.
  EXPECT_GT(work.accepted, 100);
  EXPECT_GT(work.terminals, 100);
  EXPECT_GT(work.events, work.terminals);
  EXPECT_GT(work.stale, 100);
  EXPECT_GT(work.refused, 100);
  EXPECT_GE(work.begun, 1000);
  std::printf("%ld calls, %ld accepted, %ld busy, %ld events: %ld wake-ups, nothing else\n", work.calls, work.accepted,
              work.busy, work.events, work.counts.wakes);
}

TEST(GameThread, TheCountersCount) {
  if (BANTER_SANITIZED) GTEST_SKIP() << "The sanitizers replace malloc and make system calls of their own.";
  t_counts = {};
  t_counting = true;
  void* volatile memory = malloc(10);
  free(memory);
  auto* const object = new int(3);
  delete object;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  std::atomic<uint32_t> word{0};
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  t_counting = false;
  EXPECT_GE(t_counts.allocations, 2);
  EXPECT_EQ(t_counts.locks, 1);
  EXPECT_EQ(t_counts.wakes, 1);

  // A child in which one forbidden call is made: it must be trapped.
  EXPECT_EXIT(
      {
        g_trapped = 0;
        if (!trap_system_calls()) _exit(7);
        (void)getppid();
        const bool trapped = g_trapped == 1 && g_trapped_number == SYS_getppid;
        // Every way to end is a system call, which is trapped: so end by a fault with a number that tells.
        if (trapped) __builtin_trap();
        for (;;) {
        }
      },
      [](int status) { return WIFSIGNALED(status) ? WTERMSIG(status) == SIGILL : WEXITSTATUS(status) == 7; }, "");
}

TEST(GameThread, OnlyASleepingEngineCostsAWakeUp) {
  if (BANTER_SANITIZED) GTEST_SKIP() << "The sanitizers replace malloc and make system calls of their own.";
  const auto bytes = tiny_model();
  Host host;
  banter_model* const model = host.load(bytes);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it sleeps
    Ask ask(3, kGoOn);
    banter_request_id request = 0;
    t_counts = {};
    t_counting = true;
    ASSERT_EQ(banter_model_complete(model, "x", 1, ask.get(), &request), BANTER_OK);
    t_counting = false;
    EXPECT_EQ(t_counts.wakes, 1);
    EXPECT_EQ(t_counts.other_futexes, 0);
    host.finish(request);
  }
}

}  // namespace
}  // namespace banter::test
