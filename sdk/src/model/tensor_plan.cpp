#include "model/tensor_plan.h"

#include <utility>

#include "formats/tensor_type.h"

namespace banter::model {

namespace {

std::string shape(uint64_t cols, uint64_t rows) {
  return std::to_string(cols) + " x " + std::to_string(rows);
}

std::string readable_types() {
  std::string list;
  for (const formats::TypeTraits& traits : formats::all_types()) {
    if (!list.empty()) list += ", ";
    list += traits.name;
  }
  return list;
}

}  // namespace

void TensorPlan::fail(banter_result code, std::string message) {
  if (!error_) error_ = Error{code, std::move(message)};
}

const formats::GgufTensor* TensorPlan::find(const std::string& name, uint64_t rows, uint64_t cols) {
  used_.insert(name);
  const formats::GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    fail(BANTER_ERROR_MISSING_TENSOR,
         "the model lacks the tensor " + name + "; the file is incomplete or badly converted");
    return nullptr;
  }
  if (tensor->dims[0] != cols || tensor->dims[1] != rows || tensor->dims[2] != 1 || tensor->dims[3] != 1) {
    fail(BANTER_ERROR_CORRUPT, "the model's tensor " + name + " is " + shape(tensor->dims[0], tensor->dims[1]) +
                                   " where " + shape(cols, rows) +
                                   " is needed; the file is damaged or badly converted");
    return nullptr;
  }
  if (formats::type_traits(tensor->type) == nullptr) {
    fail(BANTER_ERROR_UNSUPPORTED_TYPE, "the model's tensor " + name + " is of type " +
                                            std::string(formats::type_name(tensor->type)) + "; supported are " +
                                            readable_types());
    return nullptr;
  }
  return tensor;
}

void TensorPlan::matrix(const std::string& name, int64_t rows, int64_t cols, ops::WeightUse use,
                        std::unique_ptr<ops::Weight>& target) {
  const formats::GgufTensor* tensor = find(name, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols));
  if (tensor == nullptr) return;
  matrices_.push_back({tensor, 0, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), use, &target});
}

void TensorPlan::stacked(const std::string& name, int64_t total, int64_t first, int64_t rows, int64_t cols,
                         std::unique_ptr<ops::Weight>& target) {
  const formats::GgufTensor* tensor = find(name, static_cast<uint64_t>(total), static_cast<uint64_t>(cols));
  if (tensor == nullptr) return;
  matrices_.push_back({tensor, static_cast<uint64_t>(first), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                       ops::WeightUse::kLinear, &target});
}

void TensorPlan::vector(const std::string& name, int64_t elements, const float*& target) {
  const formats::GgufTensor* tensor = find(name, 1, static_cast<uint64_t>(elements));
  if (tensor != nullptr) vectors_.push_back({tensor, &target});
}

void TensorPlan::optional_vector(const std::string& name, int64_t elements, const float*& target) {
  if (has(name)) vector(name, elements, target);
}

Result<void> TensorPlan::finish() const {
  if (error_) return *error_;
  for (const formats::GgufTensor& tensor : file_.tensors()) {
    if (used_.find(tensor.name) == used_.end()) {
      return Error{BANTER_ERROR_UNSUPPORTED,
                   "the model has a tensor " + tensor.name.substr(0, 64) +
                       " that its architecture does not use here; running without it would give "
                       "wrong answers, so another conversion of the model is needed"};
    }
  }
  return {};
}

}  // namespace banter::model
