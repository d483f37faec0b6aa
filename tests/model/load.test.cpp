// Loading: what is refused and how it is said, progress, cancelling; and the arguments of forward().
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "model/model_fixture.h"
#include "support/quantize.h"

namespace banter::model {
namespace {

using formats::TensorType;
using test::GgufWriter;
using test::MemoryFile;

constexpr char kBackend[] = "reference";

Result<std::unique_ptr<Model>> load(const GgufWriter& writer, test::Loaded& parts, const LoadOptions& options = {},
                                    const LoadProgress& progress = {}) {
  const MemoryFile file(writer);
  parts.threads = std::move(*ThreadPool::create({.threads = 1}));
  parts.backend = test::create_backend(kBackend, *parts.threads);
  return Model::load(*file.gguf, *parts.backend, options, progress);
}

Error load_error(const GgufWriter& writer, const LoadOptions& options = {}) {
  test::Loaded parts;
  const Result<std::unique_ptr<Model>> model = load(writer, parts, options);
  EXPECT_FALSE(model);
  return model ? Error{} : model.error();
}

bool mentions(const Error& error, const std::string& text) {
  return error.message.find(text) != std::string::npos;
}

TEST(Load, EveryMissingTensorIsNamed) {
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"}) {
    const nlohmann::json tiny = test::read_tiny_case(name);
    for (const auto& tensor : tiny["tensors"]) {
      const std::string missing = tensor[0];
      if (missing == "output.weight") continue;  // without it the embedding serves as head
      const Error error = load_error(test::build_tiny(tiny, TensorType::kF32, missing));
      EXPECT_EQ(error.code, BANTER_ERROR_MISSING_TENSOR) << missing;
      EXPECT_TRUE(mentions(error, missing)) << error.message;
    }
  }
}

TEST(Load, WrongShapesAreNamed) {
  const nlohmann::json tiny = test::read_tiny_case("llama");
  for (const auto& tensor : tiny["tensors"]) {
    const std::string name = tensor[0];
    nlohmann::json changed = tiny;
    for (auto& t : changed["tensors"]) {
      if (t[0] != name) continue;
      const size_t last = t[1].size() - 1;
      t[1][last] = t[1][last].get<int>() + 1;
    }
    const Error error = load_error(test::build_tiny(changed, TensorType::kF32));
    EXPECT_EQ(error.code, BANTER_ERROR_CORRUPT) << name;
    // The embedding's rows are the vocabulary, so it is the head that does not fit then.
    EXPECT_TRUE(mentions(error, name == "token_embd.weight" ? "output.weight" : name)) << name << ": " << error.message;
  }
}

TEST(Load, UnknownTensorsAreNamedRatherThanIgnored) {
  GgufWriter writer = test::build_tiny(test::read_tiny_case("llama"), TensorType::kF32);
  writer.add_random("blk.1.ffn_gate_inp.weight", {64, 8}, TensorType::kF32, 1);
  const Error error = load_error(writer);
  EXPECT_EQ(error.code, BANTER_ERROR_UNSUPPORTED);
  EXPECT_TRUE(mentions(error, "blk.1.ffn_gate_inp.weight"));
}

TEST(Load, UnreadableTypesAreNamedWithTheReadable) {
  nlohmann::json tiny = test::read_tiny_case("llama");
  GgufWriter writer = test::build_tiny(tiny, TensorType::kF32, "blk.2.ffn_down.weight");
  constexpr uint32_t kF64 = 28;
  writer.add_raw("blk.2.ffn_down.weight", {96, 64}, kF64, std::vector<std::byte>(96 * 64 * 8));
  const Error error = load_error(writer);
  EXPECT_EQ(error.code, BANTER_ERROR_UNSUPPORTED_TYPE);
  EXPECT_TRUE(mentions(error, "blk.2.ffn_down.weight")) << error.message;
  EXPECT_TRUE(mentions(error, "F64")) << error.message;
  EXPECT_TRUE(mentions(error, "Q4_K")) << error.message;
}

TEST(Load, VocabularyAndEmbeddingMustAgree) {
  nlohmann::json tiny = test::read_tiny_case("llama");
  GgufWriter writer = test::build_tiny(tiny, TensorType::kF32, "token_embd.weight");
  writer.add_random("token_embd.weight", {64, 71}, TensorType::kF32, 1);
  const Error error = load_error(writer);
  EXPECT_EQ(error.code, BANTER_ERROR_CORRUPT);
  EXPECT_TRUE(mentions(error, "72")) << error.message;
  EXPECT_TRUE(mentions(error, "71")) << error.message;
}

TEST(Load, OptionsAreChecked) {
  const GgufWriter writer = test::build_tiny(test::read_tiny_case("llama"), TensorType::kF32);
  EXPECT_EQ(load_error(writer, {.max_rows = 0}).code, BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(load_error(writer, {.max_rows = 1 << 20}).code, BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(load_error(writer, {.max_rows = 4, .max_logit_rows = 5}).code, BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(load_error(writer, {.context_length = 65}).code, BANTER_ERROR_INVALID_ARGUMENT);
}

// A file of a few hundred bytes may claim any size; its tensors must still lie inside it, so the claim is caught by the
// parser or by the shapes, never by an allocation.
TEST(Load, HugeClaimsInSmallFilesAreRefusedAtOnce) {
  nlohmann::json tiny = test::read_tiny_case("llama");
  tiny["metadata"]["feed_forward_length"] = 1 << 20;
  tiny["metadata"]["block_count"] = 1024;
  const auto start = std::chrono::steady_clock::now();
  const Error error = load_error(test::build_tiny(tiny, TensorType::kF32));
  EXPECT_EQ(error.code, BANTER_ERROR_CORRUPT) << error.message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

/** A source of `size` bytes of which only the head is real; reading the rest gives zeros. */
class SparseSource final : public ByteSource {
 public:
  SparseSource(std::vector<std::byte> head, uint64_t size) : head_(std::move(head)), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), std::byte{0});
    if (offset < head_.size())
      std::memcpy(out.data(), head_.data() + offset, std::min<size_t>(out.size(), head_.size() - offset));
    bytes_read += out.size();
    if (delay.count() != 0) std::this_thread::sleep_for(delay);
    return {};
  }
  const std::byte* map() override { return nullptr; }
  const std::string& name() const override { return name_; }
  uint64_t bytes_read = 0;
  std::chrono::milliseconds delay{0};

 private:
  std::vector<std::byte> head_;
  uint64_t size_;
  std::string name_ = "sparse";
};

/** Bytes of a GGUF header, written by hand: the writer of the other tests would want the tensors' data. */
class Header {
 public:
  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(const std::string& value) {
    put<uint64_t>(value.size());
    bytes_ += value;
  }
  void key(const std::string& name, uint32_t type) {
    text(name);
    put(type);
    ++keys;
  }
  void number(const std::string& name, uint32_t value) {
    key(name, 4);
    put(value);
  }
  void array(const std::string& name, uint32_t type, uint64_t count) {
    key(name, 9);
    put(type);
    put(count);
  }
  std::vector<std::byte> file(uint64_t tensors) const {
    Header whole;
    whole.bytes_ = "GGUF";
    whole.put<uint32_t>(3);
    whole.put(tensors);
    whole.put(keys);
    whole.bytes_ += bytes_;
    whole.bytes_.resize((whole.bytes_.size() + 31) / 32 * 32);
    const auto* data = reinterpret_cast<const std::byte*>(whole.bytes_.data());
    return std::vector<std::byte>(data, data + whole.bytes_.size());
  }
  uint64_t keys = 0;

 private:
  std::string bytes_;
};

/** A llama of one layer whose matrices are [width][width] float32 zeros. */
std::shared_ptr<SparseSource> wide_source(uint32_t width) {
  constexpr uint32_t kString = 8, kI32 = 5, kF32 = 6;
  Header header;
  header.key("general.architecture", kString);
  header.text("llama");
  header.number("llama.context_length", 64);
  header.number("llama.block_count", 1);
  header.number("llama.embedding_length", width);
  header.number("llama.feed_forward_length", width);
  header.number("llama.attention.head_count", width / 1024);
  header.key("tokenizer.ggml.model", kString);
  header.text("llama");
  header.array("tokenizer.ggml.tokens", kString, 72);
  for (int i = 0; i < 72; ++i) header.text("t" + std::to_string(i));
  header.array("tokenizer.ggml.scores", kF32, 72);
  for (int i = 0; i < 72; ++i) header.put<float>(0);
  header.array("tokenizer.ggml.token_type", kI32, 72);
  for (int i = 0; i < 72; ++i) header.put<int32_t>(i == 0 ? 2 : i < 3 ? 3 : 1);
  header.number("tokenizer.ggml.bos_token_id", 1);
  header.number("tokenizer.ggml.eos_token_id", 2);
  header.number("tokenizer.ggml.unknown_token_id", 0);

  uint64_t offset = 0, tensors = 0;
  const auto tensor = [&](const std::string& name, uint64_t cols, uint64_t rows) {
    header.text(name);
    header.put<uint32_t>(rows == 1 ? 1 : 2);
    header.put(cols);
    if (rows != 1) header.put(rows);
    header.put<uint32_t>(0);  // F32
    header.put(offset);
    offset += cols * rows * 4;
    ++tensors;
  };
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensor(std::string("blk.0.") + name + ".weight", width, width);
  }
  tensor("blk.0.attn_norm.weight", width, 1);
  tensor("blk.0.ffn_norm.weight", width, 1);
  tensor("output_norm.weight", width, 1);
  tensor("token_embd.weight", width, 72);
  std::vector<std::byte> head = header.file(tensors);
  const uint64_t size = head.size() + offset;
  return std::make_shared<SparseSource>(std::move(head), size);
}

TEST(Load, TooLittleMemoryIsSaidWithFigures) {
  // 7 · 2^18 · 2^18 · 4 bytes = 1.8 TiB.
  const std::shared_ptr<SparseSource> source = wide_source(1 << 18);
  const Result<formats::Gguf> file = formats::Gguf::open(source, {});
  ASSERT_TRUE(file) << file.error().message;
  const uint64_t before = source->bytes_read;
  const std::unique_ptr<ThreadPool> threads = std::move(*ThreadPool::create({.threads = 1}));
  const std::unique_ptr<ops::Backend> backend = test::create_backend(kBackend, *threads);
  const Result<std::unique_ptr<Model>> model = Model::load(*file, *backend, {}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, BANTER_ERROR_OUT_OF_MEMORY) << model.error().message;
  EXPECT_TRUE(mentions(model.error(), "GiB")) << model.error().message;
  EXPECT_EQ(source->bytes_read, before) << "nothing need be read to know";
}

TEST(Load, CancellingDoesNotWaitForALargeTensor) {
  const std::shared_ptr<SparseSource> source = wide_source(1 << 13);  // matrices of 256 MiB
  const Result<formats::Gguf> file = formats::Gguf::open(source, {});
  ASSERT_TRUE(file) << file.error().message;
  source->delay = std::chrono::milliseconds(5);
  const std::unique_ptr<ThreadPool> threads = std::move(*ThreadPool::create({.threads = 1}));
  const std::unique_ptr<ops::Backend> backend = test::create_backend(kBackend, *threads);
  const uint64_t before = source->bytes_read;
  const Result<std::unique_ptr<Model>> model =
      Model::load(*file, *backend, {}, [&](float) { return source->bytes_read - before < (uint64_t{20} << 20); });
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, BANTER_ERROR_CANCELLED);
  EXPECT_LT(source->bytes_read - before, uint64_t{40} << 20);
}

