// What the model tests share: backends by name, tiny models built from the shipped cases, and running token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "formats/tensor_type.h"
#include "kv/page_pool.h"
#include "model/model.h"
#include "ops/backend.h"
#include "support/gguf_writer.h"

namespace banter::test {

/** "reference", "cpu/<isa>" for every instruction set that this machine has, and "cuda", emulated or on a card, where the
 *  build has it. */
std::vector<std::string> backend_names();
std::unique_ptr<ops::Backend> create_backend(const std::string& name, ThreadPool& pool);
/** Computing on "cuda" takes a thousand times as long. */
#if defined(BANTER_CUDA_EMULATOR)
inline constexpr bool kCardIsEmulated = true;
#else
inline constexpr bool kCardIsEmulated = false;
#endif
/** A name as GoogleTest takes it: letters, digits and underscores. */
std::string test_name(std::string text);

/** Names of the cases in tests/data/tiny_models. */
std::vector<std::string> tiny_cases();
nlohmann::json read_tiny_case(const std::string& name);
/** The case's model as a GGUF file, every matrix in `type`. Leaves out `without`, when it names a tensor. */
GgufWriter build_tiny(const nlohmann::json& tiny, formats::TensorType type, const std::string& without = {});

/** A file in memory with its bytes. */
struct MemoryFile {
  explicit MemoryFile(const GgufWriter& writer);
  std::vector<std::byte> bytes;
  std::unique_ptr<formats::Gguf> gguf;
};

/** A model with a pool for a few sequences. */
struct Loaded {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<kv::PagePool> pool;

  /** Logits of every id, [ids][vocabulary], computed in chunks of `chunk`. */
  std::vector<float> run(std::span<const int32_t> ids, int32_t chunk = 1 << 20);
};

/** Loads, failing the test where that fails. `type`: the KV pages' format; by default the backend's own. */
Loaded load(const formats::Gguf& file, const std::string& backend, int32_t context = 0,
            std::optional<ops::KvType> type = {}, int32_t threads = 2);

/** sqrt(mean((a − b)²)) / sqrt(mean(b²)). */
double relative_rms(std::span<const float> a, std::span<const float> b);
/** max |a − b|. */
double largest_difference(std::span<const float> a, std::span<const float> b);

}  // namespace banter::test
