// The best logits of a row against sorting: exact, whatever the values are.
#include "backend_cuda/best_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/card.h"
#include "cuda/device_array.h"
#include "cuda/step_on_device.h"

namespace banter::cuda {
namespace {

constexpr int32_t kMost = BestRow::kMost;

std::vector<float> random_row(int32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::vector<float> row(static_cast<size_t>(vocabulary));
  for (float& x : row) x = normal(random);
  return row;
}

void expect_best(const std::vector<float>& row, const BestRow& found, const std::string& what) {
  std::vector<float> sorted;
  for (const float x : row) {
    if (std::isfinite(x)) sorted.push_back(x);
  }
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const bool all = sorted.size() <= static_cast<size_t>(kMost);
  const float rest = all ? -std::numeric_limits<float>::infinity() : sorted[kMost];
  EXPECT_EQ(found.rest, rest) << what;
  std::vector<int32_t> expected, ids(found.ids, found.ids + std::clamp(found.count, 0, kMost));
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::isfinite(row[i]) && row[i] > rest) expected.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(found.logits[i], row[static_cast<size_t>(ids[i])]) << what;
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, expected) << what;
}

/** Runs the rows as logits of one step, on a grid of `grid_rows` rows. */
std::vector<BestRow> best_of(const std::vector<std::vector<float>>& rows, int32_t grid_rows) {
  const auto vocabulary = static_cast<int32_t>(rows[0].size());
  std::vector<float> logits;
  for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
  std::vector<int32_t> numbers(rows.size());
  const test::StepOnDevice step(ops::Step{}, numbers);
  test::DeviceArray<float> device(logits);
  std::vector<BestRow> result(static_cast<size_t>(grid_rows));
  for (BestRow& row : result) row.count = -7;
  test::DeviceArray<BestRow> out(result);
  EXPECT_EQ(cudaSuccess, best_logits(step.view(), device.data(), grid_rows, vocabulary, out.data(), nullptr));
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
  return out.read();
}

TEST(BestLogits, AreThoseOfSorting) {
  for (const int32_t vocabulary : {1, 5, 255, 256, 257, 1023, 5000, 40000}) {
    const std::vector<float> row = random_row(vocabulary, static_cast<uint32_t>(vocabulary));
    expect_best(row, best_of({row}, 1)[0], "vocabulary " + std::to_string(vocabulary));
  }
}

TEST(BestLogits, EqualValuesAndNumbersThatAreNone) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::vector<std::vector<float>> rows;
  rows.emplace_back(3000, 1.5f);   // all equal: none is above the rest
  rows.emplace_back(3000, nan);    // nothing at all
  rows.emplace_back(3000, -0.0f);  // both zeros are one value to a sampler, but two keys here
  for (size_t i = 0; i < 3000; i += 2) rows.back()[i] = -1.0f;
  rows.push_back(random_row(3000, 1));
  for (size_t i = 0; i < 3000; i += 3) rows.back()[i] = i % 2 == 0 ? infinity : nan;
  rows.push_back(random_row(3000, 2));
  std::fill_n(rows.back().begin() + 100, 400, 9.0f);  // more than fit share the border's value
  rows.emplace_back(3000, -infinity);
  for (size_t i = 0; i < 200; ++i) rows.back()[7 * i] = static_cast<float>(i) - 1e30f * static_cast<float>(i % 2);
  rows.emplace_back(3000, std::numeric_limits<float>::denorm_min());
  rows.back()[2999] = std::numeric_limits<float>::max();
  const std::vector<BestRow> found = best_of(rows, static_cast<int32_t>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) expect_best(rows[i], found[i], "row " + std::to_string(i));
}

TEST(BestLogits, RowsBeyondTheStepStayUntouched) {
  const std::vector<std::vector<float>> rows = {random_row(600, 1), random_row(600, 2), random_row(600, 3)};
  const std::vector<BestRow> found = best_of(rows, 5);
  for (size_t i = 0; i < 3; ++i) expect_best(rows[i], found[i], "row " + std::to_string(i));
  EXPECT_EQ(found[3].count, -7);
  EXPECT_EQ(found[4].count, -7);
}

}  // namespace
}  // namespace banter::cuda
