#include "model/model_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "backend_cpu/cpu_backend.h"
#if defined(BANTER_TEST_CUDA)
#include "backend_cuda/cuda_backend.h"
#endif
#include "ops/reference.h"

namespace banter::test {

namespace {

// See make_tiny_goldens.py: weights are a function of the tensor's name and the element's index alone.
std::vector<float> formula_values(const std::string& name, size_t count) {
  uint64_t seed = 0xCBF29CE484222325u;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  const bool is_norm = name.ends_with("norm.weight");
  const float amplitude = name.starts_with("token_embd") ? 1.0f : 0.25f;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    values[i] = amplitude * (static_cast<float>(z >> 40) / 8388608.0f - 1.0f) + (is_norm ? 1.0f : 0.0f);
  }
  return values;
}

void add_vocabulary(GgufWriter& writer, size_t size) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (size_t i = 0; i < size; ++i) {
    tokens.push_back(i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : "t" + std::to_string(i));
    scores.push_back(-static_cast<float>(i));
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : 1);
  }
  writer.set_string("tokenizer.ggml.model", "llama")
      .set_strings("tokenizer.ggml.tokens", tokens)
      .set_f32s("tokenizer.ggml.scores", scores)
      .set_i32s("tokenizer.ggml.token_type", types)
      .set_u32("tokenizer.ggml.bos_token_id", 1)
      .set_u32("tokenizer.ggml.eos_token_id", 2)
      .set_u32("tokenizer.ggml.unknown_token_id", 0);
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names = {"reference"};
  for (const cpu::Isa isa : cpu::available_isas()) names.push_back("cpu/" + std::string(cpu::isa_name(isa)));
#if defined(BANTER_TEST_CUDA)
  names.push_back("cuda");
#endif
  return names;
}

std::unique_ptr<ops::Backend> create_backend(const std::string& name, ThreadPool& pool) {
  Result<std::unique_ptr<ops::Backend>> backend = Error{BANTER_ERROR_NOT_FOUND, "no backend " + name};
  if (name == "reference") backend = ops::create_reference_backend(pool);
  for (const cpu::Isa isa : cpu::available_isas()) {
    if (name == "cpu/" + std::string(cpu::isa_name(isa))) backend = cpu::create_backend(pool, isa);
  }
#if defined(BANTER_TEST_CUDA)
  if (name == "cuda") backend = cuda::create_backend(pool, -1);
#endif
  EXPECT_TRUE(backend) << backend.error().message;
  return backend ? std::move(*backend) : nullptr;
}

std::string test_name(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text;
}

std::vector<std::string> tiny_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(BANTER_TEST_DATA "/tiny_models")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json read_tiny_case(const std::string& name) {
  std::ifstream file(BANTER_TEST_DATA "/tiny_models/" + name + ".json");
  return nlohmann::json::parse(file);
}

GgufWriter build_tiny(const nlohmann::json& tiny, formats::TensorType type, const std::string& without) {
  GgufWriter writer;
  const std::string arch = tiny["architecture"];
  writer.set_string("general.architecture", arch);
  for (const auto& [key, value] : tiny["metadata"].items()) {
    if (value.is_string()) writer.set_string(arch + "." + key, value.get<std::string>());
    if (value.is_number_integer()) writer.set_u32(arch + "." + key, value.get<uint32_t>());
    if (value.is_number_float()) writer.set_f32(arch + "." + key, value.get<float>());
  }
  for (const auto& tensor : tiny["tensors"]) {
    const std::string name = tensor[0];
    const std::vector<uint64_t> dims = tensor[1];
    if (name == "token_embd.weight") add_vocabulary(writer, dims[1]);
    if (name == without) continue;
    const size_t count = std::accumulate(dims.begin(), dims.end(), size_t{1}, std::multiplies<>());
    writer.add_tensor(name, dims, dims.size() == 1 ? formats::TensorType::kF32 : type, formula_values(name, count));
  }
  for (const auto& tensor : tiny["given"]) {
    const std::vector<float> values = tensor[1];
    writer.add_tensor(tensor[0].get<std::string>(), {values.size()}, formats::TensorType::kF32, values);
  }
  return writer;
}

MemoryFile::MemoryFile(const GgufWriter& writer) : bytes(writer.bytes()) {
  Result<formats::Gguf> opened = formats::Gguf::open(borrow_memory(bytes, "tiny"), {});
  EXPECT_TRUE(opened) << opened.error().message;
  if (opened) gguf = std::make_unique<formats::Gguf>(std::move(*opened));
}

Loaded load(const formats::Gguf& file, const std::string& backend, int32_t context, std::optional<ops::KvType> type,
            int32_t threads) {
  Loaded loaded;
  loaded.threads = std::move(*ThreadPool::create({.threads = threads}));
  loaded.backend = create_backend(backend, *loaded.threads);
  const model::LoadOptions options = {
      .context_length = context, .max_rows = 512, .max_logit_rows = 512, .kv_type = type};
  Result<std::unique_ptr<model::Model>> model = model::Model::load(file, *loaded.backend, options, {});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return loaded;
  loaded.model = std::move(*model);
  Result<std::unique_ptr<kv::PagePool>> pool =
      kv::PagePool::create(*loaded.backend, loaded.model->kv_groups(), size_t{64} << 20);
  EXPECT_TRUE(pool) << pool.error().message;
  if (pool) loaded.pool = std::move(*pool);
  return loaded;
}

std::vector<float> Loaded::run(std::span<const int32_t> ids, int32_t chunk) {
  std::vector<float> all;
  kv::SequenceCache cache(*pool, model->context_length());
  while (static_cast<size_t>(cache.length()) < ids.size()) {
    const size_t done = static_cast<size_t>(cache.length());
    const size_t count =
        std::min({ids.size() - done, static_cast<size_t>(chunk), static_cast<size_t>(model->max_rows())});
    const Result<void> reserved = cache.reserve(static_cast<int32_t>(count));
    EXPECT_TRUE(reserved) << reserved.error().message;
    model::Batch batch;
    batch.chunks.push_back({&cache, ids.subspan(done, count), model::LogitRows::kAll});
    const Result<std::span<float>> logits = model->forward(*pool, batch);
    EXPECT_TRUE(logits) << logits.error().message;
    if (!reserved || !logits) break;
    all.insert(all.end(), logits->begin(), logits->end());
  }
  return all;
}

double relative_rms(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double difference = std::abs(double{a[i]} - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts as large
  }
  return largest;
}

}  // namespace banter::test