// From mapped memory all the time is spent in the backend, which must ask too.
TEST(Load, EveryBackendStopsInsideALargeTensor) {
  const std::vector<std::byte> bytes(size_t{96} << 20);
  const std::unique_ptr<ThreadPool> threads = std::move(*ThreadPool::create({.threads = 1}));
  for (const std::string& name : test::backend_names()) {
    const std::unique_ptr<ops::Backend> backend = test::create_backend(name, *threads);
    for (const ops::WeightUse use : {ops::WeightUse::kLinear, ops::WeightUse::kBoth}) {
      float stopped_at = -1.0f;
      backend->set_upload_progress([&](float fraction) {
        stopped_at = fraction;
        return fraction < 0.25f;
      });
      const Result<std::unique_ptr<ops::Weight>> weight = backend->upload(TensorType::kF16, 12288, 4096, bytes, use);
      backend->set_upload_progress({});
      ASSERT_FALSE(weight) << name;
      EXPECT_EQ(weight.error().code, BANTER_ERROR_CANCELLED) << name;
      EXPECT_LT(stopped_at, 0.75f) << name;
    }
  }
}

TEST(Load, ProgressRisesToOneAndCancellingWorksEverywhere) {
  const GgufWriter writer = test::build_tiny(test::read_tiny_case("gemma3"), TensorType::kQ8_0);
  std::vector<float> fractions;
  {
    test::Loaded parts;
    const Result<std::unique_ptr<Model>> model = load(writer, parts, {}, [&](float fraction) {
      fractions.push_back(fraction);
      return true;
    });
    ASSERT_TRUE(model) << model.error().message;
  }
  ASSERT_GT(fractions.size(), 10u);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.front(), 0.0f);
  EXPECT_EQ(fractions.back(), 1.0f);
  for (size_t stop = 0; stop < fractions.size(); ++stop) {
    test::Loaded parts;
    size_t calls = 0;
    const Result<std::unique_ptr<Model>> model = load(writer, parts, {}, [&](float) { return calls++ < stop; });
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, BANTER_ERROR_CANCELLED);
    EXPECT_EQ(calls, stop + 1) << "no question after the answer no";
  }
}

