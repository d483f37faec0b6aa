#include "model/metadata_reader.h"

#include <cmath>
#include <utility>
#include <variant>
#include <vector>

namespace banter::model {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 wants it said

std::string shown(double value) {
  const double whole = std::nearbyint(value);
  return whole == value && std::abs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value)) : std::to_string(value);
}

// All elements when they are equal numbers; nullopt for an empty, textual or mixed array.
std::optional<double> uniform(const formats::GgufArray& array, bool& differs) {
  return std::visit(Overloaded{[](const std::vector<std::string>&) -> std::optional<double> { return {}; },
                               [&](const auto& values) -> std::optional<double> {
                                 if (values.empty()) return {};
                                 for (size_t i = 1; i < values.size(); ++i) {
                                   if (values[i] != values[0]) {
                                     differs = true;
                                     return {};
                                   }
                                 }
                                 return static_cast<double>(values[0]);
                               }},
                    array);
}

}  // namespace

MetadataReader::MetadataReader(const formats::Gguf& file, std::string architecture)
    : file_(file), architecture_(std::move(architecture)) {}

void MetadataReader::fail(banter_result code, std::string message) {
  if (!error_) error_ = Error{code, std::move(message)};
}

bool MetadataReader::has(std::string_view key) const {
  return file_.find(full_key(key)) != nullptr;
}

std::optional<double> MetadataReader::number(std::string_view key) {
  const std::string name = full_key(key);
  if (file_.find(name) == nullptr) return {};
  if (const std::optional<double> value = file_.get_float(name)) return value;
  bool differs = false;
  if (const formats::GgufArray* array = file_.get_array(name)) {
    if (const std::optional<double> value = uniform(*array, differs)) return value;
  }
  if (differs) {
    fail(BANTER_ERROR_UNSUPPORTED,
         "the model's " + name + " differs between layers, which is not supported; use a model with equal layers");
  } else {
    fail(BANTER_ERROR_CORRUPT, "the model's " + name + " is not a number; the file is damaged or badly converted");
  }
  return {};
}

int32_t MetadataReader::required_integer(std::string_view key, int32_t min, int32_t max) {
  if (!has(key)) {
    fail(BANTER_ERROR_CORRUPT, "the model lacks " + full_key(key) + "; the file is damaged or badly converted");
    return min;
  }
  return optional_integer(key, min, min, max);
}

int32_t MetadataReader::optional_integer(std::string_view key, int32_t fallback, int32_t min, int32_t max) {
  if (!has(key)) return fallback;
  const std::optional<double> value = number(key);
  if (!value) return min;
  if (!(*value >= min && *value <= max) || std::nearbyint(*value) != *value) {
    fail(BANTER_ERROR_CORRUPT, "the model's " + full_key(key) + " is " + shown(*value) + ", outside " +
                                   std::to_string(min) + " to " + std::to_string(max) +
                                   "; the file is damaged or badly converted");
    return min;
  }
  return static_cast<int32_t>(*value);
}

double MetadataReader::optional_number(std::string_view key, double fallback, double min, double max) {
  if (!has(key)) return fallback;
  const std::optional<double> value = number(key);
  if (!value) return min;
  if (!(*value >= min && *value <= max)) {  // false for NaN too
    fail(BANTER_ERROR_CORRUPT, "the model's " + full_key(key) + " is " + shown(*value) + ", outside " + shown(min) +
                                   " to " + shown(max) + "; the file is damaged or badly converted");
    return min;
  }
  return *value;
}

std::string MetadataReader::optional_text(std::string_view key) {
  const std::string name = full_key(key);
  if (file_.find(name) == nullptr) return {};
  if (const std::string* text = file_.get_string(name)) return *text;
  fail(BANTER_ERROR_CORRUPT, "the model's " + name + " is not text; the file is damaged or badly converted");
  return {};
}

std::optional<std::vector<bool>> MetadataReader::optional_flags(std::string_view key, int32_t layers) {
  const std::string name = full_key(key);
  const formats::GgufArray* array = file_.get_array(name);
  if (array == nullptr) return {};
  std::vector<bool> flags;
  std::visit(Overloaded{[](const std::vector<std::string>&) {},
                        [&](const auto& values) {
                          for (const auto& value : values) flags.push_back(value != 0);
                        }},
             *array);
  if (flags.size() != static_cast<size_t>(layers)) {
    fail(BANTER_ERROR_CORRUPT, "the model's " + name + " does not have one flag for each of " + std::to_string(layers) +
                                   " layers; the file is damaged or badly converted");
    return {};
  }
  return flags;
}

}  // namespace banter::model
