// banter inspect: what a model file holds and needs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "commands.h"
#include "formats/gguf.h"
#include "formats/tensor_type.h"
#include "formats/vocabulary.h"
#include "inspect_report.h"
#include "text/tokenizer.h"
#include "text_format.h"

namespace {

using namespace banter::tools;
using banter::Error;
using banter::Result;
using banter::formats::Gguf;
namespace ops = banter::ops;
using banter::formats::GgufArray;
using banter::formats::GgufTensor;
using banter::formats::GgufValue;
using Json = nlohmann::ordered_json;

constexpr size_t kShownElements = 8;  // of a long array

struct Options {
  std::string model, text, text_file, vram;
  uint64_t prefix = 512;
  bool json = false, no_tensors = false;
};

/** How a text divides into tokens. */
struct TextReport {
  uint64_t characters = 0, bytes = 0, tokens = 0;
  double tokens_per_character() const {
    return characters == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(characters);
  }
};

double bits_per_weight(const Tally& tally) {
  return tally.parameters == 0 ? 0.0 : 8.0 * static_cast<double>(tally.bytes) / static_cast<double>(tally.parameters);
}

// Metadata.

Json element_json(const std::string& value) {
  return value;
}
Json element_json(bool value) {
  return value;
}
template <class Number>
Json element_json(Number value) {
  return value;
}

Json value_json(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using Value = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<Value, GgufArray>) {
          return std::visit(
              [](const auto& elements) -> Json {
                Json list = Json::array();
                const size_t shown = elements.size() <= 2 * kShownElements ? elements.size() : kShownElements;
                for (size_t i = 0; i < shown; ++i) list.push_back(element_json(elements[i]));
                if (shown == elements.size()) return list;
                return {{"count", elements.size()}, {"first", list}};
              },
              v);
        } else {
          return v;
        }
      },
      value);
}

std::string element_text(const std::string& value) {
  return "\"" + printable(value, 24) + "\"";
}
std::string element_text(bool value) {
  return value ? "true" : "false";
}
std::string element_text(uint64_t value) {
  return std::to_string(value);
}
std::string element_text(int64_t value) {
  return std::to_string(value);
}
std::string element_text(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::string value_text(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "\"" + printable(*text) + "\"";
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return std::visit(
        [](const auto& elements) {
          std::string out = "[" + std::to_string(elements.size()) + "]";
          for (size_t i = 0; i < elements.size() && i < kShownElements; ++i) out += " " + element_text(elements[i]);
          return elements.size() > kShownElements ? out + " …" : out;
        },
        *array);
  }
  if (const auto* number = std::get_if<uint64_t>(&value)) return element_text(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return element_text(*number);
  if (const auto* number = std::get_if<double>(&value)) return element_text(*number);
  return element_text(std::get<bool>(value));
}

std::string shape_text(const GgufTensor& tensor) {
  std::string out;
  for (uint32_t i = 0; i < tensor.n_dims; ++i) out += (i == 0 ? "" : " x ") + std::to_string(tensor.dims[i]);
  return out.empty() ? "1" : out;
}

// Text.

Result<TextReport> measure_text(const Gguf& file, const std::string& text) {
  auto vocabulary = banter::formats::vocabulary_from_gguf(file);
  if (!vocabulary) return vocabulary.error();
  auto tokenizer = banter::text::Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer) return tokenizer.error();
  std::vector<banter::text::TokenId> ids;
  (*tokenizer)->encode(text, false, ids);
  TextReport report;
  report.bytes = text.size();
  report.tokens = ids.size();
  for (size_t at = 0; at < text.size(); ++report.characters) at += std::max<size_t>(code_point_bytes(text, at), 1);
  return report;
}

// Output for people.

void print_metadata(const Gguf& file) {
  std::printf("\nMetadata (%zu keys)\n", file.metadata().size());
  size_t width = 0;
  for (const auto& [key, value] : file.metadata()) width = std::max(width, std::min<size_t>(key.size(), 48));
  for (const auto& [key, value] : file.metadata()) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), printable(key).c_str(), value_text(value).c_str());
  }
}

