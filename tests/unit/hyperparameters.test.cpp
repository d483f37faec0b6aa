// Metadata of every architecture, and of files that mean harm.
#include "model/hyperparameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/gguf_writer.h"

namespace banter::model {
namespace {

using test::GgufWriter;

/** What a well-formed small file says; the tests change one thing at a time by writing it before. */
GgufWriter& common(GgufWriter& writer, const std::string& arch, int32_t layers = 4) {
  return writer.set_string("general.architecture", arch)
      .set_u32(arch + ".context_length", 1024)
      .set_u32(arch + ".block_count", static_cast<uint32_t>(layers))
      .set_u32(arch + ".embedding_length", 64)
      .set_u32(arch + ".feed_forward_length", 96)
      .set_u32(arch + ".attention.head_count", 4)
      .set_u32(arch + ".attention.head_count_kv", 2)
      .set_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f)
      .add_random("token_embd.weight", {64, 32}, formats::TensorType::kF32, 1);
}

Result<Hyperparameters> read(const GgufWriter& writer, int32_t context = 0) {
  const std::vector<std::byte> bytes = writer.bytes();
  const Result<formats::Gguf> file = formats::Gguf::open(borrow_memory(bytes, "test"), {});
  if (!file) return file.error();
  return read_hyperparameters(*file, context);
}

Hyperparameters must_read(const GgufWriter& writer, int32_t context = 0) {
  Result<Hyperparameters> hp = read(writer, context);
  EXPECT_TRUE(hp) << hp.error().message;
  return hp ? *hp : Hyperparameters{};
}

TEST(Hyperparameters, LlamaDefaults) {
  GgufWriter writer;
  const Hyperparameters hp = must_read(common(writer, "llama"));
  EXPECT_EQ(hp.vocabulary, 32);
  EXPECT_EQ(hp.head_dim, 16);
  EXPECT_EQ(hp.heads, 4);
  EXPECT_EQ(hp.kv_heads, 2);
  EXPECT_EQ(hp.context, 1024);
  EXPECT_FLOAT_EQ(hp.norm_epsilon, 1e-6f);
  EXPECT_FLOAT_EQ(hp.attention_scale, 0.25f);
  EXPECT_FLOAT_EQ(hp.embedding_scale, 1.0f);
  ASSERT_EQ(hp.ropes.size(), 1u);
  EXPECT_TRUE(hp.ropes[0].adjacent_pairs);
  EXPECT_EQ(hp.ropes[0].inverse_frequency.size(), 8u);
  EXPECT_NEAR(hp.ropes[0].inverse_frequency[1], std::pow(10000.0, -1.0 / 8), 1e-15);
  EXPECT_EQ(kv_groups(hp, ops::KvType::kF16).size(), 1u);
}

TEST(Hyperparameters, KvHeadsDefaultToHeads) {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama")
      .set_u32("llama.context_length", 1024)
      .set_u32("llama.block_count", 1)
      .set_u32("llama.embedding_length", 64)
      .set_u32("llama.feed_forward_length", 96)
      .set_u32("llama.attention.head_count", 4)
      .add_random("token_embd.weight", {64, 32}, formats::TensorType::kF32, 1);
  EXPECT_EQ(must_read(writer).kv_heads, 4);
}

TEST(Hyperparameters, ArchitecturesDifferWhereTheyShould) {
  GgufWriter qwen2, qwen3, phi3;
  const Hyperparameters a = must_read(common(qwen2, "qwen2"));
  EXPECT_TRUE(a.qkv_bias);
  EXPECT_FALSE(a.ropes[0].adjacent_pairs);
  const Hyperparameters b = must_read(common(qwen3.set_u32("qwen3.attention.key_length", 32), "qwen3"));
  EXPECT_TRUE(b.qk_norm);
  EXPECT_EQ(b.head_dim, 32);
  EXPECT_EQ(b.q_dim(), 128);
  const Hyperparameters c = must_read(common(phi3.set_u32("phi3.rope.dimension_count", 12), "phi3"));
  EXPECT_TRUE(c.fused_qkv);
  EXPECT_TRUE(c.fused_gate_up);
  EXPECT_EQ(c.ropes[0].inverse_frequency.size(), 6u);
}

TEST(Hyperparameters, Gemma2AlternatesWindows) {
  GgufWriter writer;
  const Hyperparameters hp = must_read(common(writer.set_u32("gemma2.attention.sliding_window", 128), "gemma2"));
  EXPECT_FLOAT_EQ(hp.embedding_scale, 8.0f);
  EXPECT_FLOAT_EQ(hp.attention_softcap, 50.0f);
  EXPECT_FLOAT_EQ(hp.logit_softcap, 30.0f);
  EXPECT_TRUE(hp.post_norms);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(hp.layer_kinds[i].window, i % 2 == 0 ? 128 : 0);
  const std::vector<kv::GroupSpec> groups = kv_groups(hp, ops::KvType::kF32);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].layers, 2);
  EXPECT_EQ(groups[0].window, 128);
  EXPECT_EQ(groups[1].window, 0);
  EXPECT_EQ(groups[0].type, ops::KvType::kF32);
  EXPECT_EQ(hp.layer_kinds[3].kv_layer, 1);
}

