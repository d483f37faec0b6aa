// Cuts streamed text into sentences, for subtitles and voices. Knows nothing of the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banter::godot {

/** Takes text piece by piece, however it is cut, and gives sentences as soon as they are complete.
 *
 *  A sentence ends at a line's end; at 。！？ or …; and at . ! ? with closing quotes and brackets behind them, when white
 *  space follows. A full stop after a digit-less word of one letter ("J."), or after a title ("Mr."), ends none. Sentences
 *  are given without the white space around them; those of white space alone are left out. Joined, they have every other
 *  character of the text, in order. */
class SentenceSplitter {
 public:
  /** `text`: whole UTF-8 code points. Returns the sentences that it completes. */
  std::vector<std::string> add(std::string_view text);
  /** What has been held back, as the last sentence; "" where there is none. The splitter is as new afterwards. */
  std::string finish();

 private:
  std::string waiting_;
  size_t scanned_ = 0;  // no sentence of waiting_ ends before here
};

}  // namespace banter::godot