void print_tensors(const Gguf& file) {
  std::printf("\nTensors (%zu); shapes begin with the row length\n", file.tensors().size());
  size_t name_width = 4;
  size_t shape_width = 5;
  for (const GgufTensor& tensor : file.tensors()) {
    name_width = std::max(name_width, printable(tensor.name).size());
    shape_width = std::max(shape_width, shape_text(tensor).size());
  }
  for (const GgufTensor& tensor : file.tensors()) {
    std::printf("  %-*s  %-8s %*s  %11s\n", static_cast<int>(name_width), printable(tensor.name).c_str(),
                std::string(banter::formats::type_name(tensor.type)).c_str(), static_cast<int>(shape_width),
                shape_text(tensor).c_str(), bytes_text(tensor.bytes).c_str());
  }
}

void print_tally(const std::string& name, const Tally& tally) {
  std::printf("  %-14s %8llu %13s %12s %8.3f\n", name.c_str(), static_cast<unsigned long long>(tally.tensors),
              count_text(tally.parameters).c_str(), bytes_text(tally.bytes).c_str(), bits_per_weight(tally));
}

void print_memory(const ModelReport& report) {
  std::printf("\nWeights by part   tensors    parameters        bytes  bits/wt\n");
  for (size_t i = 0; i < kModelParts; ++i) {
    if (report.parts[i].tensors > 0) print_tally(std::string(part_name(static_cast<ModelPart>(i))), report.parts[i]);
  }
  print_tally("total", report.total);
  if (report.tied_output) std::printf("  (no output matrix of its own: the embedding serves as one)\n");
  std::printf("\nWeights by type   tensors    parameters        bytes  bits/wt\n");
  for (const auto& [name, tally] : report.types) print_tally(name, tally);
}

void print_kv(const ModelReport& report) {
  if (!report.kv) {
    std::printf("\nKV cache: unknown. %s\n", report.kv_missing.c_str());
    return;
  }
  const KvReport& kv = *report.kv;
  std::printf("\nKV cache per sequence (trained context %llu tokens)\n",
              static_cast<unsigned long long>(kv.trained_context));
  for (const KvLayers& group : kv.of(ops::KvType::kF16)) {
    const std::string reach = group.window == 0 ? "see everything" : "see " + std::to_string(group.window) + " tokens";
    std::printf("  %llu layers %s\n", static_cast<unsigned long long>(group.layers), reach.c_str());
  }
  std::printf("  %-24s", "tokens");
  for (const ops::KvType format : kKvFormats) std::printf(" %11s", ops::kv_type_name(format));
  const auto row = [&](auto&& bytes) {
    for (const ops::KvType format : kKvFormats) {
      std::printf(" %11s", kv.supports(format) ? bytes_text(bytes(format)).c_str() : "-");
    }
  };
  std::printf("\n  %-24s", kv.has_windows() ? "1 more, windows filling" : "1 more");
  row([&](ops::KvType format) { return kv.bytes_per_token(format); });
  if (kv.has_windows()) {
    std::printf("\n  %-24s", "1 more, windows full");
    row([&](ops::KvType format) { return kv.bytes_per_token(format, true); });
  }
  for (const uint64_t tokens : context_steps(kv.trained_context)) {
    std::printf("\n  %-24llu", static_cast<unsigned long long>(tokens));
    row([&](ops::KvType format) { return kv.sequence_bytes(format, tokens); });
  }
  std::printf(
      "\n  (whole contexts of int8 and int4 count the newest %d tokens once more, which are kept as f16 beside)\n",
      ops::kKvRecentWindow);
}

