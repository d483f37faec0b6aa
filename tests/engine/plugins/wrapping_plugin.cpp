// A plugin as banter_cuda is one, around the reference backend: for the tests of what loads plugins. What is wrong with it says
// the environment's BANTER_TEST_PLUGIN, a list of words:
//   version, fingerprint   the table is another build's
//   score                  no device suits
//   create                 no backend can be made: OUT_OF_MEMORY
//   upload                 weights find no room
//   copies                 nothing can be copied to the host
//   step=N                 the N-th step fails, counted from 1, and so do all after it;   only=N  only that one
// Where the build allows it has a heap of its own, which notices memory that was allocated elsewhere, as that of a game that
// replaces operator new would.
#include <banter_build/backend_fingerprint.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/thread_pool.h"
#include "ops/backend.h"
#include "ops/backend_plugin.h"
#include "ops/reference.h"

#ifdef BANTER_TEST_OWN_HEAP
namespace {
constexpr uint64_t kMark = 0x4F776E2048656170u;
constexpr size_t kHeader = 64;

void* take(size_t bytes, size_t alignment) {
  const size_t header = alignment > kHeader ? alignment : kHeader;
  void* const block = std::aligned_alloc(header, header + (bytes + header - 1) / header * header);
  if (block == nullptr) throw std::bad_alloc();
  char* const start = static_cast<char*>(block) + header;
  std::memcpy(start - 16, &kMark, sizeof kMark);
  std::memcpy(start - 8, &block, sizeof block);
  return start;
}
void give(void* memory) {
  if (memory == nullptr) return;
  char* const start = static_cast<char*>(memory);
  void* block = nullptr;
  if (std::memcmp(start - 16, &kMark, sizeof kMark) != 0) {
    std::fputs("the plugin was to free memory that it did not allocate\n", stderr);
    std::abort();
  }
  std::memset(start - 16, 0, sizeof kMark);
  std::memcpy(&block, start - 8, sizeof block);
  std::free(block);
}
}  // namespace
void* operator new(size_t bytes) {
  return take(bytes, 16);
}
void* operator new[](size_t bytes) {
  return take(bytes, 16);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  give(memory);
}
#endif

namespace banter {
namespace {

/** Whether the environment's list has the word; the number behind '=' in it, if any. */
bool told(const char* word, int* number = nullptr) {
  const char* const list = std::getenv("BANTER_TEST_PLUGIN");
  const char* const found = list == nullptr ? nullptr : std::strstr(list, word);
  if (found == nullptr) return false;
  const char* const behind = found + std::strlen(word);
  if (number != nullptr && *behind == '=') *number = std::atoi(behind + 1);
  return true;
}

class WrappingBackend final : public ops::Backend {
 public:
  WrappingBackend(std::unique_ptr<ops::Backend> inner, const ops::BackendOptions& options)
      : inner_(std::move(inner)), log_(options.log), log_user_data_(options.log_user_data) {
    told("step", &fails_from_);
    told("only", &fails_at_);
  }
  const std::string& name() const override { return name_; }
  Result<void*> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void deallocate(void* memory) override { inner_->deallocate(memory); }
  bool is_host_memory() const override { return inner_->is_host_memory(); }
  Result<void> copy_to_host(void* host, const void* device, size_t bytes) override {
    if (told("copies")) return Error{BANTER_ERROR_BACKEND, "The test's device copies nothing to the host any more."};
    return inner_->copy_to_host(host, device, bytes);
  }
  Result<void> copy_from_host(void* device, const void* host, size_t bytes) override {
    return inner_->copy_from_host(device, host, bytes);
  }
  Result<void> copy(void* to, const void* from, size_t bytes) override { return inner_->copy(to, from, bytes); }
  bool supports(ops::KvType type) const override { return inner_->supports(type); }
  ops::KvType default_kv_type() const override { return inner_->default_kv_type(); }
  std::optional<ops::KvLayout> kv_layout(const ops::KvGeometry& geometry) const override {
    return inner_->kv_layout(geometry);
  }
  void set_upload_progress(UploadProgress progress) override { inner_->set_upload_progress(std::move(progress)); }
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType type, int64_t rows, int64_t cols,
                                              std::span<const std::byte> data, ops::WeightUse use) override {
    if (told("upload")) {
      return Error{BANTER_ERROR_OUT_OF_MEMORY,
                   "The card has no room for a matrix of this many bytes, as tests want it."};
    }
    return inner_->upload(type, rows, cols, data, use);
  }
  Result<std::unique_ptr<ops::Rope>> create_rope(ops::RopeSpec spec) override {
    return inner_->create_rope(ops::RopeSpec(std::as_const(spec)));  // the host's memory stays the host's
  }
  void begin_step(const ops::Step& step) override { inner_->begin_step(step); }
  void embed(const ops::EmbedParams& params) override { inner_->embed(params); }
  void norm(const ops::NormParams& params) override { inner_->norm(params); }
  void linear(const ops::LinearParams& params) override { inner_->linear(params); }
  void gated(const ops::GatedParams& params) override { inner_->gated(params); }
  void rope_kv(const ops::RopeKvParams& params) override { inner_->rope_kv(params); }
  void attention(const ops::AttentionParams& params) override { inner_->attention(params); }
  void logits(const ops::LogitsParams& params) override { inner_->logits(params); }
  Result<void> end_step() override {
    const Result<void> done = inner_->end_step();
    ++steps_;
    if ((fails_from_ > 0 && steps_ >= fails_from_) || steps_ == fails_at_) {
      if (log_ != nullptr) log_(log_user_data_, BANTER_LOG_ERROR, "The test's device fails.");
      return Error{BANTER_ERROR_BACKEND,
                   "The test's device failed at step " + std::to_string(steps_) + ", as it was told to."};
    }
    return done;
  }

