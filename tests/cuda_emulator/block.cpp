#include "cuda_emulator/block.h"

#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "cuda_emulator/card.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

thread_local constinit uint3 threadIdx = {0, 0, 0};
thread_local constinit uint3 blockIdx = {0, 0, 0};
thread_local constinit dim3 blockDim;
thread_local constinit dim3 gridDim;

namespace banter::cuda_emulator {

thread_local constinit Block* running_block = nullptr;

namespace {

bool same(Place a, Place b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

std::byte* map_shared() {
  void* const memory = mmap(nullptr, kSharedCapacity + 64 * 1024, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "cuda_emulator: no memory\n");
    std::abort();
  }
  return static_cast<std::byte*>(memory);
}

/** The launcher's own stack, which AddressSanitizer wants to know when fibers return to it. */
void describe_own_stack(Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &lowest, &bytes);
    pthread_attr_destroy(&attributes);
  }
  fiber.stack = static_cast<std::byte*>(lowest);
  fiber.stack_bytes = bytes;
#else
  static_cast<void>(fiber);
#endif
}

}  // namespace

// ---------------------------------------------------------------- which thread runs

uint32_t Block::choose(uint32_t bits) {
  switch (config().block_order) {
    case Order::kReverse:
      return 31 - static_cast<uint32_t>(std::countl_zero(bits));
    case Order::kShuffled: {
      random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
      const int turn = static_cast<int>(random_ & 31);
      return (static_cast<uint32_t>(std::countr_zero(std::rotr(bits, turn))) + turn) & 31;
    }
    default:
      return static_cast<uint32_t>(std::countr_zero(bits));
  }
}

/** The thread to run next, of the same warp where possible; null: none can run. */
Thread* Block::pick() {
  Warp* warp = &warps_[current_->warp];
  if ((warp->runnable | warp->unstarted) == 0) {
    ready_warps_ &= ~(1u << current_->warp);
    if (ready_warps_ == 0) return nullptr;
    warp = &warps_[choose(ready_warps_)];
  }
  const uint32_t from = warp->runnable != 0 ? warp->runnable : warp->unstarted;
  return &threads_[(warp - warps_) * kLanes + choose(from)];
}

Fiber* Block::take_fiber() {
  if (free_fibers_.empty()) {
    fibers_.push_back(new Fiber);  // kept for the whole program, as their stacks are
    make_fiber(*fibers_.back(), &Block::fiber_main);
    free_fibers_.push_back(fibers_.back());
  }
  Fiber* const fiber = free_fibers_.back();
  free_fibers_.pop_back();
  return fiber;
}

/** The thread, which has a fiber, is the one that runs next. */
void Block::enter(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
  stack_low = reinterpret_cast<uintptr_t>(thread.fiber->stack);
}

/** The running thread cannot go on: another one runs, until something has made this one runnable and it is its turn. */
void Block::run_next() {
  Thread* const self = current_;
  Thread* const next = pick();
  if (next == nullptr) {
    fault(FaultKind::kDivergentBarrier, 0, "all threads wait, at different places");
  }
  Warp& warp = warps_[next->warp];
  const uint32_t bit = 1u << next->lane;
  if ((warp.unstarted & bit) != 0) next->fiber = take_fiber();
  warp.unstarted &= ~bit;
  warp.runnable &= ~bit;
  enter(*next);
  switch_fiber(*self->fiber, *next->fiber);
}

/** What each fiber does: one thread after another, as long as threads end without having waited for others. */
void Block::fiber_main() {
  fiber_started();
  for (;;) run_thread();
}

/** A function of its own: the next round may run on another OS thread, so nothing thread-local may be kept. */
void Block::run_thread() {
  Block* const block = running_block;
  const KernelCall& call = block->launch_->call;
  call.invoke(call.kernel, call.arguments.get());
  block->thread_exits();
}

void Block::thread_exits() {
  Thread& self = *current_;
  Warp& warp = warps_[self.warp];
  const uint32_t bit = 1u << self.lane;
  if (barrier_waiting_ > 0) {
    fault(FaultKind::kDivergentBarrier, 0, "the thread ends while others wait at __syncthreads of %s:%d",
          file_of(barrier_place_), barrier_place_.line);
  }
  for (int i = 0; i < warp.gatherings; ++i) {
    if ((warp.gathering[i].mask & bit) != 0) {
      fault(FaultKind::kWarpMismatch, 0, "the lane ends while others wait for it in %s of %s:%d",
            warp.gathering[i].name, file_of(warp.gathering[i].place), warp.gathering[i].place.line);
    }
  }
  warp.exited |= bit;
  self.copies.clear();
  Fiber* const fiber = self.fiber;
  self.fiber = nullptr;
  if (--alive_ == 0) {
    free_fibers_.push_back(fiber);
    switch_fiber(*fiber, main_);
    return;  // a later block goes on here, with current_ set
  }
  Thread* const next = pick();
  if (next == nullptr) fault(FaultKind::kDivergentBarrier, 0, "all threads wait, at different places");
  Warp& other = warps_[next->warp];
  const uint32_t next_bit = 1u << next->lane;
  if ((other.unstarted & next_bit) != 0) {
    other.unstarted &= ~next_bit;
    next->fiber = fiber;  // goes straight on with the next thread
    return enter(*next);
  }
  other.runnable &= ~next_bit;
  free_fibers_.push_back(fiber);
  enter(*next);
  switch_fiber(*fiber, *next->fiber);
}

