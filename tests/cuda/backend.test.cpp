// The backend's host side on the emulated card: which card is chosen and why none, memory that runs out, calls that fail
// one after the other, a card that is lost, graphs, and that everything is given back.
#include "backend_cuda/cuda_backend.h"

#include <cstring>
#include <numeric>

#include "cuda_emulator/faults_listener.h"
#include "model/model_fixture.h"

namespace banter::cuda {
namespace {

const cuda_emulator::ListenToFaults kListen;

std::unique_ptr<ThreadPool> make_pool() {
  return std::move(*ThreadPool::create({.threads = 1}));
}

/** A card that differs from the usual one. */
template <class F>
void with_card(F&& change) {
  cuda_emulator::Config config;
  change(config);
  cuda_emulator::reset(config);
}

void expect_no_choice(int32_t wanted, const std::string& why) {
  const Result<DeviceChoice> choice = choose_device(wanted);
  ASSERT_FALSE(choice) << why;
  EXPECT_EQ(choice.error().code, BANTER_ERROR_UNSUPPORTED);
  EXPECT_NE(choice.error().message.find(why), std::string::npos) << choice.error().message;
}

TEST(ChooseDevice, SaysWhyThereIsNone) {
  with_card([](auto& c) { c.driver_version = 0; });
  expect_no_choice(-1, "no NVIDIA driver");
  with_card([](auto& c) { c.driver_version = 11040; });
  expect_no_choice(-1, "supports CUDA 11.4");
  with_card([](auto& c) { c.devices = 0; });
  expect_no_choice(-1, "no NVIDIA graphics card");
  with_card([](auto& c) { c.count_error = cudaErrorInsufficientDriver; });
  expect_no_choice(-1, "driver does not work");
  with_card([](auto& c) { c.compute_capability = 61; });
  expect_no_choice(-1, "too old");
  with_card([](auto& c) { c.devices = 2; });
  expect_no_choice(2, "no graphics card 2");
  expect_no_choice(-2, "no graphics card -2");
  const Result<DeviceChoice> second = choose_device(1);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->device, 1);
  EXPECT_EQ(second->compute_capability, 86);
}

TEST(Backend, CopiesOfAnySizeArrive) {
  const auto pool = make_pool();
  auto backend = create_backend(*pool, -1);
  ASSERT_TRUE(backend) << backend.error().message;
  const size_t bytes = (size_t{9} << 20) + 3;
  std::vector<std::byte> sent(bytes), received(bytes);
  for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  Result<void*> first = (*backend)->allocate(bytes), second = (*backend)->allocate(bytes);
  ASSERT_TRUE(first && second);
  ASSERT_TRUE((*backend)->copy_from_host(*first, sent.data(), bytes));
  ASSERT_TRUE((*backend)->copy(*second, *first, bytes));
  ASSERT_TRUE((*backend)->copy_to_host(received.data(), *second, bytes));
  EXPECT_EQ(received, sent);
  (*backend)->deallocate(*first);
  (*backend)->deallocate(*second);
  (*backend)->deallocate(nullptr);
}

TEST(Backend, WeightsThatDoNotFitAreRefusedAndOthersGoOn) {
  with_card([](auto& c) { c.memory_bytes = size_t{24} << 20; });  // less than a slab of weights
  const auto pool = make_pool();
  auto backend = create_backend(*pool, -1);
  ASSERT_TRUE(backend) << backend.error().message;
  const std::vector<std::byte> zeros(size_t{32} << 20);
  const auto upload = [&](int64_t rows) {
    return (*backend)->upload(ops::TensorType::kF16, rows, 4096, std::span(zeros).first(rows * 8192),
                              ops::WeightUse::kLinear);
  };
  const auto fits = upload(1024);
  ASSERT_TRUE(fits) << fits.error().message;
  const auto too_large = upload(4096);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, BANTER_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(too_large.error().message.find("32 MiB of weights"), std::string::npos) << too_large.error().message;
  EXPECT_TRUE(upload(512));
}

TEST(Backend, RefusesWhatCannotBeAWeight) {
  const auto pool = make_pool();
  auto backend = create_backend(*pool, -1);
  ASSERT_TRUE(backend);
  const std::vector<std::byte> bytes(4096);
  const auto code = [&](ops::TensorType type, int64_t rows, int64_t cols, size_t size) {
    const auto weight = (*backend)->upload(type, rows, cols, std::span(bytes).first(size), ops::WeightUse::kLinear);
    return weight ? BANTER_OK : weight.error().code;
  };
  EXPECT_EQ(code(ops::TensorType::kF32, 4, 8, 128), BANTER_OK);
  EXPECT_EQ(code(ops::TensorType::kF32, 4, 8, 127), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(ops::TensorType::kF32, 0, 8, 0), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(ops::TensorType::kQ4_0, 1, 31, 18), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(ops::TensorType::kF32, int64_t{1} << 40, int64_t{1} << 40, 0), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code(static_cast<ops::TensorType>(77), 1, 32, 32), BANTER_ERROR_UNSUPPORTED_TYPE);
}

/** A model of three characters that decode; empty logits where something failed, and then `error` says what. */
struct Talk {
  Error error{BANTER_OK, ""};
  std::vector<float> logits;