TEST(Load, SourcesThatCannotMapGiveTheSameModel) {
  const nlohmann::json tiny = test::read_tiny_case("phi3");
  const GgufWriter writer = test::build_tiny(tiny, TensorType::kF32);
  const MemoryFile file(writer);
  const std::vector<int32_t> ids = tiny["ids"];
  const std::vector<float> expected = test::load(*file.gguf, kBackend).run(ids);
  const auto source = std::make_shared<SparseSource>(file.bytes, file.bytes.size());
  const Result<formats::Gguf> read = formats::Gguf::open(source, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(test::load(*read, kBackend).run(ids), expected);
}

TEST(Load, TheModelDescribesItself) {
  const MemoryFile file(test::build_tiny(test::read_tiny_case("gemma2"), TensorType::kF32));
  const test::Loaded loaded = test::load(*file.gguf, kBackend, 32);
  EXPECT_EQ(loaded.model->context_length(), 32);
  EXPECT_EQ(loaded.model->display_name(), "gemma2");
  EXPECT_EQ(loaded.model->chat_template(), "");
  EXPECT_EQ(loaded.model->tokenizer().size(), 72u);
  EXPECT_EQ(&loaded.model->backend(), loaded.backend.get());
  EXPECT_GT(loaded.model->weight_bytes(), 72u * 64 * 4);
  EXPECT_LE(loaded.model->weight_bytes(), file.bytes.size());
  EXPECT_EQ(loaded.model->kv_groups().size(), 2u);
  EXPECT_EQ(loaded.model->kv_groups()[0].type, ops::KvType::kF32);
}

class Forward : public ::testing::Test {
 protected:
  banter_result run(kv::SequenceCache& cache, std::vector<int32_t> tokens, LogitRows rows = LogitRows::kAll) {
    Batch batch;
    batch.chunks.push_back({&cache, tokens, rows});
    const int32_t before = cache.length();
    const Result<std::span<float>> logits = loaded_.model->forward(*loaded_.pool, batch);
    if (!logits) {
      EXPECT_EQ(cache.length(), before);
      return logits.error().code;
    }
    EXPECT_EQ(cache.length(), before + static_cast<int32_t>(tokens.size()));
    return BANTER_OK;
  }
  MemoryFile file_{test::build_tiny(test::read_tiny_case("llama"), TensorType::kF32)};
  test::Loaded loaded_ = test::load(*file_.gguf, kBackend);
};

TEST_F(Forward, RefusesWhatItCannotCompute) {
  kv::SequenceCache cache(*loaded_.pool, 100);
  EXPECT_EQ(run(cache, {1}), BANTER_ERROR_INVALID_ARGUMENT) << "nothing reserved";
  ASSERT_TRUE(cache.reserve(100));
  EXPECT_EQ(run(cache, {}), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(run(cache, {72}), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(run(cache, {-1}), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(run(cache, {std::numeric_limits<int32_t>::max()}), BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(run(cache, std::vector<int32_t>(65, 1)), BANTER_ERROR_CONTEXT_FULL);
  EXPECT_EQ(run(cache, std::vector<int32_t>(600, 1)), BANTER_ERROR_INVALID_ARGUMENT) << "more rows than a batch has";
  EXPECT_EQ(run(cache, std::vector<int32_t>(60, 1)), BANTER_OK);
  EXPECT_EQ(run(cache, std::vector<int32_t>(5, 1)), BANTER_ERROR_CONTEXT_FULL);
  EXPECT_EQ(run(cache, std::vector<int32_t>(4, 1)), BANTER_OK);
  Batch without_cache;
  const std::vector<int32_t> one = {1};
  without_cache.chunks.push_back({nullptr, one, LogitRows::kLast});
  EXPECT_FALSE(loaded_.model->forward(*loaded_.pool, without_cache));
}

TEST_F(Forward, LogitRowsAreLimited) {
  const test::Loaded small = [&] {
    test::Loaded parts;
    parts.threads = std::move(*ThreadPool::create({.threads = 1}));
    parts.backend = test::create_backend(kBackend, *parts.threads);
    parts.model = std::move(*Model::load(*file_.gguf, *parts.backend, {.max_rows = 8, .max_logit_rows = 2}, {}));
    parts.pool = std::move(*kv::PagePool::create(*parts.backend, parts.model->kv_groups(), 1 << 22));
    return parts;
  }();
  kv::SequenceCache cache(*small.pool, 64);
  ASSERT_TRUE(cache.reserve(8));
  const std::vector<int32_t> tokens = {1, 2, 3};
  Batch batch;
  batch.chunks.push_back({&cache, tokens, LogitRows::kAll});
  const Result<std::span<float>> refused = small.model->forward(*small.pool, batch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, BANTER_ERROR_INVALID_ARGUMENT);
  batch.chunks[0].logits = LogitRows::kLast;
  const Result<std::span<float>> logits = small.model->forward(*small.pool, batch);
  ASSERT_TRUE(logits);
  EXPECT_EQ(logits->size(), 72u);
  batch.chunks[0].logits = LogitRows::kNone;
  const Result<std::span<float>> none = small.model->forward(*small.pool, batch);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  const Result<std::span<float>> empty = small.model->forward(*small.pool, {});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
}

}  // namespace
}  // namespace banter::model
