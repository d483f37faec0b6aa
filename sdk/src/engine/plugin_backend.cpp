#include "engine/plugin_backend.h"

#include <banter_build/backend_fingerprint.h>

#include <cstddef>
#include <cstring>

#include "base/shared_library.h"

namespace banter::engine {
namespace {

constexpr size_t kReasonBytes = 512;

/** Passes everything on, and takes care of what may not cross the border: texts of errors are copied, and the plugin's
 *  own go back to it. Owns the log that the plugin's backend writes to. */
class Forwarder final : public ops::Backend {
 public:
  Forwarder(const ops::BackendPlugin& plugin, std::unique_ptr<Log> log) : plugin_(plugin), log_(std::move(log)) {}
  void adopt(ops::Backend* backend) {
    backend_.reset(backend);
    name_.assign(backend->name());
  }

  const std::string& name() const override { return name_; }
  Result<void*> allocate(size_t bytes) override { return ours(backend_->allocate(bytes)); }
  void deallocate(void* memory) override { backend_->deallocate(memory); }
  bool is_host_memory() const override { return backend_->is_host_memory(); }
  std::optional<uint64_t> free_memory() const override { return backend_->free_memory(); }
  Result<void> copy_to_host(void* host, const void* device, size_t bytes) override {
    return ours(backend_->copy_to_host(host, device, bytes));
  }
  Result<void> copy_from_host(void* device, const void* host, size_t bytes) override {
    return ours(backend_->copy_from_host(device, host, bytes));
  }
  Result<void> copy(void* to, const void* from, size_t bytes) override { return ours(backend_->copy(to, from, bytes)); }
  bool supports(ops::KvType type) const override { return backend_->supports(type); }
  bool supports_heads(ops::KvType type, int32_t head_dim) const override {
    return backend_->supports_heads(type, head_dim);
  }
  bool shifts_keys() const override { return backend_->shifts_keys(); }
  ops::KvType default_kv_type() const override { return backend_->default_kv_type(); }
  std::optional<ops::KvLayout> kv_layout(const ops::KvGeometry& geometry) const override {
    return backend_->kv_layout(geometry);
  }
  void set_upload_progress(UploadProgress progress) override { backend_->set_upload_progress(std::move(progress)); }
  Result<std::unique_ptr<ops::Weight>> upload(ops::TensorType type, int64_t rows, int64_t cols,
                                              std::span<const std::byte> data, ops::WeightUse use) override {
    return ours(backend_->upload(type, rows, cols, data, use));
  }
  Result<std::unique_ptr<ops::Rope>> create_rope(ops::RopeSpec spec) override {
    return ours(backend_->create_rope(std::move(spec)));
  }
  void begin_step(const ops::Step& step) override { backend_->begin_step(step); }
  void embed(const ops::EmbedParams& params) override { backend_->embed(params); }
  void norm(const ops::NormParams& params) override { backend_->norm(params); }
  void linear(const ops::LinearParams& params) override { backend_->linear(params); }
  void gated(const ops::GatedParams& params) override { backend_->gated(params); }
  void rope_kv(const ops::RopeKvParams& params) override { backend_->rope_kv(params); }
  void attention(const ops::AttentionParams& params) override { backend_->attention(params); }
  void logits(const ops::LogitsParams& params) override { backend_->logits(params); }
  bool finds_best_logits() const override { return backend_->finds_best_logits(); }
  void best_logits() override { backend_->best_logits(); }
  ops::BestLogits best_row(int32_t row) const override { return backend_->best_row(row); }
  Result<void> end_step() override { return ours(backend_->end_step()); }

 private:
  /** The same with an error of our own memory. */
  template <class T>
  Result<T> ours(Result<T> theirs) const {
    if (theirs) return theirs;
    // The plugin's text is never freed by us, also when there is no memory for a copy: it is taken out first.
    auto& error = const_cast<Error&>(theirs.error());
    struct GiveBack {
      const ops::BackendPlugin& plugin;
      std::string& text;
      ~GiveBack() { plugin.release_text(&text); }
    } give_back{plugin_, error.message};
    return Error{error.code, std::string(error.message)};
  }

  const ops::BackendPlugin& plugin_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<ops::Backend> backend_;  // goes before the log
  std::string name_;
};

void write_log(void* log, banter_log_level level, const char* message) {
  static_cast<const Log*>(log)->write(level, message);
}

/** The library's table, when it is one that we may use. */
Result<const ops::BackendPlugin*> table_of(const SharedLibrary& library, const std::string& path) {
  auto* const entry = library.function<ops::BackendPluginEntry>(ops::kPluginEntry);
  if (entry == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED,
                 path + " is no backend of this version: it has no function " + std::string(ops::kPluginEntry) + "."};
  }
  const ops::BackendPlugin* const plugin = entry();
  if (plugin == nullptr || plugin->struct_size < sizeof(ops::BackendPlugin) || plugin->version != ops::kPluginVersion) {
    return Error{BANTER_ERROR_VERSION,
                 path + " has another plugin interface than this library; use both of one build."};
  }
  if (std::strcmp(plugin->fingerprint, BANTER_BACKEND_FINGERPRINT) != 0) {
    return Error{BANTER_ERROR_VERSION, path + " is of build " + plugin->fingerprint + ", this library of build " +
                                           BANTER_BACKEND_FINGERPRINT + "; use both of one build."};
  }
  return plugin;
}

}  // namespace

Result<PluginBackend> create_plugin_backend(const std::string& path, ops::BackendOptions options, const Log& log) {
  auto library = SharedLibrary::open(path);
  if (!library) return library.error();
  auto table = table_of(*library, path);
  if (!table) return table.error();
  const ops::BackendPlugin& plugin = **table;
  library->keep();  // drivers leave threads and callbacks behind that must not lose their code

  auto own_log = std::make_unique<Log>(log);
  options.log = write_log;
  options.log_user_data = own_log.get();
  auto forwarder = std::make_unique<Forwarder>(plugin, std::move(own_log));
  char reason[kReasonBytes] = {};
  const uint64_t score = plugin.score(&options, reason, sizeof reason);
  reason[sizeof reason - 1] = '\0';
  PluginBackend made;
  made.device = reason;
  if (score == 0) return Error{BANTER_ERROR_UNSUPPORTED, made.device};
  banter_result code = BANTER_ERROR_BACKEND;
  reason[0] = '\0';
  ops::Backend* const backend = plugin.create(&options, &code, reason, sizeof reason);
  if (backend == nullptr) {
    reason[sizeof reason - 1] = '\0';
    return Error{code == BANTER_OK ? BANTER_ERROR_BACKEND : code, reason};
  }
  forwarder->adopt(backend);
  made.backend = std::move(forwarder);
  return made;
}

}  // namespace banter::engine
