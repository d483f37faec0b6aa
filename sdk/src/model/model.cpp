#include "model/model.h"

#include <string>
#include <utility>

#include "formats/vocabulary.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace banter::model {

struct Model::Impl {
  Hyperparameters hp;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::string chat_template, display_name;
  LoadOptions options;
  ops::Backend* backend = nullptr;
  DecoderWeights weights;
  std::unique_ptr<Decoder> decoder;  // borrows hp and weights
};

Model::Model() : impl_(std::make_unique<Impl>()) {}
Model::~Model() = default;

namespace {

Result<void> check(const LoadOptions& options) {
  constexpr int32_t kMaxRows = 65536;
  if (options.max_rows < 1 || options.max_rows > kMaxRows || options.max_logit_rows < 1 ||
      options.max_logit_rows > options.max_rows) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "a batch has 1 to 65536 rows and at most as many logit rows"};
  }
  return {};
}

bool is_float32(const DecoderWeights& weights) {
  bool all =
      weights.embedding->type == formats::TensorType::kF32 && weights.output_head().type == formats::TensorType::kF32;
  for (const LayerWeights& layer : weights.layers) {
    for (const auto* weight : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      all = all && (*weight)->type == formats::TensorType::kF32;
    }
  }
  return all;
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const formats::Gguf& file, const Hyperparameters& hp) {
  Result<formats::Vocabulary> vocabulary = formats::vocabulary_from_gguf(file);
  if (!vocabulary) return vocabulary.error();
  if (vocabulary->tokens.size() != static_cast<size_t>(hp.vocabulary)) {
    return Error{BANTER_ERROR_CORRUPT, "the model's vocabulary has " + std::to_string(vocabulary->tokens.size()) +
                                           " tokens and its token_embd.weight " + std::to_string(hp.vocabulary) +
                                           " rows; the file is damaged or badly converted"};
  }
  return text::Tokenizer::create(std::move(*vocabulary));
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const formats::Gguf& file, ops::Backend& backend, const LoadOptions& options,
                                           const LoadProgress& progress) {
  if (Result<void> ok = check(options); !ok) return ok.error();
  Result<Hyperparameters> hp = read_hyperparameters(file, options.context_length);
  if (!hp) return hp.error();
  std::unique_ptr<Model> model(new Model());  // the constructor is private
  Impl& impl = *model->impl_;
  impl.hp = std::move(*hp);
  impl.options = options;
  impl.backend = &backend;
  if (options.kv_type) {
    if (Result<void> ok = check_kv_type(impl.hp, backend, *options.kv_type); !ok) return ok.error();
  }
  Result<std::unique_ptr<text::Tokenizer>> tokenizer = load_tokenizer(file, impl.hp);
  if (!tokenizer) return tokenizer.error();
  impl.tokenizer = std::move(*tokenizer);
  if (const std::string* source = file.get_string("tokenizer.chat_template")) impl.chat_template = *source;
  const std::string* name = file.get_string("general.name");
  impl.display_name = name != nullptr && !name->empty() ? *name : impl.hp.architecture;

  const uint64_t buffers = decoder_buffer_bytes(impl.hp, options.max_rows, options.max_logit_rows);
  Result<DecoderWeights> weights = load_weights(file, impl.hp, backend, buffers, progress);
  if (!weights) return weights.error();
  impl.weights = std::move(*weights);
  Result<std::unique_ptr<Decoder>> decoder =
      Decoder::create(impl.hp, impl.weights, backend, model->kv_type(), options.max_rows, options.max_logit_rows);
  if (!decoder) return decoder.error();
  impl.decoder = std::move(*decoder);
  return model;
}

const Hyperparameters& Model::hyperparameters() const {
  return impl_->hp;
}
const text::Tokenizer& Model::tokenizer() const {
  return *impl_->tokenizer;
}
std::shared_ptr<const text::Tokenizer> Model::share_tokenizer() const {
  return impl_->tokenizer;
}
const std::string& Model::chat_template() const {
  return impl_->chat_template;
}
const std::string& Model::display_name() const {
  return impl_->display_name;
}
int32_t Model::context_length() const {
  return impl_->hp.context;
}
int32_t Model::max_rows() const {
  return impl_->options.max_rows;
}
int32_t Model::max_logit_rows() const {
  return impl_->options.max_logit_rows;
}
size_t Model::weight_bytes() const {
  return impl_->weights.bytes;
}
TokenWork Model::token_work() const {
  TokenWork work;
  for (const LayerWeights& layer : impl_->weights.layers)
    for (const auto* weight : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      work.layer_elements += static_cast<uint64_t>((*weight)->rows * (*weight)->cols);
      work.layer_bytes += (*weight)->bytes;
    }
  const ops::Weight& head = impl_->weights.output_head();
  work.head_elements = static_cast<uint64_t>(head.rows * head.cols);
  work.head_bytes = head.bytes;
  return work;
}
ops::Backend& Model::backend() const {
  return *impl_->backend;
}

ops::KvType Model::kv_type() const {
  if (impl_->options.kv_type) return *impl_->options.kv_type;
  const bool keeps_float32 = is_float32(impl_->weights) && impl_->backend->supports(ops::KvType::kF32);
  return keeps_float32 ? ops::KvType::kF32 : impl_->backend->default_kv_type();
}
std::vector<kv::GroupSpec> Model::kv_groups() const {
  return model::kv_groups(impl_->hp, kv_type());
}

Result<int32_t> Model::forward_best(const kv::PagePool& pool, const Batch& batch) {
  return impl_->decoder->forward_best(pool, batch);
}

sampling::LogitRow Model::logit_row(int32_t row) {
  return impl_->decoder->logit_row(row);
}

const Error* Model::logit_error() const {
  return impl_->decoder->logit_error();
}

Result<std::span<float>> Model::forward(const kv::PagePool& pool, const Batch& batch) {
  return impl_->decoder->forward(pool, batch);
}

}  // namespace banter::model