TEST(Hyperparameters, TheLargestGemmasScaleByWidthPerHead) {
  GgufWriter gemma2, gemma3, explicit_scale;
  EXPECT_FLOAT_EQ(must_read(common(gemma2.set_u32("gemma2.attention.key_length", 32), "gemma2", 46)).attention_scale,
                  1.0f / std::sqrt(64.0f / 4.0f));
  gemma3.set_u32("gemma3.attention.key_length", 32).set_u32("gemma3.attention.sliding_window", 128);
  EXPECT_FLOAT_EQ(must_read(common(gemma3, "gemma3", 62)).attention_scale, 1.0f / std::sqrt(64.0f / 4.0f));
  explicit_scale.set_f32("gemma2.attention.scale", 0.0625f);
  EXPECT_FLOAT_EQ(must_read(common(explicit_scale, "gemma2", 46)).attention_scale, 0.0625f);
}

TEST(Hyperparameters, Gemma3HasTwoRopes) {
  GgufWriter writer;
  writer.set_u32("gemma3.attention.sliding_window", 128)
      .set_f32("gemma3.rope.freq_base", 1e6f)
      .set_string("gemma3.rope.scaling.type", "linear")
      .set_f32("gemma3.rope.scaling.factor", 8.0f);
  const Hyperparameters hp = must_read(common(writer, "gemma3", 13));
  ASSERT_EQ(hp.ropes.size(), 2u);
  EXPECT_NEAR(hp.ropes[0].inverse_frequency[0], 1.0 / 8, 1e-15);
  EXPECT_NEAR(hp.ropes[0].inverse_frequency[1], std::pow(1e6, -1.0 / 8) / 8, 1e-9);
  EXPECT_NEAR(hp.ropes[1].inverse_frequency[0], 1.0, 1e-15);
  EXPECT_NEAR(hp.ropes[1].inverse_frequency[1], std::pow(1e4, -1.0 / 8), 1e-15);
  EXPECT_FLOAT_EQ(hp.attention_softcap, 0.0f);
  EXPECT_FLOAT_EQ(hp.logit_softcap, 0.0f);
  for (size_t i = 0; i < 13; ++i) {
    const bool is_global = i == 5 || i == 11;
    EXPECT_EQ(hp.layer_kinds[i].window, is_global ? 0 : 128) << i;
    EXPECT_EQ(hp.layer_kinds[i].rope, is_global ? 0 : 1) << i;
  }
  const std::vector<kv::GroupSpec> groups = kv_groups(hp, ops::KvType::kF16);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].layers, 11);
  EXPECT_EQ(groups[1].layers, 2);
}

TEST(Hyperparameters, APatternInTheFileWins) {
  GgufWriter period, flags, wrong;
  common(period.set_u32("gemma3.attention.sliding_window", 128).set_u32("gemma3.attention.sliding_window_pattern", 2),
         "gemma3");
  const Hyperparameters by_period = must_read(period);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(by_period.layer_kinds[i].window, i % 2 == 0 ? 128 : 0);
  const uint8_t is_local[] = {0, 1, 1, 0};
  common(flags.set_u32("gemma3.attention.sliding_window", 128)
             .set_bools("gemma3.attention.sliding_window_pattern", is_local),
         "gemma3");
  const Hyperparameters by_flags = must_read(flags);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(by_flags.layer_kinds[i].window, is_local[i] ? 128 : 0);
  const uint8_t too_few[] = {0, 1};
  common(wrong.set_u32("gemma3.attention.sliding_window", 128)
             .set_bools("gemma3.attention.sliding_window_pattern", too_few),
         "gemma3");
  EXPECT_EQ(read(wrong).error().code, BANTER_ERROR_CORRUPT);
}

