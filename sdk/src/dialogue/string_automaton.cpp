#include "dialogue/string_automaton.h"

#include <algorithm>

#include "text/utf8.h"

namespace banter::dialogue {
namespace {

Error refuse(std::string message) {
  return {BANTER_ERROR_INVALID_ARGUMENT, std::move(message)};
}

}  // namespace

Result<StringAutomaton> StringAutomaton::create(std::span<const std::string> strings, const std::string& what,
                                                bool ignore_case) {
  if (strings.size() > kMaxStrings)
    return refuse(std::to_string(strings.size()) + " " + what + "s are too many; give at most " +
                  std::to_string(kMaxStrings) + ".");
  size_t bytes = 0;
  for (size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty()) return refuse(what + " number " + std::to_string(i) + " is empty; leave it out.");
    if (!text::utf8_is_valid(strings[i]))
      return refuse(what + " number " + std::to_string(i) + " is not valid UTF-8; convert it.");
    bytes += strings[i].size();
  }
  if (bytes > kMaxBytes)
    return refuse("the " + what + "s have " + std::to_string(bytes) + " bytes together; give at most " +
                  std::to_string(kMaxBytes) + ".");
  StringAutomaton automaton(ignore_case);
  for (size_t i = 0; i < strings.size(); ++i) automaton.add(strings[i], static_cast<int32_t>(i));
  automaton.link();
  return automaton;
}

uint8_t StringAutomaton::fold(char byte) const {
  const auto value = static_cast<uint8_t>(byte);
  return ignore_case_ && value >= 'A' && value <= 'Z' ? static_cast<uint8_t>(value + ('a' - 'A')) : value;
}

StringAutomaton::State StringAutomaton::child(State state, uint8_t byte) const {
  if (state == kStart) return root_[byte];
  State next = nodes_[static_cast<size_t>(state)].first_child;
  while (next != 0 && nodes_[static_cast<size_t>(next)].byte != byte)
    next = nodes_[static_cast<size_t>(next)].next_sibling;
  return next;
}

void StringAutomaton::add(const std::string& string, int32_t index) {
  State state = kStart;
  for (const char raw : string) {
    const uint8_t byte = fold(raw);
    State next = child(state, byte);
    if (next == 0) {
      next = static_cast<State>(nodes_.size());
      Node node;
      node.byte = byte;
      node.depth = nodes_[static_cast<size_t>(state)].depth + 1;
      node.next_sibling = nodes_[static_cast<size_t>(state)].first_child;
      nodes_.push_back(node);
      nodes_[static_cast<size_t>(state)].first_child = next;
      if (state == kStart) root_[byte] = next;
    }
    state = next;
  }
  lengths_.push_back(string.size());
  Node& end = nodes_[static_cast<size_t>(state)];
  if (end.longest < 0) end.longest = end.shortest = index;  // of equal strings the first counts
}

/** Sets the failure links, nearest to the start first: a link points to a shallower state, whose own is then known. */
void StringAutomaton::link() {
  std::vector<State> queue = {kStart};
  for (size_t head = 0; head < queue.size(); ++head) {
    const State state = queue[head];
    for (State next = nodes_[static_cast<size_t>(state)].first_child; next != 0;) {
      Node& node = nodes_[static_cast<size_t>(next)];
      if (state != kStart) node.fail = step(nodes_[static_cast<size_t>(state)].fail, static_cast<char>(node.byte));
      const Node& fail = nodes_[static_cast<size_t>(node.fail)];
      if (node.longest < 0) node.longest = fail.longest;
      if (fail.shortest >= 0) node.shortest = fail.shortest;
      queue.push_back(next);
      next = node.next_sibling;
    }
  }
}

StringAutomaton::State StringAutomaton::step(State state, char raw) const {
  const uint8_t byte = fold(raw);
  for (;;) {
    const State next = child(state, byte);
    if (next != 0 || state == kStart) return next;
    state = nodes_[static_cast<size_t>(state)].fail;
  }
}

}  // namespace banter::dialogue
