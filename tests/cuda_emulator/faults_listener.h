// A test that ends with a fault of the emulated card nobody took fails.
#pragma once

#include <gtest/gtest.h>

#include "cuda_emulator/control.h"

namespace banter::cuda_emulator {

/** Starts every test with a fresh card and fails it for every fault that is left at its end. */
class FaultsListener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { reset(); }
  void OnTestEnd(const testing::TestInfo&) override {
    for (const Fault& fault : take_faults()) ADD_FAILURE() << "emulated card: " << to_string(fault);
  }
};

/** A global of this type in a test program: `static const ListenToFaults listen;` */
struct ListenToFaults {
  ListenToFaults() { testing::UnitTest::GetInstance()->listeners().Append(new FaultsListener); }
};

}  // namespace banter::cuda_emulator