TEST(Hyperparameters, AWindowNoContextOutgrowsIsFullAttention) {
  GgufWriter writer;
  common(writer.set_u32("gemma2.attention.sliding_window", 512), "gemma2");
  EXPECT_EQ(kv_groups(must_read(writer, 513), ops::KvType::kF16).size(), 2u);
  const Hyperparameters hp = must_read(writer, 512);
  EXPECT_EQ(kv_groups(hp, ops::KvType::kF16).size(), 1u);
  EXPECT_EQ(hp.layer_kinds[0].window, 0);
}

TEST(Hyperparameters, QuantisedGroupsHaveCompanionsWhereThatSavesMemory) {
  GgufWriter writer, wide, longer;
  const std::vector<kv::GroupSpec> short_window =
      kv_groups(must_read(common(writer.set_u32("gemma2.attention.sliding_window", 128), "gemma2")), ops::KvType::kI8);
  ASSERT_EQ(short_window.size(), 3u);
  EXPECT_EQ(short_window[0].type, ops::KvType::kF16);  // 128 tokens: the companion alone would hold as many
  EXPECT_EQ(short_window[0].companion, -1);
  EXPECT_EQ(short_window[1].type, ops::KvType::kI8);
  EXPECT_EQ(short_window[1].companion, 2);
  EXPECT_EQ(short_window[2].type, ops::KvType::kF16);
  EXPECT_EQ(short_window[2].window, ops::kKvRecentWindow);
  EXPECT_EQ(short_window[2].layers, short_window[1].layers);
  const std::vector<kv::GroupSpec> long_window =
      kv_groups(must_read(common(longer.set_u32("gemma2.attention.sliding_window", 512), "gemma2")), ops::KvType::kI4);
  ASSERT_EQ(long_window.size(), 4u);
  EXPECT_EQ(long_window[0].companion, 2);
  EXPECT_EQ(long_window[1].companion, 3);
  EXPECT_EQ(long_window[0].window, 512);
  for (const ops::KvType type : {ops::KvType::kF16, ops::KvType::kBF16, ops::KvType::kF32}) {
    for (const kv::GroupSpec& group : kv_groups(must_read(writer), type)) {
      EXPECT_EQ(group.type, type);
      EXPECT_EQ(group.companion, -1);
    }
  }
}

TEST(Hyperparameters, PhiChoosesItsFactorsByContext) {
  const std::vector<float> short_factors(8, 2.0f), long_factors(8, 4.0f);
  GgufWriter writer;
  writer.set_u32("phi3.rope.scaling.original_context_length", 256)
      .set_f32("phi3.rope.scaling.attn_factor", 1.19f)
      .add_tensor("rope_factors_short.weight", {8}, formats::TensorType::kF32, short_factors)
      .add_tensor("rope_factors_long.weight", {8}, formats::TensorType::kF32, long_factors);
  common(writer, "phi3");
  EXPECT_NEAR(must_read(writer, 256).ropes[0].inverse_frequency[0], 0.5, 1e-15);
  EXPECT_NEAR(must_read(writer, 257).ropes[0].inverse_frequency[0], 0.25, 1e-15);
  EXPECT_NEAR(must_read(writer, 257).ropes[0].magnitude, 1.19, 1e-6);
}

TEST(Hyperparameters, LlamaReadsItsDivisors) {
  std::vector<float> divisors(8, 1.0f);
  divisors[7] = 8.0f;
  GgufWriter writer;
  writer.add_tensor("rope_freqs.weight", {8}, formats::TensorType::kF32, divisors);
  const Hyperparameters hp = must_read(common(writer, "llama"));
  EXPECT_NEAR(hp.ropes[0].inverse_frequency[0], 1.0, 1e-15);
  EXPECT_NEAR(hp.ropes[0].inverse_frequency[7], std::pow(10000.0, -14.0 / 16) / 8, 1e-15);
}

