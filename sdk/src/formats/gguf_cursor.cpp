#include "formats/gguf_cursor.h"

#include <limits>

namespace banter::formats {

Result<const std::byte*> GgufCursor::take(size_t bytes) {
  if (bytes > remaining()) {
    const bool wraps = bytes > std::numeric_limits<uint64_t>::max() - position_;
    return truncated(where(), wraps ? std::numeric_limits<uint64_t>::max() : position_ + bytes);
  }
  if (position_ + bytes > kMaxHeaderBytes) return corrupt(where() + " lies beyond the first GiB of the file");
  if (position_ < window_start_ || position_ + bytes > window_start_ + window_.size()) {
    const uint64_t want = std::min<uint64_t>(std::max<uint64_t>(bytes, kWindowBytes), remaining());
    window_.resize(static_cast<size_t>(want));
    window_start_ = position_;
    if (auto ok = source_.read_at(position_, window_); !ok) {
      window_.clear();
      return ok.error();
    }
  }
  const std::byte* at = window_.data() + (position_ - window_start_);
  position_ += bytes;
  return at;
}

Result<void> GgufCursor::string(std::string& out, uint64_t limit) {
  auto length = number<uint64_t>();
  if (!length) return length.error();
  if (*length > limit) {
    return corrupt(where() + " claims " + std::to_string(*length) + " bytes, more than the " + std::to_string(limit) +
                   " allowed");
  }
  auto at = take(static_cast<size_t>(*length));
  if (!at) return at.error();
  out.assign(reinterpret_cast<const char*>(*at), static_cast<size_t>(*length));
  return {};
}

std::string GgufCursor::where() const {
  switch (place_) {
    case Place::kPreamble:
      break;
    case Place::kKey:
      return "the name of metadata entry " + std::to_string(index_ + 1);
    case Place::kValue:
      return "the value of metadata key " + quote_for_message(key_);
    case Place::kTensor:
      return "the directory entry of tensor " + std::to_string(index_ + 1);
  }
  return "the file header";
}

Error GgufCursor::corrupt(const std::string& what) const {
  return {BANTER_ERROR_CORRUPT,
          file() + " is damaged or was written by a faulty tool: " + what + "; download or convert the model again."};
}

Error GgufCursor::truncated(const std::string& what, uint64_t end) const {
  return {BANTER_ERROR_FILE_TRUNCATED, file() + " is truncated: " + what + " needs at least " + std::to_string(end) +
                                           " bytes but the file has " + std::to_string(size_) +
                                           "; download or copy it again."};
}

std::string quote_for_message(std::string_view text) {
  constexpr size_t kLongest = 80;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out + (text.size() > kLongest ? "…'" : "'");
}

}  // namespace banter::formats
