#include "model/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/architectures/architecture.h"

namespace banter::model {

namespace {

// Several times what any published dense model has. Products of two of these fit into 64 bits with room to spare.
constexpr int32_t kMaxLayers = 1024, kMaxWidth = 1 << 18, kMaxHeads = 4096, kMaxHeadDim = 1024,
                  kMaxFeedForward = 1 << 20;
constexpr int32_t kMaxVocabulary = 1 << 23;
constexpr double kMaxRopeFactor = 65536.0;

RopeScaling scaling_of(MetadataReader& reader) {
  const std::string type = reader.optional_text("rope.scaling.type");
  if (type == "yarn") return RopeScaling::kYarn;
  // "longrope" stretches through per-pair factors and attn_factor alone. A missing type means linear with factor 1.
  if (type == "none" || type == "longrope") return RopeScaling::kNone;
  if (!type.empty() && type != "linear") {
    reader.fail(BANTER_ERROR_UNSUPPORTED, "the model asks for rope scaling of the unknown type '" + type.substr(0, 32) +
                                              "'; supported: none, linear, yarn, longrope");
  }
  return RopeScaling::kLinear;
}

RopeConfig read_rope(MetadataReader& reader, const Hyperparameters& hp) {
  RopeConfig rope;
  rope.rotary_dims = reader.optional_integer("rope.dimension_count", hp.head_dim, 2, hp.head_dim);
  if (rope.rotary_dims % 2 != 0) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's " + reader.architecture() + ".rope.dimension_count is odd (" +
                                          std::to_string(rope.rotary_dims) + "); pairs of dimensions turn together");
  }
  rope.base = reader.optional_number("rope.freq_base", 10000.0, 1.001, 1e12);
  rope.scaling = scaling_of(reader);
  // Some converters write 0 for "not scaled"; old ones use scale_linear.
  rope.factor = reader.optional_number("rope.scaling.factor", 0.0, 0.0, kMaxRopeFactor);
  if (rope.factor == 0.0) rope.factor = reader.optional_number("rope.scale_linear", 0.0, 0.0, kMaxRopeFactor);
  if (rope.factor == 0.0) rope.factor = 1.0;
  rope.original_context =
      reader.optional_integer("rope.scaling.original_context_length", hp.trained_context, 1, kMaxContext);
  rope.attention_factor = reader.optional_number("rope.scaling.attn_factor", 1.0, 1e-6, 1e6);
  rope.attention_factor *= reader.optional_number("rope.scaling.yarn_attn_factor", 1.0, 1e-6, 1e6);
  rope.extrapolation = reader.optional_number("rope.scaling.yarn_ext_factor", 1.0, -1.0, 1.0);
  if (rope.extrapolation < 0.0) rope.extrapolation = 1.0;  // −1 stands for "not set"
  rope.beta_fast = reader.optional_number("rope.scaling.yarn_beta_fast", 32.0, 1e-3, 1e6);
  rope.beta_slow = reader.optional_number("rope.scaling.yarn_beta_slow", 1.0, 1e-3, 1e6);
  rope.max_positions = hp.context;
  return rope;
}

void read_context(MetadataReader& reader, int32_t asked, Hyperparameters& hp) {
  hp.trained_context = reader.required_integer("context_length", 1, kMaxContext);
  hp.context = asked == 0 ? std::min(hp.trained_context, kDefaultContextLimit) : asked;
  if (asked < 0 || hp.context > hp.trained_context) {
    reader.fail(BANTER_ERROR_INVALID_ARGUMENT, "a context of " + std::to_string(asked) +
                                                   " tokens was asked of a model trained for 1 to " +
                                                   std::to_string(hp.trained_context) + "; ask for less");
  }
}

