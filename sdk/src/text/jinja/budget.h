// What a render may spend: work, live memory, size of one text. Hostile templates end in an error, not in a hang.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banter::text::jinja {

/** Nested expressions and statements in source text, levels. */
inline constexpr int kMaxParseDepth = 96;
/** Nested evaluations (macro calls included), levels; about 0.5 KiB of stack each. */
inline constexpr int kMaxEvalDepth = 400;
/** Nested containers that may be printed, compared, hashed or converted, levels. */
inline constexpr int kMaxValueDepth = 100;
/** Most numbers a range() may have, as in Jinja2's sandbox. */
inline constexpr int64_t kMaxRange = 100000;

/** Counts what one render spends. Once a limit is passed it stays exhausted. Not thread-safe: one render, one budget. */
class Budget {
 public:
  enum class Fault : uint8_t { kNone, kWork, kMemory, kTextSize };

  /** @param work  units: about one per evaluated node, container element, or 32 bytes copied
   *  @param live  bytes of strings and containers alive at once
   *  @param text  bytes of one string, the rendered conversation included */
  Budget(uint64_t work, size_t live, size_t text) : work_left_(work), live_limit_(live), text_limit_(text) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  bool ok() const { return fault_ == Fault::kNone; }
  Fault fault() const { return fault_; }

  bool charge(uint64_t work) {
    if (work > work_left_) {
      work_left_ = 0;
      set_fault(Fault::kWork);
      return false;
    }
    work_left_ -= work;
    return ok();
  }

  /** Counts bytes as alive, past the limit too, so that every reserve can be released. */
  bool reserve(size_t bytes) {
    live_ += bytes;
    if (live_ > live_limit_) set_fault(Fault::kMemory);
    return ok();
  }
  /** Whether `bytes` more would fit; sets the fault where not. Asked before a large allocation. */
  bool fits(size_t bytes) {
    if (bytes > live_limit_ || live_ > live_limit_ - bytes) set_fault(Fault::kMemory);
    return ok();
  }
  void release(size_t bytes) { live_ -= bytes; }

  bool fits_text(size_t bytes) {
    if (bytes > text_limit_) set_fault(Fault::kTextSize);
    return ok();
  }

  const char* fault_message() const {
    switch (fault_) {
      case Fault::kWork:
        return "the template needs too many steps";
      case Fault::kMemory:
        return "the template needs too much memory";
      case Fault::kTextSize:
        return "the template makes a text that is too long";
      case Fault::kNone:
        break;
    }
    return "";
  }

 private:
  void set_fault(Fault fault) {
    if (fault_ == Fault::kNone) fault_ = fault;
  }

  uint64_t work_left_;
  size_t live_ = 0;
  size_t live_limit_;
  size_t text_limit_;
  Fault fault_ = Fault::kNone;
};

}  // namespace banter::text::jinja