  explicit Talk(const formats::Gguf& file, int steps) { run(file, steps); }
  void run(const formats::Gguf& file, int steps) {
    const auto pool = make_pool();
    auto backend = create_backend(*pool, -1);
    if (!backend) return fail(backend.error());
    auto model = model::Model::load(file, **backend, {.max_rows = 64, .max_logit_rows = 8}, {});
    if (!model) return fail(model.error());
    auto pages = kv::PagePool::create(**backend, (*model)->kv_groups(), size_t{1} << 20);
    if (!pages) return fail(pages.error());
    std::vector<kv::SequenceCache> caches;
    std::vector<std::vector<int32_t>> tokens(3);
    for (size_t s = 0; s < 3; ++s) {
      caches.emplace_back(**pages, 48);
      tokens[s].resize(static_cast<size_t>(20 + steps));
      for (size_t i = 0; i < tokens[s].size(); ++i) tokens[s][i] = static_cast<int32_t>((7 * i + 13 * s + 1) % 72);
    }
    for (int step = 0; step <= steps; ++step) {
      model::Batch batch;
      for (size_t s = 0; s < 3; ++s) {
        const size_t done = static_cast<size_t>(caches[s].length()), count = step == 0 ? 11 + s : 1;
        if (Result<void> room = caches[s].reserve(static_cast<int32_t>(count)); !room) return fail(room.error());
        batch.chunks.push_back({&caches[s], std::span<const int32_t>(tokens[s]).subspan(done, count)});
      }
      Result<std::span<float>> rows = (*model)->forward(**pages, batch);
      if (!rows) return fail(rows.error());
      logits.insert(logits.end(), rows->begin(), rows->end());
    }
    graphs = cuda_emulator::live().graphs;
  }
  void fail(const Error& why) {
    error = why;
    logits.clear();
  }
  int graphs = 0;
};

test::MemoryFile tiny_file(formats::TensorType type) {
  return test::MemoryFile(test::build_tiny(test::read_tiny_case("llama"), type));
}

TEST(Backend, DecodeStepsBecomeGraphsAndEverythingIsGivenBack) {
  const test::MemoryFile file = tiny_file(formats::TensorType::kQ4_0);
  {
    const Talk talk(*file.gguf, 6);
    EXPECT_EQ(talk.error.message, "");
    EXPECT_GE(talk.graphs, 1);
  }
  const cuda_emulator::Live live = cuda_emulator::live();
  EXPECT_EQ(live.device_allocations, 0);
  EXPECT_EQ(live.pinned_allocations, 0);
  EXPECT_EQ(live.streams + live.events + live.graphs, 0);
}

TEST(Backend, AModelThatDoesNotFitIsRefusedBeforeItIsSent) {
  const test::MemoryFile file = tiny_file(formats::TensorType::kF32);
  with_card([](auto& c) { c.memory_bytes = size_t{64} << 10; });
  const Talk talk(*file.gguf, 1);
  EXPECT_EQ(talk.error.code, BANTER_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(talk.error.message.find("1 MiB of the graphics card's memory and 0 MiB are free"), std::string::npos)
      << talk.error.message;
  EXPECT_EQ(cuda_emulator::live().device_allocations, 0);
  cuda_emulator::reset();
}

/** Graphs know weights by their addresses. One that comes to stand where a freed one stood is another all the same. */
TEST(Backend, GraphsDoNotOutliveTheirWeights) {
  constexpr int32_t kSize = 32;
  const auto pool = make_pool();
  auto backend = create_backend(*pool, -1);
  ASSERT_TRUE(backend) << backend.error().message;
  const std::vector<float> ones(kSize, 1.0f);
  Result<void*> x = (*backend)->allocate(kSize * sizeof(float)), y = (*backend)->allocate(kSize * sizeof(float));
  ASSERT_TRUE(x && y);
  ASSERT_TRUE((*backend)->copy_from_host(*x, ones.data(), kSize * sizeof(float)));
  const int32_t zero = 0;
  ops::StepSequence sequence;
  sequence.rows = 1;
  int most_graphs = 0;
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    const std::vector<float> matrix(kSize * kSize, value);
    const auto weight = (*backend)->upload(ops::TensorType::kF32, kSize, kSize, std::as_bytes(std::span(matrix)),
                                           ops::WeightUse::kLinear);
    ASSERT_TRUE(weight) << weight.error().message;
    for (int again = 0; again < 3; ++again) {
      (*backend)->begin_step({.tokens = {&zero, 1}, .positions = {&zero, 1}, .sequences = {&sequence, 1}});
      (*backend)->logits({.head = weight->get(),
                          .x = static_cast<const float*>(*x),
                          .row_indices = {&zero, 1},
                          .logits = static_cast<float*>(*y)});
      const Result<void> done = (*backend)->end_step();
      ASSERT_TRUE(done) << done.error().message;
      std::vector<float> result(kSize);
      ASSERT_TRUE((*backend)->copy_to_host(result.data(), *y, kSize * sizeof(float)));
      EXPECT_EQ(result, std::vector<float>(kSize, kSize * value)) << again;
    }
    most_graphs = std::max(most_graphs, cuda_emulator::live().graphs);
  }
  EXPECT_GT(most_graphs, 0) << "nothing was tested";
}

/** A failing call, whichever it is, ends in an error that says so, in nothing worse, and in nothing that stays. */
TEST(Backend, EveryCallMayFail) {
  const test::MemoryFile file = tiny_file(formats::TensorType::kF16);
  cuda_emulator::reset();
  const std::vector<float> expected = Talk(*file.gguf, 3).logits;
  const int64_t calls = cuda_emulator::calls_made();
  ASSERT_FALSE(expected.empty());
  ASSERT_GT(calls, 100);
  int failed = 0;
  for (int64_t n = 1; n <= calls; n += n < 80 ? 1 : 7) {
    for (const bool sticky : {false, true}) {
      cuda_emulator::reset();
      cuda_emulator::fail_call(n, sticky);
      const Talk talk(*file.gguf, 3);
      if (talk.error.code != BANTER_OK) {
        ++failed;
        const banter_result kind = banter_result_class(talk.error.code);
        EXPECT_TRUE(kind == BANTER_ERROR_OUT_OF_MEMORY || kind == BANTER_ERROR_BACKEND ||
                    kind == BANTER_ERROR_UNSUPPORTED)
            << n << ": " << talk.error.message;
        EXPECT_FALSE(talk.error.message.empty());
      } else {
        EXPECT_EQ(talk.logits, expected) << n;
      }
      cuda_emulator::take_faults();  // what the broken call left undone
      EXPECT_EQ(cuda_emulator::live().device_allocations, 0) << n;
      EXPECT_EQ(cuda_emulator::live().pinned_allocations, 0) << n;
    }
  }
  EXPECT_GT(failed, 100);
  cuda_emulator::reset();
  EXPECT_EQ(Talk(*file.gguf, 3).logits, expected);
}

TEST(Backend, TheSameOnEveryCardAndInEveryOrderOfBlocks) {
  for (const formats::TensorType type : {formats::TensorType::kQ8_0, formats::TensorType::kF16}) {
    const test::MemoryFile file = tiny_file(type);
    cuda_emulator::reset();
    const std::vector<float> expected = Talk(*file.gguf, 4).logits;
    ASSERT_FALSE(expected.empty());
    for (const cuda_emulator::Order order : {cuda_emulator::Order::kReverse, cuda_emulator::Order::kShuffled}) {
      with_card([&](auto& c) { c.block_order = order; });
      EXPECT_EQ(Talk(*file.gguf, 4).logits, expected);
    }
    with_card([](auto& c) {
      c.multiprocessors = 128;
      c.compute_capability = 120;
    });
    EXPECT_EQ(Talk(*file.gguf, 4).logits, expected);
  }
}

TEST(Backend, TuringComputesEveryKindOfWeight) {
  for (const formats::TensorType type :
       {formats::TensorType::kQ4_0, formats::TensorType::kF16, formats::TensorType::kBF16, formats::TensorType::kF32}) {
    const test::MemoryFile file = tiny_file(type);
    cuda_emulator::reset();
    const std::vector<float> expected = Talk(*file.gguf, 3).logits;
    with_card([](auto& c) { c.compute_capability = 75; });
    const Talk talk(*file.gguf, 3);
    ASSERT_EQ(talk.logits.size(), expected.size()) << talk.error.message;
    // BF16 weights read float32 activations there, instead of bfloat16 ones (2^-9 of each).
    EXPECT_LE(test::relative_rms(talk.logits, expected), 2e-2) << formats::type_traits(type).name;
  }
}

/** Code that was compiled for an older card, and translated for this one by the driver, has the older one's instructions. */
TEST(Backend, TuringsCodeComputesOnLaterCards) {
  for (const formats::TensorType type : {formats::TensorType::kQ4_0, formats::TensorType::kBF16}) {
    const test::MemoryFile file = tiny_file(type);
    with_card([](auto& c) { c.compute_capability = 75; });
    const std::vector<float> expected = Talk(*file.gguf, 3).logits;
    ASSERT_FALSE(expected.empty());
    with_card([](auto& c) { c.compiled_for = 75; });
    EXPECT_EQ(Talk(*file.gguf, 3).logits, expected) << formats::type_traits(type).name;
  }
}

TEST(Backend, WithoutKernelsForTheCardItSaysSo) {
  const auto pool = make_pool();
  for (const cudaError_t error : {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion,
                                  cudaErrorJitCompilerNotFound, cudaErrorJitCompilationDisabled}) {
    with_card([&](auto& c) { c.kernels_error = error; });
    const auto backend = create_backend(*pool, -1);
    ASSERT_FALSE(backend);
    EXPECT_EQ(backend.error().code, BANTER_ERROR_UNSUPPORTED);
    EXPECT_NE(backend.error().message.find("has no kernels for cuda/sm_86"), std::string::npos)
        << backend.error().message;
  }
  with_card([](auto& c) { c.kernels_error = cudaErrorLaunchFailure; });
  const auto backend = create_backend(*pool, -1);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, BANTER_ERROR_BACKEND);
}

/** The card is full, at whatever moment: an error that says so, and nothing that stays. */
TEST(Backend, EveryAllocationMayFail) {
  const test::MemoryFile file = tiny_file(formats::TensorType::kQ8_0);
  cuda_emulator::reset();
  const std::vector<float> expected = Talk(*file.gguf, 3).logits;
  int failed = 0;
  for (int64_t n = 1; n <= 40; ++n) {
    cuda_emulator::reset();
    cuda_emulator::fail_allocation(n);
    const Talk talk(*file.gguf, 3);
    if (talk.error.code != BANTER_OK) {
      ++failed;
      EXPECT_EQ(banter_result_class(talk.error.code), BANTER_ERROR_OUT_OF_MEMORY) << n << ": " << talk.error.message;
    } else {
      EXPECT_EQ(talk.logits, expected) << n;
    }
    EXPECT_EQ(cuda_emulator::live().device_allocations, 0) << n;
  }
  EXPECT_GE(failed, 5);
}

}  // namespace
}  // namespace banter::cuda