TEST(Hyperparameters, ContextIsTheModelsOwnWithinLimits) {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama")
      .set_u32("llama.context_length", 131072)
      .set_u32("llama.block_count", 1)
      .set_u32("llama.embedding_length", 64)
      .set_u32("llama.feed_forward_length", 96)
      .set_u32("llama.attention.head_count", 4)
      .add_random("token_embd.weight", {64, 32}, formats::TensorType::kF32, 1);
  EXPECT_EQ(must_read(writer).context, kDefaultContextLimit);
  EXPECT_EQ(must_read(writer, 131072).context, 131072);
  EXPECT_EQ(must_read(writer, 7).ropes[0].max_positions, 7);
  EXPECT_EQ(read(writer, 131073).error().code, BANTER_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(read(writer, -1).error().code, BANTER_ERROR_INVALID_ARGUMENT);
}

TEST(Hyperparameters, PerLayerArraysPassWhereAllAreEqual) {
  GgufWriter equal, unequal, empty;
  const uint32_t same[] = {96, 96, 96, 96}, different[] = {96, 96, 128, 96};
  const auto build = [](GgufWriter& writer, std::span<const uint32_t> lengths) -> GgufWriter& {
    return writer.set_string("general.architecture", "llama")
        .set_u32("llama.context_length", 1024)
        .set_u32("llama.block_count", 4)
        .set_u32("llama.embedding_length", 64)
        .set_u32s("llama.feed_forward_length", lengths)
        .set_u32("llama.attention.head_count", 4)
        .add_random("token_embd.weight", {64, 32}, formats::TensorType::kF32, 1);
  };
  EXPECT_EQ(must_read(build(equal, same)).feed_forward, 96);
  const Result<Hyperparameters> bad = read(build(unequal, different));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, BANTER_ERROR_UNSUPPORTED);
  EXPECT_NE(bad.error().message.find("llama.feed_forward_length"), std::string::npos);
  EXPECT_EQ(read(build(empty, {})).error().code, BANTER_ERROR_CORRUPT);
}

TEST(Hyperparameters, UnknownArchitecturesAreNamedWithTheKnownOnes) {
  GgufWriter writer, none;
  const Result<Hyperparameters> hp = read(common(writer, "mamba"));
  ASSERT_FALSE(hp);
  EXPECT_EQ(hp.error().code, BANTER_ERROR_UNSUPPORTED_ARCHITECTURE);
  for (const char* name : {"mamba", "gemma2", "gemma3", "llama", "phi3", "qwen2", "qwen3"}) {
    EXPECT_NE(hp.error().message.find(name), std::string::npos) << name;
  }
  none.set_u32("llama.block_count", 1);
  EXPECT_EQ(read(none).error().code, BANTER_ERROR_CORRUPT);
}

/** One hostile key in front of an otherwise good file (the good value of the same key is left out). */
struct Hostile {
  const char* name;
  void (*change)(GgufWriter& writer);
  const char* replaces;  // key left out of the good file
  banter_result code;
};

void good_without(GgufWriter& writer, std::string_view left_out) {
  const auto u32 = [&](const char* key, uint32_t value) {
    if (left_out != key) writer.set_u32(key, value);
  };
  writer.set_string("general.architecture", "llama");
  u32("llama.context_length", 1024);
  u32("llama.block_count", 4);
  u32("llama.embedding_length", 64);
  u32("llama.feed_forward_length", 96);
  u32("llama.attention.head_count", 4);
  u32("llama.attention.head_count_kv", 2);
  if (left_out != "token_embd.weight") writer.add_random("token_embd.weight", {64, 32}, formats::TensorType::kF32, 1);
}

class HostileMetadata : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileMetadata, IsRefusedWithASentence) {
  GgufWriter writer;
  GetParam().change(writer);
  good_without(writer, GetParam().replaces);
  const Result<Hyperparameters> hp = read(writer);
  ASSERT_FALSE(hp);
  EXPECT_EQ(hp.error().code, GetParam().code) << hp.error().message;
  EXPECT_GT(hp.error().message.size(), 20u);
}

