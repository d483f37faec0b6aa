// The device's view of an ops::Step, as the backend's host side would send it: for tests that call kernels directly.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "backend_cuda/step_data.h"
#include "cuda/device_array.h"
#include "ops/backend.h"

namespace banter::test {

/** Arrays of a step in device memory; view() is valid as long as the object lives. */
class StepOnDevice {
 public:
  explicit StepOnDevice(const ops::Step& step, std::span<const int32_t> logit_rows = {}) {
    std::vector<int32_t> row_sequence(static_cast<size_t>(step.rows()), 0);
    std::vector<cuda::DeviceSequence> sequences;
    std::vector<cuda::AttentionTile> tiles;
    std::vector<int32_t> tables;
    for (const ops::StepSequence& sequence : step.sequences) {
      const auto index = static_cast<int32_t>(sequences.size());
      cuda::DeviceSequence device = {};
      device.first_row = sequence.first_row;
      device.rows = sequence.rows;
      device.position = sequence.position;
      for (size_t group = 0; group < sequence.page_tables.size(); ++group) {
        device.tables[group] = static_cast<int32_t>(tables.size());
        tables.insert(tables.end(), sequence.page_tables[group].begin(), sequence.page_tables[group].end());
      }
      sequences.push_back(device);
      std::fill_n(row_sequence.begin() + sequence.first_row, sequence.rows, index);
      for (int32_t done = 0; done < sequence.rows;) {
        const int32_t position = sequence.position + done;
        const int32_t same_block = ops::kKvRecentBlock - position % ops::kKvRecentBlock;
        const int32_t rows = std::min({sequence.rows - done, cuda::kTileTokens, same_block});
        tiles.push_back({index, sequence.first_row + done, rows, position});
        done += rows;
      }
    }
    counts_ = DeviceArray<cuda::StepCounts>(std::vector<cuda::StepCounts>{{
        step.rows(),
        static_cast<int32_t>(sequences.size()),
        static_cast<int32_t>(logit_rows.size()),
        static_cast<int32_t>(tiles.size()),
    }});
    tile_count_ = static_cast<int32_t>(tiles.size());
    tokens_ = DeviceArray<int32_t>(step.tokens);
    positions_ = DeviceArray<int32_t>(step.positions);
    row_sequence_ = DeviceArray<int32_t>(row_sequence);
    logit_rows_ = DeviceArray<int32_t>(logit_rows);
    sequences_ = DeviceArray<cuda::DeviceSequence>(sequences);
    tiles_ = DeviceArray<cuda::AttentionTile>(tiles);
    tables_ = DeviceArray<int32_t>(tables);
  }
  /** A step of `rows` rows and no sequences, for the ops that look at the number of rows only. */
  explicit StepOnDevice(int32_t rows, std::span<const int32_t> logit_rows = {})
      : StepOnDevice(Plain(rows), logit_rows) {}

  cuda::StepView view() const {
    return {counts_.data(),     tokens_.data(),    positions_.data(), row_sequence_.data(),
            logit_rows_.data(), sequences_.data(), tiles_.data(),     tables_.data()};
  }
  int32_t tiles() const { return tile_count_; }

 private:
  struct Plain {
    explicit Plain(int32_t rows) : zeros(static_cast<size_t>(rows), 0) {}
    std::vector<int32_t> zeros;
  };
  StepOnDevice(const Plain& plain, std::span<const int32_t> logit_rows)
      : StepOnDevice(ops::Step{.tokens = plain.zeros, .positions = plain.zeros, .sequences = {}}, logit_rows) {}

  int32_t tile_count_ = 0;
  DeviceArray<cuda::StepCounts> counts_;
  DeviceArray<int32_t> tokens_, positions_, row_sequence_, logit_rows_, tables_;
  DeviceArray<cuda::DeviceSequence> sequences_;
  DeviceArray<cuda::AttentionTile> tiles_;
};

}  // namespace banter::test
