// Computing in a context of the game's: it is current during calls and only then, everything is made in it, refusals say why, and
// a context that ends too early, or a call of the driver that fails, costs no more than the calls that follow.
#include "backend_cuda/context.h"

#include <cstring>
#include <thread>

#include "cuda_emulator/faults_listener.h"
#include "model/model_fixture.h"
#include "ops/backend_plugin.h"

extern "C" const banter::ops::BackendPlugin* banter_backend_plugin_v1();

namespace banter::cuda {
namespace {

const cuda_emulator::ListenToFaults kListen;

std::unique_ptr<ThreadPool> make_pool() {
  return std::move(*ThreadPool::create({.threads = 1}));
}

template <class F>
void with_card(F&& change) {
  cuda_emulator::Config config;
  change(config);
  cuda_emulator::reset(config);
}

banter_cuda_context existing(CUctx_st* context) {
  banter_cuda_context wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.kind = BANTER_CUDA_CONTEXT_EXISTING;
  wanted.handle = context;
  return wanted;
}

/** A context of the game's for the length of a test. */
struct GameContext {
  CUctx_st* const handle;
  explicit GameContext(int device = 0) : handle(cuda_emulator::create_context(device)) {}
  ~GameContext() {
    cuda_emulator::destroy_context(handle);
    EXPECT_EQ(cuda_emulator::live().in_contexts, 0);
  }
};

// ---------------------------------------------------------------- a Vulkan device that has an external compute queue

struct Vulkan {
  bool has_extension = true;
  int32_t create_status = 0;  // VkResult
  int queues = 0;
  void* preferred = nullptr;
};
Vulkan vulkan;

int32_t create_queue(void* device, const void* info, const void*, void** queue) {
  struct Info {
    int32_t type;
    const void* next;
    void* preferred;
  };
  EXPECT_EQ(device, &vulkan);
  EXPECT_EQ(static_cast<const Info*>(info)->type, 1000556001);
  vulkan.preferred = static_cast<const Info*>(info)->preferred;
  if (vulkan.create_status != 0) return vulkan.create_status;
  if (vulkan.queues == 1) return -10;  // VK_ERROR_TOO_MANY_OBJECTS: one is reserved
  ++vulkan.queues;
  *queue = &vulkan.queues;
  return 0;
}
void destroy_queue(void* device, void* queue, const void*) {
  EXPECT_EQ(device, &vulkan);
  EXPECT_EQ(queue, &vulkan.queues);
  EXPECT_EQ(cuda_emulator::live().contexts, 0) << "the context goes before its queue";
  --vulkan.queues;
}
void queue_data(void* queue, void* params, void* data) {
  EXPECT_EQ(queue, &vulkan.queues);
  EXPECT_EQ(*static_cast<int32_t*>(params), 1000556002);
  std::memcpy(data, cuda_emulator::kQueueData, sizeof cuda_emulator::kQueueData);
}
using Function = void (*)();
Function device_proc_addr(void* device, const char* name) {
  EXPECT_EQ(device, &vulkan);
  if (!vulkan.has_extension) return nullptr;
  if (std::strcmp(name, "vkCreateExternalComputeQueueNV") == 0) return reinterpret_cast<Function>(create_queue);
  if (std::strcmp(name, "vkDestroyExternalComputeQueueNV") == 0) return reinterpret_cast<Function>(destroy_queue);
  if (std::strcmp(name, "vkGetExternalComputeQueueDataNV") == 0) return reinterpret_cast<Function>(queue_data);
  return nullptr;
}

banter_cuda_context of_vulkan() {
  vulkan = {};
  banter_cuda_context wanted = existing(nullptr);
  wanted.kind = BANTER_CUDA_CONTEXT_VULKAN_DEVICE;
  wanted.handle = &vulkan;
  wanted.vulkan_queue = &vulkan.preferred;
  wanted.vulkan_get_device_proc_addr = reinterpret_cast<void*>(device_proc_addr);
  return wanted;
}

void expect_refused(const banter_cuda_context& wanted, const std::string& why, int32_t device = -1) {
  const auto pool = make_pool();
  const auto backend = create_backend(*pool, device, &wanted);
  ASSERT_FALSE(backend) << why;
  EXPECT_EQ(backend.error().code, BANTER_ERROR_UNSUPPORTED) << backend.error().message;
  EXPECT_NE(backend.error().message.find(why), std::string::npos) << backend.error().message;
  EXPECT_EQ(cuda_emulator::current_context(), nullptr);
  EXPECT_EQ(vulkan.queues, 0);
}

// ---------------------------------------------------------------- what a game would do

/** Everything that a backend makes, in the order that a model does, and a few steps. Empty logits: `error` says what failed. */
struct Talk {
  Error error{BANTER_OK, ""};
  std::vector<float> logits;