 private:
  const std::string name_ = "test/a name that is too long for a string to hold without memory";
  std::unique_ptr<ops::Backend> inner_;
  void (*log_)(void*, banter_log_level, const char*);
  void* log_user_data_;
  int steps_ = 0, fails_from_ = 0, fails_at_ = 0;
};

uint64_t score(const ops::BackendOptions* options, char* reason, size_t reason_bytes) noexcept {
  if (told("score")) {
    std::snprintf(reason, reason_bytes, "no device suits the test.");
    return 0;
  }
  const banter_cuda_context* const context = options->context;
  std::snprintf(reason, reason_bytes, "device %d, budget %llu, context %d at %p.", options->device,
                static_cast<unsigned long long>(options->memory_budget_bytes), context == nullptr ? 0 : context->kind,
                context == nullptr ? nullptr : context->handle);
  return 1;
}

ops::Backend* create(const ops::BackendOptions* options, banter_result* code, char* reason,
                     size_t reason_bytes) noexcept {
  if (told("create")) {
    *code = BANTER_ERROR_OUT_OF_MEMORY;
    std::snprintf(reason, reason_bytes, "the test's device is full.");
    return nullptr;
  }
  auto inner = ops::create_reference_backend(*options->pool);
  if (!inner) return nullptr;
  return new WrappingBackend(std::move(*inner), *options);
}

void release_text(std::string* text) noexcept {
  std::string().swap(*text);
}

constexpr ops::BackendPlugin table(uint32_t version, const char* fingerprint) {
  return {sizeof(ops::BackendPlugin), version, fingerprint, "test", score, create, release_text};
}
constexpr ops::BackendPlugin kGood = table(ops::kPluginVersion, BANTER_BACKEND_FINGERPRINT);
constexpr ops::BackendPlugin kVersion = table(ops::kPluginVersion + 1, BANTER_BACKEND_FINGERPRINT);
constexpr ops::BackendPlugin kFingerprint = table(ops::kPluginVersion, "0.0.9-1234");

}  // namespace
}  // namespace banter

extern "C" __attribute__((visibility("default"))) const banter::ops::BackendPlugin* banter_backend_plugin_v1();
extern "C" const banter::ops::BackendPlugin* banter_backend_plugin_v1() {
  if (banter::told("version")) return &banter::kVersion;
  return banter::told("fingerprint") ? &banter::kFingerprint : &banter::kGood;
}