constexpr banter_result kCorrupt = BANTER_ERROR_CORRUPT;
INSTANTIATE_TEST_SUITE_P(
    All, HostileMetadata,
    ::testing::Values(
        Hostile{"NoLayers", [](GgufWriter& w) { w.set_u32("llama.block_count", 0); }, "llama.block_count", kCorrupt},
        Hostile{"HugeLayers", [](GgufWriter& w) { w.set_u32("llama.block_count", 4000000000u); }, "llama.block_count",
                kCorrupt},
        Hostile{"HugerLayers", [](GgufWriter& w) { w.set_u64("llama.block_count", ~uint64_t{0}); }, "llama.block_count",
                kCorrupt},
        Hostile{"NegativeLayers", [](GgufWriter& w) { w.set_i32("llama.block_count", -4); }, "llama.block_count",
                kCorrupt},
        Hostile{"MissingLayers", [](GgufWriter&) {}, "llama.block_count", kCorrupt},
        Hostile{"TextLayers", [](GgufWriter& w) { w.set_string("llama.block_count", "4"); }, "llama.block_count",
                kCorrupt},
        Hostile{"FractionalLayers", [](GgufWriter& w) { w.set_f32("llama.block_count", 3.5f); }, "llama.block_count",
                kCorrupt},
        Hostile{"NoHeads", [](GgufWriter& w) { w.set_u32("llama.attention.head_count", 0); },
                "llama.attention.head_count", kCorrupt},
        Hostile{"NoKvHeads", [](GgufWriter& w) { w.set_u32("llama.attention.head_count_kv", 0); },
                "llama.attention.head_count_kv", kCorrupt},
        Hostile{"UnevenHeads", [](GgufWriter& w) { w.set_u32("llama.attention.head_count_kv", 3); },
                "llama.attention.head_count_kv", kCorrupt},
        Hostile{"MoreKvHeads", [](GgufWriter& w) { w.set_u32("llama.attention.head_count_kv", 8); },
                "llama.attention.head_count_kv", kCorrupt},
        Hostile{"IndivisibleWidth", [](GgufWriter& w) { w.set_u32("llama.embedding_length", 66); },
                "llama.embedding_length", kCorrupt},
        Hostile{"HugeWidth", [](GgufWriter& w) { w.set_u32("llama.embedding_length", 1u << 31); },
                "llama.embedding_length", kCorrupt},
        Hostile{"WideHeads", [](GgufWriter& w) { w.set_u32("llama.embedding_length", 8192); }, "llama.embedding_length",
                kCorrupt},
        Hostile{"NoContext", [](GgufWriter& w) { w.set_u32("llama.context_length", 0); }, "llama.context_length",
                kCorrupt},
        Hostile{"HugeFeedForward", [](GgufWriter& w) { w.set_u64("llama.feed_forward_length", uint64_t{1} << 40); },
                "llama.feed_forward_length", kCorrupt},
        Hostile{"OddRope", [](GgufWriter& w) { w.set_u32("llama.rope.dimension_count", 7); }, "", kCorrupt},
        Hostile{"NoRope", [](GgufWriter& w) { w.set_u32("llama.rope.dimension_count", 0); }, "", kCorrupt},
        Hostile{"WideRope", [](GgufWriter& w) { w.set_u32("llama.rope.dimension_count", 18); }, "", kCorrupt},
        Hostile{"ZeroBase", [](GgufWriter& w) { w.set_f32("llama.rope.freq_base", 0.0f); }, "", kCorrupt},
        Hostile{"NanBase", [](GgufWriter& w) { w.set_f32("llama.rope.freq_base", std::nanf("")); }, "", kCorrupt},
        Hostile{"InfiniteFactor", [](GgufWriter& w) { w.set_f32("llama.rope.scaling.factor", INFINITY); }, "", kCorrupt},
        Hostile{"NegativeEpsilon", [](GgufWriter& w) { w.set_f32("llama.attention.layer_norm_rms_epsilon", -1.0f); }, "",
                kCorrupt},
        Hostile{"UnknownScaling", [](GgufWriter& w) { w.set_string("llama.rope.scaling.type", "dynamic"); }, "",
                BANTER_ERROR_UNSUPPORTED},
        Hostile{"NumericScaling", [](GgufWriter& w) { w.set_u32("llama.rope.scaling.type", 1); }, "", kCorrupt},
        Hostile{"OtherValueLength", [](GgufWriter& w) { w.set_u32("llama.attention.value_length", 8); }, "",
                BANTER_ERROR_UNSUPPORTED},
        Hostile{"Experts", [](GgufWriter& w) { w.set_u32("llama.expert_count", 8); }, "", BANTER_ERROR_UNSUPPORTED},
        Hostile{"NoEmbedding", [](GgufWriter&) {}, "token_embd.weight", BANTER_ERROR_MISSING_TENSOR},
        Hostile{"ShortDivisors",
                [](GgufWriter& w) {
                  w.add_random("rope_freqs.weight", {7}, formats::TensorType::kF32, 1);
                },
                "", kCorrupt},
        Hostile{"NegativeDivisors",
                [](GgufWriter& w) {
                  w.add_tensor("rope_freqs.weight", {8}, formats::TensorType::kF32, std::vector<float>(8, -1.0f));
                },
                "", kCorrupt},
        Hostile{"ZeroDivisors",
                [](GgufWriter& w) {
                  w.add_tensor("rope_freqs.weight", {8}, formats::TensorType::kF32, std::vector<float>(8, 0.0f));
                },
                "", kCorrupt},
        Hostile{"HalfDivisors",
                [](GgufWriter& w) {
                  w.add_tensor("rope_freqs.weight", {8}, formats::TensorType::kF16, std::vector<float>(8, 1.0f));
                },
                "", kCorrupt}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace banter::model
