// Texts of a FlatBuffer, checked.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/utf8.h"

namespace banter::dialogue {

/** Gives out a verified buffer's texts. Offsets in a buffer may share one text, so that a small file could spell a huge
 *  one: all texts together must not be larger than the file that they stand in. */
class TextBudget {
 public:
  /** @param what  names the file in messages */
  TextBudget(std::string what, size_t file_bytes) : what_(std::move(what)), left_(file_bytes) {}

  /** The text, borrowed from the buffer; "" where it is absent. CORRUPT, naming the field: not UTF-8, or too much. */
  Result<std::string_view> take(const flatbuffers::String* text, const std::string& field) {
    if (text == nullptr) return std::string_view();
    if (text->size() > left_) {
      return Error{BANTER_ERROR_CORRUPT,
                   what_ + ": its texts are together larger than the file (at " + field + "); write it with flatc."};
    }
    left_ -= text->size();
    const std::string_view view(text->c_str(), text->size());
    if (!text::utf8_is_valid(view)) return Error{BANTER_ERROR_CORRUPT, what_ + ": " + field + " is not valid UTF-8."};
    return view;
  }
  const std::string& what() const { return what_; }

 private:
  std::string what_;
  size_t left_;
};

}  // namespace banter::dialogue
