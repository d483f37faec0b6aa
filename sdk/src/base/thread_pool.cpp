#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace banter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kMaxThreads = 256;
/** How long a thread polls before it sleeps. Ops of a step follow each other within tens of microseconds, and a wake-up
 *  costs 5 to 50; so this bridges the gaps inside a step and burns nothing between steps. */
constexpr auto kSpin = std::chrono::microseconds(60);

// A worker that the system takes off its processor in the middle of a unit holds the whole job up for a time slice, some
// milliseconds. A busy game does that to us all the time, and then more threads are slower than one. So a worker that was
// waited for too long sits out a number of jobs, twice as many each time it happens soon again.
constexpr auto kStall = std::chrono::microseconds(500);  // ten times a unit and more
constexpr uint32_t kFirstBench = 32;                     // jobs
constexpr uint32_t kLongestBench = 2048;                 // some 100 ms, against a stall of about 4
constexpr uint32_t kGoodJobs = 512;                      // without a stall: the next bench is short again

inline void relax() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/** Polls until `ready()`; false when the time is over. The clock is read every 32 polls only. */
template <class F>
bool spin_until(F&& ready) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
    if (Clock::now() - start > kSpin) return false;
  }
}

constexpr uint32_t kClosed = UINT32_MAX;  // a ticket's unit: none can be claimed

/** One job at a time. `ticket_` holds (job number << 32 | next unclaimed unit): a unit is claimed by incrementing it with
 *  compare-exchange, so a worker that wakes late, with an old job number, can claim nothing. The job's other fields are
 *  only written while the ticket is closed and no unit is claimed, and a successful claim proves that they were read whole. */
class Pool final : public ThreadPool {
 public:
  explicit Pool(const ThreadPoolConfig& config) : config_(config), slots_(static_cast<size_t>(config.threads) - 1) {}

  ~Pool() override {
    stop_.store(true, std::memory_order_relaxed);
    for (Slot& slot : slots_) {
      slot.job.fetch_add(1, std::memory_order_seq_cst);
      slot.job.notify_one();
    }
    for (std::thread& worker : workers_) worker.join();
  }

  Result<void> start() {
    workers_.reserve(slots_.size());
    for (int32_t i = 1; i < config_.threads; ++i) {
      // std::thread reports failure only by throwing; this is the one place where we must catch it.
      try {
        workers_.emplace_back([this, i] { work(i); });
      } catch (const std::system_error& error) {
        return Error{BANTER_ERROR_OUT_OF_MEMORY, "Could not start worker thread " + std::to_string(i) + " of " +
                                                     std::to_string(config_.threads) + " (" + error.what() +
                                                     "); ask for fewer threads."};
      }
    }
    return {};
  }

  int32_t threads() const override { return config_.threads; }

  void run(int32_t units, Body body, void* context) override {
    if (units <= 0) return;
    if (units == 1 || slots_.empty()) {
      for (int32_t unit = 0; unit < units; ++unit) body(context, unit, 0);
      return;
    }
    if (++job_ == 0) job_ = 1;  // 0 means "none" in Slot::busy
    // First no unit may be claimable: a late worker that still holds the last ticket of the job before would take the new
    // count for that job's, and claim a unit beyond its end. Release, so that who reads a new field sees the ticket closed.
    ticket_.store(uint64_t{job_} << 32 | kClosed, std::memory_order_relaxed);
    body_.store(body, std::memory_order_release);
    context_.store(context, std::memory_order_release);
    units_.store(static_cast<uint32_t>(units), std::memory_order_release);
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(uint64_t{job_} << 32, std::memory_order_release);
    wake(units - 1);
    take_units(job_, 0, nullptr);
    wait_for_others(static_cast<uint32_t>(units));
  }

 private:
  /** What concerns one worker. */
  struct alignas(64) Slot {
    std::atomic<uint32_t> job{0};  // the newest it shall look at
    std::atomic<bool> sleeping{false};
    std::atomic<uint32_t> busy{0};  // the job whose unit it is working on
    // Of the caller only:
    uint32_t benched = 0;  // jobs that it still sits out
    uint32_t next_bench = kFirstBench;
    uint32_t good_jobs = 0;
  };

  void wake(int32_t wanted) {
    for (Slot& slot : slots_) {
      if (wanted == 0) return;
      if (slot.benched > 0) {
        --slot.benched;
        continue;
      }
      if (++slot.good_jobs >= kGoodJobs) slot.next_bench = kFirstBench;
      --wanted;
      slot.job.store(job_, std::memory_order_seq_cst);
      if (slot.sleeping.load(std::memory_order_seq_cst)) slot.job.notify_one();
    }
  }

  void work(int32_t index) {
    const std::string name = "banter-" + std::to_string(index);
    configure_this_thread(name.c_str(), config_.affinity_mask, config_.low_priority);
    Slot& slot = slots_[static_cast<size_t>(index) - 1];
    uint32_t seen = 0;
    for (;;) {
      if (!spin_until([&] { return slot.job.load(std::memory_order_acquire) != seen; })) {
        slot.sleeping.store(true, std::memory_order_seq_cst);
        slot.job.wait(seen, std::memory_order_seq_cst);
        slot.sleeping.store(false, std::memory_order_relaxed);
      }
      // In this order: a number read after stop_ could be the one that the destructor set, and we would wait for another.
      seen = slot.job.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      take_units(seen, index, &slot);
    }
  }

