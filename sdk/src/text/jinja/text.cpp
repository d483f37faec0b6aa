#include "text/jinja/text.h"

#include <algorithm>

namespace banter::text::jinja {

Text::Text(std::string bytes, bool trusted_start, std::vector<size_t> flips, bool markup, Budget* budget)
    : bytes_(std::move(bytes)),
      flips_(std::move(flips)),
      length_(count_code_points(bytes_)),
      budget_(budget),
      trusted_start_(trusted_start),
      markup_(markup) {
  if (budget_ != nullptr) budget_->reserve(bytes_.size() + flips_.size() * sizeof(size_t) + sizeof(Text));
}

Text::~Text() {
  if (budget_ != nullptr) budget_->release(bytes_.size() + flips_.size() * sizeof(size_t) + sizeof(Text));
}

bool Text::trusted_at(size_t offset) const {
  const auto passed = std::upper_bound(flips_.begin(), flips_.end(), offset) - flips_.begin();
  return trusted_start_ == ((passed & 1) == 0);
}

size_t Text::offset_of(size_t code_point) const {
  if (ascii()) return std::min(code_point, bytes_.size());
  size_t offset = 0;
  for (; offset < bytes_.size(); ++offset) {
    if ((static_cast<unsigned char>(bytes_[offset]) & 0xC0) == 0x80) continue;
    if (code_point-- == 0) break;
  }
  return offset;
}

bool TextBuilder::grow(size_t bytes) {
  if (!budget_->charge(1 + bytes / 32)) return false;
  if (!budget_->fits_text(bytes_.size() + bytes) || !budget_->reserve(bytes)) return false;
  reserved_ += bytes;
  return true;
}

void TextBuilder::append(std::string_view bytes, bool trusted) {
  if (bytes.empty() || !grow(bytes.size())) return;
  if (bytes_.empty()) {
    trusted_start_ = trusted_now_ = trusted;
  } else if (trusted != trusted_now_) {
    if (!grow(sizeof(size_t))) return;
    flips_.push_back(bytes_.size());
    trusted_now_ = trusted;
  }
  bytes_.append(bytes);
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  end = std::min(end, text.size());
  if (begin >= end) return;
  auto flip = std::upper_bound(text.flips().begin(), text.flips().end(), begin);
  bool trusted = text.trusted_start() == (((flip - text.flips().begin()) & 1) == 0);
  while (begin < end) {
    const size_t stop = flip == text.flips().end() ? end : std::min(end, *flip++);
    append(text.bytes().substr(begin, stop - begin), trusted);
    begin = stop;
    trusted = !trusted;
  }
}

void TextBuilder::append_code_point(char32_t code_point, bool trusted) {
  std::string bytes;
  append_utf8(&bytes, code_point);
  append(bytes, trusted);
}

void TextBuilder::repeat(const Text& unit, uint64_t count) {
  if (unit.empty() || count == 0) return;
  if (count > kEnd / unit.size()) {
    budget_->fits_text(kEnd);
    return;
  }
  // Asked for the whole at once, so that an absurd count fails before any work.
  if (!budget_->fits_text(bytes_.size() + unit.size() * count) || !budget_->fits(unit.size() * count)) return;
  for (uint64_t i = 0; i < count && budget_->ok(); ++i) append(unit);
}

void TextBuilder::repeat(char byte, uint64_t count, bool trusted) {
  if (count == 0 || !budget_->fits_text(bytes_.size()) || count > kEnd / 2) {
    if (count > kEnd / 2) budget_->fits_text(kEnd);
    return;
  }
  if (!budget_->fits_text(bytes_.size() + count) || !budget_->fits(count)) return;
  append(std::string(count, byte), trusted);
}

TextPtr TextBuilder::finish(bool markup) {
  auto text = std::make_shared<const Text>(std::move(bytes_), trusted_start_, std::move(flips_), markup, budget_);
  bytes_.clear();
  flips_.clear();
  budget_->release(reserved_);
  reserved_ = 0;
  return text;
}

void TextBuilder::take(std::string* bytes, bool* trusted_start, std::vector<size_t>* flips) {
  *bytes = std::move(bytes_);
  *trusted_start = trusted_start_;
  *flips = std::move(flips_);
  bytes_.clear();
  flips_.clear();
}

TextPtr slice(Budget& budget, const TextPtr& text, size_t begin, size_t end) {
  if (begin == 0 && end >= text->size()) return text;
  TextBuilder builder(budget);
  builder.append(*text, begin, end);
  return builder.finish(text->markup());
}

}  // namespace banter::text::jinja