// ---------------------------------------------------------------- barriers and collectives

int Block::barrier(BarrierReduction reduction, int predicate, Place place) {
  Thread& self = *current_;
  Warp& warp = warps_[self.warp];
  const uint32_t bit = 1u << self.lane;
  if (alive_ != thread_count_) {
    fault(FaultKind::kDivergentBarrier, 0, "__syncthreads of %s:%d after some threads have ended", file_of(place),
          place.line);
  }
  for (int i = 0; i < warp.gatherings; ++i) {
    if ((warp.gathering[i].mask & bit) != 0) {
      fault(FaultKind::kWarpMismatch, 0,
            "the lane is at __syncthreads of %s:%d while others wait for it in %s of %s:%d", file_of(place), place.line,
            warp.gathering[i].name, file_of(warp.gathering[i].place), warp.gathering[i].place.line);
    }
  }
  if (barrier_waiting_ == 0) {
    barrier_place_ = place;
    barrier_reduction_ = static_cast<int>(reduction);
    barrier_sum_ = 0;
  } else if (!same(place, barrier_place_) || barrier_reduction_ != static_cast<int>(reduction)) {
    fault(FaultKind::kDivergentBarrier, 0, "the thread is at __syncthreads of %s:%d, others at that of %s:%d",
          file_of(place), place.line, file_of(barrier_place_), barrier_place_.line);
  }
  barrier_sum_ += predicate != 0;
  warp.at_barrier |= bit;
  if (++barrier_waiting_ < thread_count_) {
    run_next();
    return barrier_result_;
  }
  barrier_result_ = reduction == BarrierReduction::kAnd  ? barrier_sum_ == thread_count_
                    : reduction == BarrierReduction::kOr ? barrier_sum_ > 0
                                                         : barrier_sum_;
  barrier_waiting_ = 0;
  ++barrier_epoch_;
  for (int w = 0; w < warp_count_; ++w) {
    warps_[w].runnable = warps_[w].at_barrier;
    warps_[w].at_barrier = 0;
  }
  warp.runnable &= ~bit;  // this thread runs
  ready_warps_ = warp_count_ == 32 ? ~0u : (1u << warp_count_) - 1;
  return barrier_result_;
}

void Block::gather(const char* name, Complete complete, int variant, uint32_t mask, Place place) {
  Warp& warp = warps_[current_->warp];
  const uint32_t bit = 1u << current_->lane;
  Gathering* mine = nullptr;
  for (int i = 0; i < warp.gatherings; ++i) {
    Gathering& g = warp.gathering[i];
    if ((g.mask & mask) == 0) continue;
    if (g.mask != mask || g.complete != complete || g.variant != variant || !same(g.place, place)) {
      fault(FaultKind::kWarpMismatch, 0, "the lane is in %s of %s:%d, others in %s of %s:%d (masks %08x and %08x)",
            name, file_of(place), place.line, g.name, file_of(g.place), g.place.line, mask, g.mask);
    }
    mine = &g;
  }
  if (mine == nullptr) {
    const uint32_t missing = mask & (~warp.lanes | warp.exited | warp.at_barrier);
    if ((mask & bit) == 0) {
      fault(FaultKind::kWarpMismatch, 0, "%s of %s:%d: mask %08x is without the lane itself", name, file_of(place),
            place.line, mask);
    }
    if (missing != 0) {
      fault(FaultKind::kWarpMismatch, 0, "%s of %s:%d: lanes %08x do not come", name, file_of(place), place.line,
            missing);
    }
    mine = &warp.gathering[warp.gatherings++];
    *mine = {mask, 0, complete, variant, place, name};
  }
  mine->arrived |= bit;
  if (mine->arrived != mask) {
    run_next();
    return;
  }
  *mine = warp.gathering[--warp.gatherings];
  complete(warp, mask);
  warp.runnable |= mask & ~bit;
}

void Block::fault(FaultKind kind, uintptr_t address, const char* format, ...) {
  faulted_ = true;
  fault_kind_ = kind;
  fault_address_ = address;
  va_list values;
  va_start(values, format);
  std::vsnprintf(fault_text_, sizeof fault_text_, format, values);
  va_end(values);
  Fiber abandoned;  // the threads' fibers start anew; nothing of theirs is unwound
  switch_fiber(abandoned, main_);
  std::abort();
}

