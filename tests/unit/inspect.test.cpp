// `banter inspect`: what it counts, against numbers worked out by hand.
#include "inspect_report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"
#include "text_format.h"

namespace banter::tools {
namespace {

using formats::TensorType;
using test::GgufWriter;
using test::TempFolder;

constexpr uint64_t kPage = 16;
constexpr ops::KvType kF16 = ops::KvType::kF16, kInt8 = ops::KvType::kI8;

/** Gemma 3 in small: six layers, of which the last sees everything and the others 512 tokens; 1 KV head of 64. */
GgufWriter small_gemma3() {
  GgufWriter writer;
  writer.set_string("general.architecture", "gemma3").set_string("general.name", "tiny\x1b[2J");
  writer.set_u32("gemma3.block_count", 6).set_u32("gemma3.context_length", 4096);
  writer.set_u32("gemma3.embedding_length", 64).set_u32("gemma3.feed_forward_length", 128);
  writer.set_u32("gemma3.attention.head_count", 2).set_u32("gemma3.attention.head_count_kv", 1);
  writer.set_u32("gemma3.attention.key_length", 64).set_u32("gemma3.attention.value_length", 64);
  writer.set_u32("gemma3.attention.sliding_window", 512).set_f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  // A vocabulary of bytes, and the letter a.
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    tokens.push_back(text);
    types.push_back(6);
  }
  tokens.push_back("a");
  types.push_back(1);
  writer.set_string("tokenizer.ggml.model", "llama").set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types).set_bool("tokenizer.ggml.add_space_prefix", false);
  writer.set_f32s("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f));
  writer.add_random("token_embd.weight", {64, tokens.size()}, TensorType::kQ8_0, 1);
  writer.add_random("output_norm.weight", {64}, TensorType::kF32, 2);
  writer.add_random("blk.0.attn_q.weight", {64, 128}, TensorType::kQ4_0, 3);
  writer.add_random("blk.0.attn_q_norm.weight", {64}, TensorType::kF32, 4);
  writer.add_random("blk.0.ffn_up.weight", {64, 128}, TensorType::kF16, 5);
  return writer;
}

/** Runs the command; gives its exit code, and what it printed. */
struct Outcome {
  int code;
  std::string out, err;
};
Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = command_inspect(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  std::fflush(stderr);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Inspect, PartsFollowTensorNames) {
  EXPECT_EQ(part_of("token_embd.weight"), ModelPart::kEmbedding);
  EXPECT_EQ(part_of("output.weight"), ModelPart::kOutput);
  EXPECT_EQ(part_of("output_norm.weight"), ModelPart::kNorms);
  EXPECT_EQ(part_of("blk.12.attn_q_norm.weight"), ModelPart::kNorms);
  EXPECT_EQ(part_of("blk.12.post_attention_norm.weight"), ModelPart::kNorms);
  EXPECT_EQ(part_of("blk.12.attn_output.weight"), ModelPart::kAttention);
  EXPECT_EQ(part_of("blk.0.attn_k.bias"), ModelPart::kAttention);
  EXPECT_EQ(part_of("blk.3.ffn_gate_exps.weight"), ModelPart::kFeedForward);
  EXPECT_EQ(part_of("rope_freqs.weight"), ModelPart::kOther);
  EXPECT_EQ(part_of("blk."), ModelPart::kOther);
  EXPECT_EQ(part_of(""), ModelPart::kOther);
}

TEST(Inspect, KvBytesFollowWindowsAndFormats) {
  KvReport kv;
  kv.groups[static_cast<size_t>(kF16)] = {{5, 512, 576, 5 * 2 * 64 * 2}, {1, 0, 0, 1 * 2 * 64 * 2}};
  EXPECT_EQ(kv.bytes_per_token(kF16), 6u * 2 * 64 * 2);
  EXPECT_EQ(kv.bytes_per_token(kF16, true), 2u * 64 * 2);
  EXPECT_EQ(kv.sequence_bytes(kF16, 0), 0u);
  EXPECT_EQ(kv.sequence_bytes(kF16, 1), kPage * kv.bytes_per_token(kF16));
  EXPECT_EQ(kv.sequence_bytes(kF16, 256), 256 * kv.bytes_per_token(kF16));
  EXPECT_EQ(kv.sequence_bytes(kF16, 4096), 4096 * 2 * 64 * 2 + (576 + kPage) * 5 * 2 * 64 * 2);
  // Shared tokens cost a character nothing, but its windows are its own once it has moved on.
  EXPECT_EQ(kv.own_bytes(kF16, 4096, 1024), 3072 * 2 * 64 * 2 + (576 + kPage) * 5 * 2 * 64 * 2);
  EXPECT_EQ(kv.own_bytes(kF16, 1024, 1024), 0u);
  EXPECT_EQ(kv.own_bytes(kF16, 1024, 1000), 32 * kv.bytes_per_token(kF16));  // only whole pages are shared
  EXPECT_EQ(kv.own_bytes(kF16, 16, 4096), 0u);
}

TEST(Inspect, QuantisedFormatsKeepTheNewestTokensTwice) {
  const GgufWriter writer = small_gemma3();
  const std::vector<std::byte> bytes = writer.bytes();
  const Result<formats::Gguf> file = formats::Gguf::open(borrow_memory(bytes, "small"), {});
  ASSERT_TRUE(file) << file.error().message;
  const ModelReport report = analyse(*file);
  ASSERT_TRUE(report.kv) << report.kv_missing;
  const KvReport& kv = *report.kv;
  const uint64_t values = 6 * 2 * 64;
  EXPECT_EQ(kv.bytes_per_token(kF16), values * 2);
  EXPECT_EQ(kv.bytes_per_token(ops::KvType::kBF16), values * 2);
  EXPECT_EQ(kv.bytes_per_token(ops::KvType::kF32), values * 4);
  EXPECT_EQ(kv.bytes_per_token(kInt8), values * 34 / 32);             // a half-float scale for 32 values
  EXPECT_EQ(kv.bytes_per_token(ops::KvType::kI4), values * 10 / 16);  // and for 16
  EXPECT_EQ(kv.bytes_per_token(kInt8, true), values * 34 / 32 / 6);
  // Full attention 4096 tokens, windows 512 + 64 and a page; as F16 the newest 128 + 64 tokens and a page of all.
  EXPECT_EQ(kv.sequence_bytes(kInt8, 4096), 2 * 64 * 34 / 32 * (4096 + 5 * (576 + kPage)) + values * 2 * (192 + kPage));
}

TEST(Inspect, CharactersFitWhatIsLeftBesideWeightsAndPrefix) {
  KvReport kv;
  kv.groups[static_cast<size_t>(kF16)] = {{1, 0, 0, 1024}};
  kv.step_buffer_bytes = 1000;
  const uint64_t fixed = 5000 + 1000 + 512 * 1024;
  EXPECT_EQ(characters_that_fit(kv, kF16, fixed + 3 * 512 * 1024, 5000, 1024, 512), 3u);
  EXPECT_EQ(characters_that_fit(kv, kF16, fixed + 3 * 512 * 1024 - 1, 5000, 1024, 512), 2u);
  EXPECT_EQ(characters_that_fit(kv, kF16, fixed - 1, 5000, 1024, 512), 0u);
  EXPECT_EQ(characters_that_fit(kv, kF16, 0, ~0ull >> 1, 1024, 512), 0u);
}

TEST(Inspect, SizesAreReadAndWritten) {
  EXPECT_EQ(parse_bytes("4G"), 4ull << 30);
  EXPECT_EQ(parse_bytes("1.5 GiB"), 3ull << 29);
  EXPECT_EQ(parse_bytes("512m"), 512ull << 20);
  EXPECT_EQ(parse_bytes("100"), 100u);
  EXPECT_EQ(parse_bytes("7kB"), 7u * 1024);
  EXPECT_EQ(parse_bytes("2T"), 2ull << 40);
  for (const char* bad : {"", "G", "-1G", "4X", "4GG", "1e9", "nan", "inf", "9999999999T", "4G 4"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(count_text(999'999), "999999");
  EXPECT_EQ(count_text(1'540'000'000), "1.54 G");
  EXPECT_EQ(context_steps(4000), (std::vector<uint64_t>{1024, 2048, 4000}));
  EXPECT_EQ(context_steps(512), (std::vector<uint64_t>{512}));
  EXPECT_TRUE(context_steps(0).empty());
}

TEST(Inspect, OutsideTextCannotSteerATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a\\x1b[31m\\nb");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // the one-byte form of ESC [, as UTF-8
  EXPECT_EQ(printable("\xff\xe4\xbd"), "\\xff\\xe4\\xbd");
  EXPECT_EQ(printable("你好 é"), "你好 é");
  EXPECT_EQ(printable("你好吗", 2), "你好…");
}

TEST(Inspect, JsonHasEveryPart) {
  const TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  ASSERT_TRUE(small_gemma3().write(path));
  const Outcome result = run({path, "--json", "--text", "aé", "--vram", "1G", "--prefix", "512"});
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(result.out.back(), '\n');
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  EXPECT_EQ(json["gguf_version"], 3);
  EXPECT_EQ(json["parameters"], 64 * 260 + 64 + 64 * 128 + 64 + 64 * 128);
  EXPECT_EQ(json["parts"]["embedding"]["bytes"], 260 * 2 * 34);
  EXPECT_EQ(json["parts"]["attention"]["bytes"], 128 * 2 * 18);
  EXPECT_EQ(json["parts"]["feed_forward"]["bytes"], 64 * 128 * 2);
  EXPECT_EQ(json["parts"]["norms"]["bytes"], 2 * 64 * 4);
  EXPECT_EQ(json["types"]["Q4_0"]["bits_per_weight"], 4.5);
  EXPECT_EQ(json["tied_output"], true);
  EXPECT_EQ(json["metadata"]["gemma3.block_count"], 6);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"]["count"], 260);
  EXPECT_EQ(json["tensors"][0]["shape"], (std::vector<int>{64, 260}));
  EXPECT_EQ(json["kv"]["trained_context"], 4096);
  EXPECT_EQ(json["kv"]["bytes_per_token"]["f16"], 6 * 2 * 64 * 2);
  EXPECT_EQ(json["kv"]["bytes_per_token_beyond_windows"]["f16"], 2 * 64 * 2);
  EXPECT_EQ(json["kv"]["contexts"].size(), 3u);
  EXPECT_EQ(json["text"]["characters"], 2);
  EXPECT_EQ(json["text"]["tokens"], 3);  // the letter, and two bytes
  EXPECT_EQ(json["text"]["tokens_per_character"], 1.5);
  EXPECT_GT(json["vram"]["contexts"][0]["characters"]["f16"], 1000);
}

TEST(Inspect, HumanOutputNamesEverySectionAndEscapesNames) {
  const TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  ASSERT_TRUE(small_gemma3().write(path));
  const Outcome result = run({path, "--text", "aaa", "--vram", "1G"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* part : {"Metadata", "Tensors (5)", "64 x 260", "Weights by part", "Weights by type", "KV cache",
                           "5 layers see 512 tokens", "1 layers see everything", "Text: 3 characters", "Characters"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(Inspect, UnknownArchitecturesStillShowTheirFile) {
  const TempFolder folder;
  const std::string path = folder.file("odd.gguf");
  ASSERT_TRUE(GgufWriter().set_string("general.architecture", "nemesis").write(path));
  const Outcome result = run({path, "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("kv_missing"), std::string::npos);
  EXPECT_NE(result.out.find("nemesis"), std::string::npos);
  EXPECT_EQ(run({path}).code, 0);
  const Outcome vram = run({path, "--vram", "1G"});
  EXPECT_EQ(vram.code, 1);
  EXPECT_NE(vram.err.find("nemesis"), std::string::npos) << vram.err;
}

TEST(Inspect, FaultsEndWithASentenceAndACode) {
  const TempFolder folder;
  Outcome result = run({folder.file("no.gguf")});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("No file at"), std::string::npos) << result.err;
  const std::string path = folder.file("tiny.gguf");
  ASSERT_TRUE(small_gemma3().write(path));
  result = run({path, "--vram", "lots"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("lots"), std::string::npos) << result.err;
  result = run({path, "--text-file", folder.file("no.txt")});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("no.txt"), std::string::npos) << result.err;
  EXPECT_NE(run({}).code, 0);
}

}  // namespace
}  // namespace banter::tools