  Talk(const formats::Gguf& file, const banter_cuda_context* context) { go(file, context); }
  void go(const formats::Gguf& file, const banter_cuda_context* context) {
    const auto pool = make_pool();
    auto backend = create_backend(*pool, -1, context);
    if (!backend) return fail(backend.error());
    auto model = model::Model::load(file, **backend, {.max_rows = 32, .max_logit_rows = 4}, {});
    if (!model) return fail(model.error());
    auto pages = kv::PagePool::create(**backend, (*model)->kv_groups(), size_t{1} << 20);
    if (!pages) return fail(pages.error());
    kv::SequenceCache cache(**pages, 48);
    const std::vector<int32_t> tokens = {1, 5, 9, 2, 7, 3, 8, 4};
    for (size_t step = 0; step < 4; ++step) {  // a prompt, then decoding: the last ones as a graph
      const size_t done = static_cast<size_t>(cache.length()), count = step == 0 ? 4 : 1;
      if (Result<void> room = cache.reserve(static_cast<int32_t>(count)); !room) return fail(room.error());
      model::Batch batch;
      batch.chunks.push_back({&cache, std::span<const int32_t>(tokens).subspan(done, count)});
      Result<std::span<float>> rows = (*model)->forward(**pages, batch);
      if (!rows) return fail(rows.error());
      logits.insert(logits.end(), rows->begin(), rows->end());
    }
    const cuda_emulator::Live live = cuda_emulator::live();
    graphs = live.graphs;
    things = live.device_allocations + live.pinned_allocations + live.streams + live.events + live.graphs;
    in_contexts = live.in_contexts;
  }
  void fail(const Error& why) {
    error = why;
    logits.clear();
  }
  int graphs = 0, things = 0, in_contexts = 0;  // at the end
};

test::MemoryFile tiny_file() {
  return test::MemoryFile(test::build_tiny(test::read_tiny_case("llama"), formats::TensorType::kF16));
}

void expect_nothing_left() {
  const cuda_emulator::Live live = cuda_emulator::live();
  EXPECT_EQ(live.device_allocations + live.pinned_allocations + live.streams + live.events + live.graphs, 0);
}

TEST(CudaContext, AModelComputesInTheGames) {
  const test::MemoryFile file = tiny_file();
  const std::vector<float> expected = Talk(*file.gguf, nullptr).logits;
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(cuda_emulator::live().primary_context_used);
  cuda_emulator::reset();
  const GameContext game;
  const banter_cuda_context wanted = existing(game.handle);
  const Talk run(*file.gguf, &wanted);
  EXPECT_EQ(run.error.message, "");
  EXPECT_EQ(run.logits, expected);
  EXPECT_GE(run.graphs, 1);
  EXPECT_GT(run.things, 10);
  EXPECT_EQ(run.in_contexts, run.things);
  EXPECT_FALSE(cuda_emulator::live().primary_context_used);
  EXPECT_EQ(cuda_emulator::current_context(), nullptr);
  expect_nothing_left();
}

/** Every call of the backend that reaches the card, one after the other; `after` is called after each. */
template <class F>
void use(ops::Backend& backend, F&& after) {
  std::vector<std::byte> bytes(256);
  auto memory = backend.allocate(bytes.size());
  after("allocate");
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_TRUE(backend.copy_from_host(*memory, bytes.data(), bytes.size()));
  after("copy_from_host");
  EXPECT_TRUE(backend.copy(static_cast<std::byte*>(*memory) + 128, *memory, 128));
  after("copy");
  EXPECT_TRUE(backend.copy_to_host(bytes.data(), *memory, bytes.size()));
  after("copy_to_host");
  auto weight = backend.upload(ops::TensorType::kF32, 8, 8, bytes, ops::WeightUse::kLinear);
  after("upload");
  EXPECT_TRUE(weight) << weight.error().message;
  auto rope = backend.create_rope({.inverse_frequency = {1.0, 0.5}, .max_positions = 8});
  after("create_rope");
  EXPECT_TRUE(rope) << rope.error().message;
  backend.begin_step({});
  EXPECT_TRUE(backend.end_step());
  after("end_step");
  if (weight) weight->reset();
  after("~Weight");
  if (rope) rope->reset();
  after("~Rope");
  backend.deallocate(*memory);
  after("deallocate");
}

TEST(CudaContext, IsCurrentDuringCallsOnlyOnWhicheverThread) {
  const GameContext ours, games;
  const banter_cuda_context wanted = existing(ours.handle);
  const auto pool = make_pool();
  std::unique_ptr<ops::Backend> backend;
  const auto in_thread = [&](CUctx_st* before, auto&& body) {
    std::thread([&] {
      if (before != nullptr) cuda_emulator::push_context(before);
      body();
      EXPECT_EQ(cuda_emulator::current_context(), before);
      if (before != nullptr) cuda_emulator::pop_context();
      EXPECT_EQ(cuda_emulator::current_context(), nullptr);
    }).join();
  };
  in_thread(games.handle, [&] {
    auto made = create_backend(*pool, -1, &wanted);
    ASSERT_TRUE(made) << made.error().message;
    backend = std::move(*made);
  });
  ASSERT_NE(backend, nullptr);
  int seen = 0;
  backend->set_upload_progress([&](float) {
    EXPECT_EQ(cuda_emulator::current_context(), ours.handle);
    return ++seen > 0;
  });
  for (CUctx_st* const before : {static_cast<CUctx_st*>(nullptr), games.handle, ours.handle}) {
    in_thread(before, [&] {
      use(*backend, [&](const char* call) { EXPECT_EQ(cuda_emulator::current_context(), before) << call; });
    });
  }
  EXPECT_EQ(seen, 3);
  in_thread(games.handle, [&] { backend.reset(); });
  EXPECT_FALSE(cuda_emulator::live().primary_context_used);
  expect_nothing_left();
}

TEST(CudaContext, ItsCardIsTheOneThatComputes) {
  with_card([](auto& c) { c.devices = 2; });
  const GameContext game(1);
  const banter_cuda_context wanted = existing(game.handle);
  const Result<DeviceChoice> choice = choose_device(-1, &wanted);
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->device, 1);
  EXPECT_TRUE(choose_device(1, &wanted));
  expect_refused(wanted, "is of graphics card 1, but cuda_device is 0", 0);
}

TEST(CudaContext, RefusalsSayWhy) {
  const GameContext game;
  banter_cuda_context wanted = existing(game.handle);
  wanted.kind = BANTER_CUDA_CONTEXT_D3D12_QUEUE;
  expect_refused(wanted, "there is no Direct3D on this system");
  wanted = of_vulkan();
  expect_refused(wanted, "cannot schedule CUDA with Vulkan");
  wanted = existing(game.handle);
  with_card([](auto& c) { c.driver_version = 0; });
  expect_refused(wanted, "no NVIDIA driver");
  for (const char* name : {"cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxGetDevice"}) {
    with_card([&](auto& c) { c.missing_in_driver = name; });
    expect_refused(wanted, "does not give the functions");
  }
  cuda_emulator::reset();
  CUctx_st* const ended = cuda_emulator::create_context();
  cuda_emulator::destroy_context(ended);
  expect_refused(existing(ended), "context is destroyed");
}

TEST(CudaContext, IsScheduledWithVulkan) {
  with_card([](auto& c) { c.vulkan_shares_graphics = true; });
  const test::MemoryFile file = tiny_file();
  const banter_cuda_context wanted = of_vulkan();
  const Talk run(*file.gguf, &wanted);
  EXPECT_EQ(run.error.message, "");
  EXPECT_FALSE(run.logits.empty());
  EXPECT_EQ(run.in_contexts, run.things);
  EXPECT_EQ(vulkan.preferred, wanted.vulkan_queue);
  EXPECT_EQ(vulkan.queues, 0);
  EXPECT_EQ(cuda_emulator::live().contexts, 0);
  EXPECT_FALSE(cuda_emulator::live().primary_context_used);
  expect_nothing_left();
}

/** A device gives one queue, and a game may load several models, on several threads. */
TEST(CudaContext, ModelsShareTheOneWithVulkan) {
  with_card([](auto& c) { c.vulkan_shares_graphics = true; });
  const test::MemoryFile file = tiny_file();
  const banter_cuda_context wanted = of_vulkan();
  const std::vector<float> expected = Talk(*file.gguf, &wanted).logits;
  ASSERT_FALSE(expected.empty());
  const auto pool = make_pool();
  for (int round = 0; round < 3; ++round) {
    auto first = create_backend(*pool, -1, &wanted);
    ASSERT_TRUE(first) << first.error().message;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { EXPECT_EQ(Talk(*file.gguf, &wanted).logits, expected); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cuda_emulator::live().contexts, 1);
    EXPECT_EQ(vulkan.queues, 1);
    first->reset();
    EXPECT_EQ(cuda_emulator::live().contexts, 0);
    EXPECT_EQ(vulkan.queues, 0);
  }
  expect_nothing_left();
}

TEST(CudaContext, VulkansRefusalsSayWhy) {
  const auto able = [](auto& c) { c.vulkan_shares_graphics = true; };
  with_card(able);
  banter_cuda_context wanted = of_vulkan();
  vulkan.has_extension = false;
  expect_refused(wanted, "lacks VK_NV_external_compute_queue");
  wanted = of_vulkan();
  vulkan.create_status = -10;
  expect_refused(wanted, "VkResult -10");
  wanted = of_vulkan();
  for (const char* name : {"cuCtxCreate", "cuCtxDestroy", "cuCtxGetLimit", "cuDeviceGetAttribute"}) {
    with_card([&](auto& c) {
      able(c);
      c.missing_in_driver = name;
    });
    expect_refused(wanted, "cannot schedule CUDA with Vulkan");
  }
  with_card([&](auto& c) {
    able(c);
    c.shared_in_graphics = 32 << 10;
  });
  expect_refused(wanted, "32768 bytes of shared memory only");
  EXPECT_EQ(cuda_emulator::live().contexts, 0);
}

/** Nothing of an ended context is used again or given back: the emulated card would report it. */
class CudaContextThatEnds : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Driver, CudaContextThatEnds, testing::Bool(),
                         [](const auto& info) { return info.param ? "enters_it_all_the_same" : "refuses_it"; });