void print_characters(const ModelReport& report, uint64_t budget, uint64_t prefix) {
  if (!report.kv) return;
  const KvReport& kv = *report.kv;
  std::printf(
      "\nCharacters that fit %s, with weights of %s and %s of step buffers held once,\n"
      "and the first %llu tokens (persona, world lore) shared by all\n  %-24s",
      bytes_text(budget).c_str(), bytes_text(report.total.bytes).c_str(), bytes_text(kv.step_buffer_bytes).c_str(),
      static_cast<unsigned long long>(prefix), "tokens per character");
  for (const ops::KvType format : kKvFormats) std::printf(" %11s", ops::kv_type_name(format));
  for (const uint64_t tokens : context_steps(kv.trained_context)) {
    if (tokens <= prefix) continue;
    std::printf("\n  %-24llu", static_cast<unsigned long long>(tokens));
    for (const ops::KvType format : kKvFormats) {
      const uint64_t fit = characters_that_fit(kv, format, budget, report.total.bytes, tokens, prefix);
      std::printf(" %11s", kv.supports(format) ? std::to_string(fit).c_str() : "-");
    }
  }
  std::printf("\n");
}

// Output for programs.

Json tally_json(const Tally& tally) {
  return {{"tensors", tally.tensors},
          {"parameters", tally.parameters},
          {"bytes", tally.bytes},
          {"bits_per_weight", bits_per_weight(tally)}};
}

template <class Bytes>
Json formats_json(const KvReport& kv, Bytes&& bytes) {
  Json out = Json::object();
  for (const ops::KvType format : kKvFormats) {
    if (kv.supports(format)) out[ops::kv_type_name(format)] = bytes(format);
  }
  return out;
}

Json kv_json(const KvReport& kv) {
  Json json;
  json["trained_context"] = kv.trained_context;
  json["groups"] = Json::array();
  for (const KvLayers& group : kv.of(ops::KvType::kF16))
    json["groups"].push_back({{"layers", group.layers}, {"window", group.window}});
  json["bytes_per_token"] = formats_json(kv, [&](ops::KvType f) { return kv.bytes_per_token(f); });
  json["bytes_per_token_beyond_windows"] = formats_json(kv, [&](ops::KvType f) { return kv.bytes_per_token(f, true); });
  json["contexts"] = Json::array();
  for (const uint64_t tokens : context_steps(kv.trained_context)) {
    Json row = {{"tokens", tokens}};
    row["bytes"] = formats_json(kv, [&](ops::KvType f) { return kv.sequence_bytes(f, tokens); });
    json["contexts"].push_back(row);
  }
  return json;
}

Json characters_json(const ModelReport& report, uint64_t budget, uint64_t prefix) {
  Json json = {{"budget_bytes", budget},
               {"weight_bytes", report.total.bytes},
               {"step_buffer_bytes", report.kv->step_buffer_bytes},
               {"shared_prefix_tokens", prefix}};
  json["contexts"] = Json::array();
  for (const uint64_t tokens : context_steps(report.kv->trained_context)) {
    if (tokens <= prefix) continue;
    Json row = {{"tokens", tokens}};
    row["characters"] = formats_json(*report.kv, [&](ops::KvType format) {
      return characters_that_fit(*report.kv, format, budget, report.total.bytes, tokens, prefix);
    });
    json["contexts"].push_back(row);
  }
  return json;
}

Json report_json(const Options& o, const Gguf& file, const ModelReport& report) {
  Json json;
  json["file"] = o.model;
  json["gguf_version"] = file.version();
  json["file_bytes"] = file.file_bytes();
  json["metadata"] = Json::object();
  for (const auto& [key, value] : file.metadata()) json["metadata"][key] = value_json(value);
  json["parameters"] = report.total.parameters;
  json["weight_bytes"] = report.total.bytes;
  json["tied_output"] = report.tied_output;
  for (size_t i = 0; i < kModelParts; ++i) {
    json["parts"][std::string(part_name(static_cast<ModelPart>(i)))] = tally_json(report.parts[i]);
  }
  json["types"] = Json::object();
  for (const auto& [name, tally] : report.types) json["types"][name] = tally_json(tally);
  if (report.kv) {
    json["kv"] = kv_json(*report.kv);
  } else {
    json["kv_missing"] = report.kv_missing;
  }
  if (o.no_tensors) return json;
  json["tensors"] = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    Json shape = Json::array();
    for (uint32_t i = 0; i < tensor.n_dims; ++i) shape.push_back(tensor.dims[i]);
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", banter::formats::type_name(tensor.type)},
                               {"shape", shape},
                               {"bytes", tensor.bytes}});
  }
  return json;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "banter inspect: %s\n", message.c_str());
  return 1;
}