void read_heads(MetadataReader& reader, Hyperparameters& hp) {
  hp.heads = reader.required_integer("attention.head_count", 1, kMaxHeads);
  hp.kv_heads = reader.optional_integer("attention.head_count_kv", hp.heads, 1, kMaxHeads);
  if (hp.heads % hp.kv_heads != 0) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's " + std::to_string(hp.heads) + " attention heads cannot share " +
                                          std::to_string(hp.kv_heads) + " key and value heads evenly");
  }
  if (!reader.has("attention.key_length") && hp.embedding % hp.heads != 0) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's width of " + std::to_string(hp.embedding) +
                                          " does not divide into " + std::to_string(hp.heads) + " attention heads");
  }
  hp.head_dim = reader.optional_integer("attention.key_length", hp.embedding / hp.heads, 2, kMaxHeadDim);
  if (hp.head_dim < 2 || hp.head_dim > kMaxHeadDim) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's attention heads would have " + std::to_string(hp.head_dim) +
                                          " dimensions, outside 2 to " + std::to_string(kMaxHeadDim));
    hp.head_dim = 2;
  }
  const int32_t value_dim = reader.optional_integer("attention.value_length", hp.head_dim, 1, kMaxHeadDim);
  if (value_dim != hp.head_dim) {
    reader.fail(BANTER_ERROR_UNSUPPORTED, "the model's keys have " + std::to_string(hp.head_dim) +
                                              " dimensions and its values " + std::to_string(value_dim) +
                                              "; only equal ones are supported");
  }
  hp.attention_scale = static_cast<float>(
      reader.optional_number("attention.scale", 1.0 / std::sqrt(static_cast<double>(hp.head_dim)), 1e-9, 1e6));
}

void read_vocabulary(MetadataReader& reader, Hyperparameters& hp) {
  const formats::GgufTensor* embedding = reader.file().find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    reader.fail(BANTER_ERROR_MISSING_TENSOR, "the model lacks the tensor token_embd.weight; the file is incomplete");
    return;
  }
  if (embedding->dims[1] < 1 || embedding->dims[1] > kMaxVocabulary) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's token_embd.weight has " + std::to_string(embedding->dims[1]) +
                                          " rows, outside 1 to " + std::to_string(kMaxVocabulary));
    return;
  }
  hp.vocabulary = static_cast<int32_t>(embedding->dims[1]);
}

void read_common(MetadataReader& reader, int32_t context_length, ArchitectureDraft& draft) {
  Hyperparameters& hp = draft.hp;
  hp.architecture = reader.architecture();
  hp.layers = reader.required_integer("block_count", 1, kMaxLayers);
  hp.embedding = reader.required_integer("embedding_length", 2, kMaxWidth);
  hp.feed_forward = reader.required_integer("feed_forward_length", 1, kMaxFeedForward);
  read_context(reader, context_length, hp);
  read_heads(reader, hp);
  read_vocabulary(reader, hp);
  hp.norm_epsilon = static_cast<float>(reader.optional_number("attention.layer_norm_rms_epsilon", 1e-5, 1e-12, 1.0));
  if (reader.optional_integer("expert_count", 0, 0, 1 << 20) > 0) {
    reader.fail(BANTER_ERROR_UNSUPPORTED,
                "the model is a mixture of experts, which is not supported; use a dense model");
  }
  hp.layer_kinds.resize(static_cast<size_t>(hp.layers));
  draft.ropes.push_back(read_rope(reader, hp));
}

// Layers with equal windows share a KV group. A window that no context can outgrow is full attention.
void assign_kv_groups(MetadataReader& reader, Hyperparameters& hp) {
  std::vector<std::pair<int32_t, int32_t>> groups;  // window, layers so far
  for (LayerKind& layer : hp.layer_kinds) {
    if (layer.window >= hp.context) layer.window = 0;
    size_t g = 0;
    while (g < groups.size() && groups[g].first != layer.window) ++g;
    if (g == groups.size()) groups.push_back({layer.window, 0});
    layer.kv_group = static_cast<int32_t>(g);
    layer.kv_layer = groups[g].second++;
  }
  if (groups.size() > kMaxWindows) {
    reader.fail(BANTER_ERROR_UNSUPPORTED, "the model's layers have " + std::to_string(groups.size()) +
                                              " different attention windows; at most " + std::to_string(kMaxWindows) +
                                              " are supported");
  }
}

}  // namespace

std::vector<float> read_rope_divisors(MetadataReader& reader, std::string_view name, int32_t rotary_dims) {
  const formats::GgufTensor* tensor = reader.file().find_tensor(name);
  if (tensor == nullptr) return {};
  const size_t pairs = static_cast<size_t>(rotary_dims / 2);
  if (tensor->type != static_cast<uint32_t>(formats::TensorType::kF32) || tensor->elements() != pairs ||
      tensor->dims[0] != pairs) {
    reader.fail(BANTER_ERROR_CORRUPT, "the model's " + std::string(name) + " does not hold " + std::to_string(pairs) +
                                          " F32 numbers; the file is damaged or badly converted");
    return {};
  }
  std::vector<std::byte> scratch;
  const Result<std::span<const std::byte>> bytes = reader.file().read(*tensor, scratch);
  if (!bytes) {
    reader.fail(bytes.error().code, bytes.error().message);
    return {};
  }
  std::vector<float> divisors(pairs);
  formats::dequantize(formats::TensorType::kF32, bytes->data(), divisors.data(), pairs);
  for (const float divisor : divisors) {
    if (!(divisor >= 1e-6f && divisor <= 1e6f)) {
      reader.fail(BANTER_ERROR_CORRUPT,
                  "the model's " + std::string(name) + " holds a factor outside 0.000001 to 1000000");
      return {};
    }
  }
  return divisors;
}