TEST_P(CudaContextThatEnds, TooEarlyCostsTheCallsThatFollow) {
  with_card([](auto& c) { c.ended_are_entered = GetParam(); });
  const auto pool = make_pool();
  CUctx_st* const game = cuda_emulator::create_context();
  const banter_cuda_context wanted = existing(game);
  auto made = create_backend(*pool, -1, &wanted);
  ASSERT_TRUE(made) << made.error().message;
  ops::Backend& backend = **made;
  std::vector<std::byte> bytes(256);
  const auto upload = [&] { return backend.upload(ops::TensorType::kF32, 8, 8, bytes, ops::WeightUse::kLinear); };
  const auto rope_of = [&] { return backend.create_rope({.inverse_frequency = {1.0, 0.5}, .max_positions = 8}); };
  auto memory = backend.allocate(256), other = backend.allocate(256);
  auto weight = upload();
  auto rope = rope_of();
  ASSERT_TRUE(memory && other && weight && rope);
  cuda_emulator::destroy_context(game);

  const auto expect_gone = [](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, BANTER_ERROR_BACKEND);
    EXPECT_NE(result.error().message.find("context"), std::string::npos) << result.error().message;
  };
  expect_gone(backend.allocate(16));
  expect_gone(backend.copy_to_host(bytes.data(), *memory, 256));
  expect_gone(backend.copy_from_host(*memory, bytes.data(), 256));
  expect_gone(backend.copy(*memory, *other, 256));
  expect_gone(upload());
  expect_gone(rope_of());
  backend.begin_step({});
  expect_gone(backend.end_step());
  backend.deallocate(*memory);
  weight->reset();
  made->reset();
  rope->reset();  // outlives the backend
  EXPECT_EQ(cuda_emulator::current_context(), nullptr);
  EXPECT_FALSE(cuda_emulator::live().primary_context_used);
}