/** The text to measure: of --text, or the content of --text-file. */
Result<std::string> text_to_measure(const Options& o) {
  if (o.text_file.empty()) return o.text;
  std::ifstream file(o.text_file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return Error{BANTER_ERROR_IO, "cannot read '" + o.text_file + "'; check the path."};
  return text;
}

void print_report(const Options& o, const Gguf& file, const ModelReport& report) {
  const std::string* name = file.get_string("general.name");
  std::printf("%s: %s, GGUF v%u, %s parameters, %s\n", printable(o.model, 200).c_str(),
              name == nullptr ? "a model without a name" : printable(*name).c_str(), file.version(),
              count_text(report.total.parameters).c_str(), bytes_text(file.file_bytes()).c_str());
  print_metadata(file);
  if (!o.no_tensors) print_tensors(file);
  print_memory(report);
  print_kv(report);
}

int inspect(const Options& o, const std::optional<uint64_t>& budget) {
  const auto file = Gguf::open(o.model);
  if (!file) return fail(file.error().message);
  const ModelReport report = analyse(*file);
  const auto text = text_to_measure(o);
  if (!text) return fail(text.error().message);
  std::optional<TextReport> measured;
  if (!text->empty()) {
    const auto result = measure_text(*file, *text);
    if (!result) return fail(result.error().message);
    measured = *result;
  }
  if (budget && !report.kv) return fail("cannot tell how many characters fit: " + report.kv_missing);

  if (o.json) {
    Json json = report_json(o, *file, report);
    if (measured) {
      json["text"] = {{"characters", measured->characters},
                      {"bytes", measured->bytes},
                      {"tokens", measured->tokens},
                      {"tokens_per_character", measured->tokens_per_character()}};
    }
    if (budget) json["vram"] = characters_json(report, *budget, o.prefix);
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return 0;
  }
  print_report(o, *file, report);
  if (measured) {
    std::printf("\nText: %llu characters, %llu bytes, %llu tokens: %.3f tokens per character\n",
                static_cast<unsigned long long>(measured->characters), static_cast<unsigned long long>(measured->bytes),
                static_cast<unsigned long long>(measured->tokens), measured->tokens_per_character());
  }
  if (budget) print_characters(report, *budget, o.prefix);
  return 0;
}

}  // namespace

int command_inspect(int argc, char** argv) {
  CLI::App app{
      "Shows a model's metadata and tensors, its memory by part and type, what its KV cache costs per context\n"
      "length, how a text divides into tokens, and how many characters fit a budget of video memory.",
      "banter inspect"};
  Options o;
  app.add_option("model,--model", o.model, "a .gguf file (of a split model, the first part)")->required();
  CLI::Option* text = app.add_option("--text", o.text, "count the tokens of this text");
  app.add_option("--text-file", o.text_file, "count the tokens of a UTF-8 file")->excludes(text);
  app.add_option("--vram", o.vram, "show how many characters fit this memory: 4G, 512M, or bytes");
  app.add_option("--prefix", o.prefix, "with --vram: tokens that all characters share")->capture_default_str();
  app.add_flag("--no-tensors", o.no_tensors, "leave out the list of tensors");
  app.add_flag("--json", o.json, "one JSON object as the last line of stdout");
  CLI11_PARSE(app, argc, argv);

  std::optional<uint64_t> budget;
  if (!o.vram.empty()) {
    budget = parse_bytes(o.vram);
    if (!budget) return fail("--vram '" + o.vram + "' is not a size; write 4G, 512M, or a number of bytes");
  }
  return inspect(o, budget);
}
