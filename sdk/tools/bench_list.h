// What the developers' benchmarks read from their command lines.
#pragma once

#include <cstdlib>
#include <vector>

namespace banter::tools {

/** "1,4,16"; empty where something is not a number above 0. */
inline std::vector<int> parse_list(const char* text) {
  std::vector<int> values;
  for (const char* at = text; *at != 0; at += *at == ',') {
    char* end = nullptr;
    values.push_back(static_cast<int>(std::strtol(at, &end, 10)));
    if (end == at || values.back() <= 0) return {};
    at = end;
  }
  return values;
}

}  // namespace banter::tools