/** The driver may give an ended context's handle to the next one: that is not ours. */
TEST(CudaContext, AnotherOfTheSameHandleIsLeftAlone) {
  const auto pool = make_pool();
  const GameContext game;
  const banter_cuda_context wanted = existing(game.handle);
  auto made = create_backend(*pool, -1, &wanted);
  ASSERT_TRUE(made) << made.error().message;
  auto memory = (*made)->allocate(256);
  ASSERT_TRUE(memory);
  cuda_emulator::renew_context(game.handle);
  EXPECT_EQ(cuda_emulator::live().in_contexts, 0);
  const auto again = (*made)->allocate(256);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, BANTER_ERROR_BACKEND);
  EXPECT_NE(again.error().message.find("must outlive the engine"), std::string::npos) << again.error().message;
  (*made)->deallocate(*memory);
  made->reset();
  EXPECT_EQ(cuda_emulator::current_context(), nullptr);
  EXPECT_EQ(cuda_emulator::live().in_contexts, 0);
}

/** A game may use graphs of its own, which it captures in the mode that forbids other threads most. */
TEST(CudaContext, NeitherEndsNorMindsWhatTheGameCaptures) {
  cuda_emulator::reset();
  const test::MemoryFile file = tiny_file();
  const std::vector<float> expected = Talk(*file.gguf, nullptr).logits;
  ASSERT_FALSE(expected.empty());
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    const Talk run(*file.gguf, nullptr);
    EXPECT_EQ(run.error.message, "");
    EXPECT_EQ(run.logits, expected);
    EXPECT_GE(run.graphs, 1);
    void* memory = nullptr;  // the thread's own calls are as they were
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    cudaGetLastError();
  }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated) << "by that cudaMalloc";
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] { EXPECT_EQ(Talk(*file.gguf, nullptr).logits, expected); }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  expect_nothing_left();
}

