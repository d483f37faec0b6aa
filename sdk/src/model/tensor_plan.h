// Binding: which tensor of a file goes where. Everything is checked before the first byte is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "ops/backend.h"

namespace banter::model {

/** Rows [first_row, first_row + rows) of a tensor become one weight. */
struct MatrixPlan {
  const formats::GgufTensor* tensor = nullptr;
  uint64_t first_row = 0, rows = 0, cols = 0;
  ops::WeightUse use = ops::WeightUse::kLinear;
  std::unique_ptr<ops::Weight>* target = nullptr;

  uint64_t row_bytes() const { return tensor->bytes / tensor->dims[1]; }
  uint64_t bytes() const { return rows * row_bytes(); }
};

/** A one-dimensional tensor becomes float32 numbers. */
struct VectorPlan {
  const formats::GgufTensor* tensor = nullptr;
  const float** target = nullptr;
};

/** Collects plans; the first fault is remembered and later calls are harmless. Borrows the file and the targets. */
class TensorPlan {
 public:
  explicit TensorPlan(const formats::Gguf& file) : file_(file) {}

  /** A whole matrix [rows][cols]. */
  void matrix(const std::string& name, int64_t rows, int64_t cols, ops::WeightUse use,
              std::unique_ptr<ops::Weight>& target);
  /** Rows [first, first + rows) of a matrix [total][cols] in which several were stacked. */
  void stacked(const std::string& name, int64_t total, int64_t first, int64_t rows, int64_t cols,
               std::unique_ptr<ops::Weight>& target);
  void vector(const std::string& name, int64_t elements, const float*& target);
  void optional_vector(const std::string& name, int64_t elements, const float*& target);
  /** Tensors that others read, or that nobody needs, but that do no harm. */
  void allow(const std::string& name) { used_.insert(name); }
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  /** The first fault; or, when there is none, one about a tensor that nothing asked for. */
  Result<void> finish() const;
  const std::vector<MatrixPlan>& matrices() const { return matrices_; }
  const std::vector<VectorPlan>& vectors() const { return vectors_; }

 private:
  const formats::GgufTensor* find(const std::string& name, uint64_t rows, uint64_t cols);
  void fail(banter_result code, std::string message);

  const formats::Gguf& file_;
  std::vector<MatrixPlan> matrices_;
  std::vector<VectorPlan> vectors_;
  std::unordered_set<std::string> used_;
  std::optional<Error> error_;
};

}  // namespace banter::model
