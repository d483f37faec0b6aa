#include "formats/split_patterns.h"

#include <algorithm>
#include <iterator>

namespace banter::formats {

// The patterns are data that the models were trained with; they stand in each model's tokenizer.json.
#define BANTER_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BANTER_TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BANTER_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define BANTER_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BANTER_LEAD "[^\\r\\n\\p{L}\\p{N}]?"

const std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

namespace {

constexpr std::string_view kLlama3 =
    BANTER_CONTRACTION "|" BANTER_LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BANTER_TAIL;
constexpr std::string_view kQwen2 =
    BANTER_CONTRACTION "|" BANTER_LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BANTER_TAIL;
constexpr std::string_view kQwen35 =
    BANTER_CONTRACTION "|" BANTER_LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" BANTER_TAIL;
constexpr std::string_view kGpt4o =
    BANTER_LEAD BANTER_UPPER "*" BANTER_LOWER "+" BANTER_CONTRACTION "?|" BANTER_LEAD BANTER_UPPER "+" BANTER_LOWER
                             "*" BANTER_CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BANTER_TAIL;
constexpr std::string_view kTekken =
    BANTER_LEAD BANTER_UPPER "*" BANTER_LOWER "+|" BANTER_LEAD BANTER_UPPER "+" BANTER_LOWER
                             "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BANTER_TAIL;
constexpr std::string_view kDeepSeekCjk = "[\\u4E00-\\u9FA5\\u3040-\\u309F\\u30A0-\\u30FF]+";
constexpr std::string_view kDeepSeekWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+"
    "[\\r\\n]*" BANTER_TAIL;
// DeepSeek LLM lists the letters with case of the Unicode of its day; the general categories are the same set since.
constexpr std::string_view kDeepSeekLetters = "\\s?[\\p{Lu}\\p{Ll}\\p{Lt}]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\\uFF01-\\uFF0F\\uFF1A-\\uFF5E\\u2018-\\u201F\\u3000-\\u3002]+";
constexpr std::string_view kDeepSeekOldCjk = "[\\u4E00-\\u9FA5\\u0800-\\u4E00\\uAC00-\\uD7FF]+";
constexpr std::string_view kBloom = " ?[^(\\s|.,!?\\u2026\\u3002\\uFF0C\\u3001\\u0964\\u06D4\\u060C)]+";
constexpr std::string_view kKimi =
    "[\\p{Han}]+|" BANTER_LEAD
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+" BANTER_CONTRACTION
    "?|" BANTER_LEAD
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*" BANTER_CONTRACTION
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BANTER_TAIL;
constexpr std::string_view kBailing =
    "'(?i:[sdmt]|ll|ve|re)|" BANTER_LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr std::string_view kSeedCoder =
    BANTER_CONTRACTION "|" BANTER_LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" BANTER_TAIL;
constexpr std::string_view kExaoneMoe = BANTER_CONTRACTION
    "|" BANTER_LEAD
    "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr std::string_view kFalconPunctuation = "[\\p{P}$+<=>^~|`]+";
constexpr std::string_view kGroupedDigits = "\\d{1,3}(?=(?:\\d{3})*\\b)";

#undef BANTER_CONTRACTION
#undef BANTER_TAIL
#undef BANTER_UPPER
#undef BANTER_LOWER
#undef BANTER_LEAD

struct Family {
  std::string_view names;  // separated by spaces
  std::string_view stages[6];
  bool nfc = false, ignore_merges = false, add_bos = false;
};

const Family kFamilies[] = {
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2", {kLlama3}, false, true, true},
    {"dbrx smaug-bpe glm4 chatglm-bpe", {kLlama3}},
    {"qwen2 deepseek-r1-qwen megrez", {kQwen2}, true},
    {"stablelm2 hunyuan solar-open grok-2", {kQwen2}},
    {"qwen35", {kQwen35}, true},
    {"gpt-4o llama4 kanana2 minimax-m2", {kGpt4o}},
    {"tekken", {kTekken}, false, true, true},
    {"tiny_aya", {kGroupedDigits, kGpt4o}},
    {"deepseek-v3 hunyuan-dense", {"\\p{N}{1,3}", kDeepSeekCjk, kDeepSeekWords}},
    {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepSeekOldCjk, "\\p{N}"}},
    {"deepseek-llm", {"[\\r\\n]", kDeepSeekLetters, kDeepSeekPunctuation, "\\s+$", kDeepSeekOldCjk, "\\p{N}+"}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", {"\\p{N}", kGpt2Pattern}},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
     "modern-bert exaone4 jais trillion granite-docling",
     {kGpt2Pattern}},
    {"mpt olmo", {kGpt2Pattern}, true},
    {"falcon", {kFalconPunctuation, kGpt2Pattern, "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish", {kBloom}},
    {"viking", {kBloom, "\\p{N}"}},
    {"kimi-k2", {kKimi}},
    {"bailingmoe bailingmoe2 llada-moe", {kBailing}},
    {"seed-coder", {kSeedCoder}},
    {"exaone-moe", {kExaoneMoe}},
    {"default", {"[\\p{P}$+<=>^~|]+", kGpt2Pattern, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

bool names_include(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

bool find_pre_tokenizer(std::string_view name, PreTokenizer& out) {
  const auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& f) { return names_include(f.names, name); });
  if (family == std::end(kFamilies)) return false;
  out = {{}, family->nfc, family->ignore_merges, family->add_bos};
  for (const std::string_view pattern : family->stages)
    if (!pattern.empty()) out.splits.push_back({.pattern = std::string(pattern)});
  return true;
}

}  // namespace banter::formats