/** A context that ends on another thread while a call is in it. */
TEST(CudaContext, MayEndDuringACall) {
  const auto pool = make_pool();
  CUctx_st* const game = cuda_emulator::create_context();
  const banter_cuda_context wanted = existing(game);
  auto made = create_backend(*pool, -1, &wanted);
  ASSERT_TRUE(made) << made.error().message;
  (*made)->set_upload_progress([&](float) {
    std::thread([&] { cuda_emulator::destroy_context(game); }).join();
    return true;
  });
  const std::vector<std::byte> bytes(256);
  const auto weight = (*made)->upload(ops::TensorType::kF32, 8, 8, bytes, ops::WeightUse::kLinear);
  ASSERT_FALSE(weight);
  EXPECT_EQ(weight.error().code, BANTER_ERROR_BACKEND);
  made->reset();
  EXPECT_EQ(cuda_emulator::current_context(), nullptr);
}

/** Whichever call fails, of the driver or of the runtime: an error that says so, or the right result. */
TEST(CudaContext, EveryCallMayFail) {
  const test::MemoryFile file = tiny_file();
  const std::vector<float> expected = Talk(*file.gguf, nullptr).logits;
  for (const bool with_vulkan : {false, true}) {
    const auto reset = [&] { with_card([&](auto& c) { c.vulkan_shares_graphics = with_vulkan; }); };
    int failed = 0;
    int64_t calls = 1;
    for (int64_t n = 0; n <= calls; n += n < 80 ? 1 : 23) {
      reset();
      CUctx_st* const game = with_vulkan ? nullptr : cuda_emulator::create_context();
      const banter_cuda_context wanted = with_vulkan ? of_vulkan() : existing(game);
      if (n > 0) cuda_emulator::fail_call(n);
      const Talk run(*file.gguf, &wanted);
      if (n == 0) calls = cuda_emulator::calls_made();
      if (run.error.code != BANTER_OK) {
        ++failed;
        EXPECT_FALSE(run.error.message.empty()) << n;
      } else {
        EXPECT_EQ(run.logits, expected) << n;
      }
      cuda_emulator::take_faults();  // what the broken call left undone
      EXPECT_EQ(cuda_emulator::current_context(), nullptr) << n;
      if (game != nullptr) cuda_emulator::destroy_context(game);
      EXPECT_EQ(cuda_emulator::live().contexts, 0) << n;
      EXPECT_EQ(cuda_emulator::live().in_contexts, 0) << n;
      EXPECT_EQ(vulkan.queues, 0) << n;
      expect_nothing_left();
    }
    EXPECT_GT(calls, 100);
    EXPECT_GT(failed, 50);
  }
}

TEST(CudaContext, ThePluginPassesItOn) {
  const GameContext game;
  banter_cuda_context wanted = existing(game.handle);
  const auto pool = make_pool();
  ops::BackendOptions options;
  options.pool = pool.get();
  options.context = &wanted;
  const ops::BackendPlugin* const plugin = banter_backend_plugin_v1();
  char reason[256] = "";
  banter_result code = BANTER_ERROR_INTERNAL;
  EXPECT_GT(plugin->score(&options, reason, sizeof reason), 0u) << reason;
  const std::unique_ptr<ops::Backend> backend(plugin->create(&options, &code, reason, sizeof reason));
  ASSERT_NE(backend, nullptr) << reason;
  EXPECT_EQ(code, BANTER_OK);
  EXPECT_GT(cuda_emulator::live().in_contexts, 0);
  wanted.kind = BANTER_CUDA_CONTEXT_D3D12_QUEUE;
  EXPECT_EQ(plugin->score(&options, reason, sizeof reason), 0u);
  EXPECT_NE(std::string(reason).find("Direct3D"), std::string::npos) << reason;
  EXPECT_EQ(plugin->create(&options, &code, reason, sizeof reason), nullptr);
  EXPECT_EQ(code, BANTER_ERROR_UNSUPPORTED);
}

}  // namespace
}  // namespace banter::cuda