  void take_units(uint32_t job, int32_t thread, Slot* slot) {
    uint32_t executed = 0;
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    for (;;) {
      const Body body = body_.load(std::memory_order_acquire);
      void* const context = context_.load(std::memory_order_acquire);
      if (static_cast<uint32_t>(ticket >> 32) != job) break;
      const auto unit = static_cast<uint32_t>(ticket);
      if (unit >= units_.load(std::memory_order_acquire)) break;
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        continue;
      }
      if (slot != nullptr && executed == 0) slot->busy.store(job, std::memory_order_relaxed);
      body(context, static_cast<int32_t>(unit), thread);
      ++executed;
      ticket = ticket_.load(std::memory_order_acquire);
    }
    if (executed == 0) return;
    if (slot != nullptr) slot->busy.store(0, std::memory_order_relaxed);
    const uint32_t done = done_.fetch_add(executed, std::memory_order_seq_cst) + executed;
    if (slot != nullptr && done == awaited_.load(std::memory_order_seq_cst)) done_.notify_one();
  }

  void wait_for_others(uint32_t units) {
    if (spin_until([&] { return done_.load(std::memory_order_acquire) == units; })) return;
    uint32_t slow[kMaxThreads];
    size_t slow_count = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].busy.load(std::memory_order_relaxed) == job_) slow[slow_count++] = static_cast<uint32_t>(i);
    }
    const Clock::time_point start = Clock::now();
    awaited_.store(units, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t done = done_.load(std::memory_order_seq_cst);
      if (done == units) break;
      done_.wait(done, std::memory_order_seq_cst);
    }
    awaited_.store(0, std::memory_order_relaxed);
    if (Clock::now() - start < kStall) return;
    for (size_t i = 0; i < slow_count; ++i) {
      Slot& slot = slots_[slow[i]];
      slot.benched = slot.next_bench;
      slot.next_bench = std::min(2 * slot.next_bench, kLongestBench);
      slot.good_jobs = 0;
    }
  }

  const ThreadPoolConfig config_;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
  uint32_t job_ = 0;  // of the caller only
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<uint32_t> units_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<uint32_t> awaited_{0};  // units of the job whose caller sleeps in wait_for_others(); 0 = it does not
};

#if defined(__linux__)
/** Distinct physical cores among the CPUs we may run on: hyper-threads share the vector units that limit us. */
int32_t physical_cores(const cpu_set_t& allowed) {
  std::vector<std::pair<int, int>> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::pair<int, int> core{-1, -1};  // package, core
    for (int part = 0; part < 2; ++part) {
      char path[96];
      std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu,
                    part == 0 ? "physical_package_id" : "core_id");
      if (std::FILE* file = std::fopen(path, "r")) {
        int value = -1;
        if (std::fscanf(file, "%d", &value) == 1) (part == 0 ? core.first : core.second) = value;
        std::fclose(file);
      }
    }
    if (core.second < 0) core = {-2, cpu};  // unknown: count it alone
    if (std::find(seen.begin(), seen.end(), core) == seen.end()) seen.push_back(core);
  }
  return static_cast<int32_t>(seen.size());
}
#endif

int32_t usable_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, physical_cores(allowed));
#endif
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(const ThreadPoolConfig& config) {
  if (config.threads < 1 || config.threads > kMaxThreads) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "A thread pool of " + std::to_string(config.threads) +
                                                    " threads was asked for; give 1 to " + std::to_string(kMaxThreads) +
                                                    "."};
  }
  auto pool = std::make_unique<Pool>(config);
  if (Result<void> started = pool->start(); !started) return started.error();
  return std::unique_ptr<ThreadPool>(std::move(pool));
}

int32_t default_thread_count() {
  const int32_t cores = usable_cores();
  return cores > 4 ? cores - 2 : cores;
}

void configure_this_thread(const char* name, uint64_t affinity_mask, bool low_priority) {
#if defined(_WIN32)
  if (affinity_mask != 0) SetThreadAffinityMask(GetCurrentThread(), static_cast<DWORD_PTR>(affinity_mask));
  if (low_priority) SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
  wchar_t wide[64];
  if (MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, 64) > 0) SetThreadDescription(GetCurrentThread(), wide);
#elif defined(__APPLE__)
  pthread_setname_np(name);
  if (low_priority) pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
  (void)affinity_mask;
#else
  char short_name[16];  // the kernel's limit
  std::snprintf(short_name, sizeof short_name, "%s", name);
  pthread_setname_np(pthread_self(), short_name);
  if (affinity_mask != 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < 64; ++cpu) {
      if ((affinity_mask >> cpu & 1u) != 0) CPU_SET(cpu, &set);
    }
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
#if defined(__linux__)
  // On Linux a nice value belongs to a thread. 5 halves our share thrice against a busy game thread, not to starvation.
  if (low_priority) {
    const auto thread = static_cast<id_t>(syscall(SYS_gettid));
    const int nice_value = getpriority(PRIO_PROCESS, thread);
    if (nice_value < 5) setpriority(PRIO_PROCESS, thread, 5);
  }
#endif
#endif
}

}  // namespace banter
