// Finds many strings at once in text that arrives byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace banter::dialogue {

/** An Aho-Corasick automaton (Aho, Corasick 1975). A state is the longest end of the text so far that some string begins
 *  with; state 0 is "none". Immutable: text streams keep their own state. Memory is proportional to the strings' bytes. */
class StringAutomaton {
 public:
  using State = int32_t;
  static constexpr State kStart = 0;
  static constexpr size_t kMaxStrings = 1024;
  static constexpr size_t kMaxBytes = 64 * 1024;  // of all strings together

  /** @param what          what the strings are, in the singular, for error messages ("stop string")
   *  @param ignore_case   the letters A-Z and a-z of strings and text are the same
   *  @returns INVALID_ARGUMENT naming the string that is empty or not UTF-8, or the limit that is passed */
  static Result<StringAutomaton> create(std::span<const std::string> strings, const std::string& what,
                                        bool ignore_case);

  bool empty() const { return nodes_.size() == 1; }
  /** Amortised O(1) for a stream of bytes. */
  State step(State state, char byte) const;
  /** How many of the newest bytes may be the beginning of a string. */
  size_t depth(State state) const { return nodes_[static_cast<size_t>(state)].depth; }
  /** Index of the longest, and of the shortest, string that ends here; -1 = none does. */
  int32_t longest_match(State state) const { return nodes_[static_cast<size_t>(state)].longest; }
  int32_t shortest_match(State state) const { return nodes_[static_cast<size_t>(state)].shortest; }
  size_t length(int32_t string) const { return lengths_[static_cast<size_t>(string)]; }

 private:
  struct Node {
    State first_child = 0, next_sibling = 0;  // 0 = none
    State fail = kStart;                      // the longest proper end of this state that is a state
    uint32_t depth = 0;
    int32_t longest = -1, shortest = -1;
    uint8_t byte = 0;
  };

  explicit StringAutomaton(bool ignore_case) : nodes_(1), ignore_case_(ignore_case) {}
  uint8_t fold(char byte) const;
  State child(State state, uint8_t byte) const;
  void add(const std::string& string, int32_t index);
  void link();

  std::vector<Node> nodes_;
  std::array<State, 256> root_{};  // children of the start state
  std::vector<size_t> lengths_;
  bool ignore_case_;
};

}  // namespace banter::dialogue