void Block::report_fault() const {
  Fault fault;
  fault.kind = fault_kind_;
  fault.kernel = symbol_of(launch_->call.kernel);
  const uint3 thread = current_->index;
  fault.block[0] = blockIdx.x, fault.block[1] = blockIdx.y, fault.block[2] = blockIdx.z;
  fault.thread[0] = thread.x, fault.thread[1] = thread.y, fault.thread[2] = thread.z;
  fault.address = fault_address_;
  fault.message = fault_text_;
  report(std::move(fault));
}

// ---------------------------------------------------------------- blocks

void Block::start_block(uint3 index) {
  blockIdx = index;
  ++barrier_epoch_;
  alive_ = thread_count_;
  barrier_waiting_ = 0;
  for (int w = 0; w < warp_count_; ++w) {
    Warp& warp = warps_[w];
    warp.unstarted = warp.lanes;
    warp.runnable = warp.at_barrier = warp.exited = 0;
    warp.gatherings = 0;
  }
  ready_warps_ = warp_count_ == 32 ? ~0u : (1u << warp_count_) - 1;
  std::memset(shared_, 0xFF, launch_->shared_bytes);
  shadow_.begin(barrier_epoch_);
  const uint32_t first = choose(ready_warps_);
  Thread& thread = threads_[first * kLanes + choose(warps_[first].unstarted)];
  warps_[first].unstarted &= ~(1u << thread.lane);
  thread.fiber = take_fiber();
  enter(thread);
  switch_fiber(main_, *thread.fiber);
}

bool Block::run(const Launch& launch) {
  launch_ = &launch;
  if (shared_ == nullptr) {
    shared_ = map_shared();
    shadow_.resize(kSharedCapacity);
  }
  describe_own_stack(main_);
  random_ = config().seed * 0x9E3779B97F4A7C15u | 1;
  const dim3 block = launch.block, grid = launch.grid;
  thread_count_ = static_cast<int>(block.x * block.y * block.z);
  warp_count_ = (thread_count_ + kLanes - 1) / kLanes;
  for (int w = 0; w < warp_count_; ++w) warps_[w].lanes = 0;
  for (int t = 0; t < thread_count_; ++t) {
    Thread& thread = threads_[t];
    const auto n = static_cast<uint32_t>(t);
    thread.number = static_cast<uint16_t>(t);
    thread.warp = static_cast<uint8_t>(t / kLanes);
    thread.lane = static_cast<uint8_t>(t % kLanes);
    thread.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
    thread.copies.clear();
    warps_[thread.warp].lanes |= 1u << thread.lane;
  }
  shadow_.begin_launch();
  ASAN_POISON_MEMORY_REGION(shared_, kSharedCapacity);
  ASAN_UNPOISON_MEMORY_REGION(shared_, launch.shared_bytes);
  faulted_ = false;
  running_block = this;
  blockDim = block;
  gridDim = grid;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  // A step that shares no factor with the count visits every block once.
  uint64_t step = 1, first = 0;
  if (config().block_order == Order::kShuffled && blocks > 2) {
    first = random_ % blocks;
    step = blocks / 2 + random_ % 97 % (blocks / 2) + 1;
    while (std::gcd(step, blocks) != 1) ++step;
  }
  for (uint64_t i = 0; i < blocks && !faulted_; ++i) {
    uint64_t b = (first + i * step) % blocks;
    if (config().block_order == Order::kReverse) b = blocks - 1 - i;
    start_block({static_cast<uint32_t>(b % grid.x), static_cast<uint32_t>(b / grid.x % grid.y),
                 static_cast<uint32_t>(b / grid.x / grid.y)});
  }
  running_block = nullptr;
  ASAN_UNPOISON_MEMORY_REGION(shared_, kSharedCapacity);
  if (faulted_) {
    report_fault();
    free_fibers_ = fibers_;
    for (Fiber* fiber : fibers_) restart_fiber(*fiber, &Block::fiber_main);
  }
  return !faulted_;
}

// ---------------------------------------------------------------- what device code asks

std::byte* shared_memory_of_block(size_t bytes) {
  Block& block = *running_block;
  if (bytes > block.launch().shared_bytes) {
    block.fault(FaultKind::kSharedBounds, 0, "the kernel uses %zu bytes of shared memory, the launch gave %zu", bytes,
                block.launch().shared_bytes);
  }
  return block.shared();
}
int block_barrier(BarrierReduction reduction, int predicate, Place place) {
  return running_block->barrier(reduction, predicate, place);
}
void trap(const char* what) {
  running_block->fault(FaultKind::kTrap, 0, "%s", what);
}

}  // namespace banter::cuda_emulator