Result<Hyperparameters> read_hyperparameters(const formats::Gguf& file, int32_t context_length) {
  const std::string* name = file.get_string("general.architecture");
  if (name == nullptr) {
    return Error{BANTER_ERROR_CORRUPT, "the file has no general.architecture, so it is not a language model"};
  }
  const Architecture* architecture = find_architecture(*name);
  if (architecture == nullptr) {
    return Error{BANTER_ERROR_UNSUPPORTED_ARCHITECTURE, "the model's architecture '" + name->substr(0, 64) +
                                                            "' is not supported; supported are " +
                                                            supported_architectures()};
  }
  MetadataReader reader(file, *name);
  ArchitectureDraft draft;
  read_common(reader, context_length, draft);
  if (reader.error()) return *reader.error();
  architecture->configure(reader, draft);
  assign_kv_groups(reader, draft.hp);
  if (reader.error()) return *reader.error();
  for (const RopeConfig& rope : draft.ropes) draft.hp.ropes.push_back(make_rope(rope));
  return std::move(draft.hp);
}

namespace {

// The companion keeps its window and what may be restored as F16, whatever the length; only a longer window gains.
bool gains_by_quantising(const kv::GroupSpec& group, ops::KvType type) {
  if (group.window == 0) return true;
  const size_t half = ops::kv_vector_bytes(ops::KvType::kF16, group.head_dim);
  const size_t held = static_cast<size_t>(group.window + group.restorable);
  const size_t recent = static_cast<size_t>(ops::kKvRecentWindow + group.restorable);
  return ops::kv_vector_bytes(type, group.head_dim) * held + half * recent < half * held;
}

}  // namespace

std::vector<kv::GroupSpec> kv_groups(const Hyperparameters& hp, ops::KvType type) {
  std::vector<kv::GroupSpec> groups;
  for (const LayerKind& layer : hp.layer_kinds) {
    if (static_cast<size_t>(layer.kv_group) == groups.size()) {
      groups.push_back(
          {.type = type, .layers = 0, .kv_heads = hp.kv_heads, .head_dim = hp.head_dim, .window = layer.window});
    }
    ++groups[static_cast<size_t>(layer.kv_group)].layers;
  }
  if (!ops::kv_is_quantised(type)) return groups;
  for (size_t g = 0, count = groups.size(); g < count; ++g) {
    kv::GroupSpec companion = groups[g];
    companion.type = ops::KvType::kF16;
    if (!gains_by_quantising(groups[g], type)) {
      groups[g] = companion;
      continue;
    }
    companion.window = ops::kKvRecentWindow;
    groups[g].companion = static_cast<int32_t>(groups.size());
    groups.push_back(companion);
  }
  return groups;
}

Result<void> check_kv_type(const Hyperparameters& hp, const ops::Backend& backend, ops::KvType type) {
  const std::string name = ops::kv_type_name(type);
  if (!backend.supports(type)) {
    return Error{BANTER_ERROR_UNSUPPORTED,
                 "the " + backend.name() + " backend cannot keep conversations as " + name + "; choose f16"};
  }
  if (!ops::kv_fits(type, hp.head_dim)) {
    return Error{BANTER_ERROR_UNSUPPORTED, "conversations kept as " + name +
                                               " need attention heads of a multiple of 16 dimensions, and this model's "
                                               "have " +
                                               std::to_string(hp.head_dim) + "; choose f16, bf16 or f32"};
  }
  if (!backend.supports_heads(type, hp.head_dim)) {
    return Error{BANTER_ERROR_UNSUPPORTED, "the " + backend.name() + " backend cannot compute attention heads of " +
                                               std::to_string(hp.head_dim) + " dimensions; use the CPU"};
  }
  return {};
}

}  // namespace banter::model
