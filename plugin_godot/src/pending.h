// What `await` waits for, and signals that are collected first and emitted when nothing of ours is in the middle of its work.
#pragma once

#include <memory>

#include "binding/class_builder.h"

namespace banter::godot {

/** The object behind an awaitable result: emits `completed` with the result, once, and is gone.
 *
 *  A Signal does not keep its object alive, so whoever owes the result holds a reference until then. */
class BanterPending final : public Instance {
 public:
  explicit BanterPending(Object object) : Instance(object) {}
  static void register_class(Registry& registry);

  /** A new one; the Variant holds the reference. */
  static Variant make() { return create<BanterPending>(); }
  static Signal completed(const Variant& pending) { return Signal(pending.to_object(), StringName("completed")); }
  /** Completes it at the end of the frame, whatever is freed until then. */
  static void complete_later(const Variant& pending, const Variant& result);

 private:
  void complete_now();

  Variant self_, result_;
};

/** Whether nobody wants to hear any more of a request; shared with those of its signals that are on their way. */
using Silence = std::shared_ptr<bool>;

/** Signals to be emitted. Handlers of signals may free anything of ours, so nothing of ours may be in use while they run. */
class Emissions {
 public:
  template <class... Arguments>
  void add(ObjectId target, const char* signal, const Arguments&... arguments) {
    list_.push_back({target, Variant(), signal, {Variant(arguments)...}, nullptr});
  }
  /** One that is left out when its request is silent by then: a handler of one before it may have seen to that. */
  template <class... Arguments>
  void add_unless(const Silence& silence, ObjectId target, const char* signal, const Arguments&... arguments) {
    if (!*silence) list_.push_back({target, Variant(), signal, {Variant(arguments)...}, silence});
  }
  /** The completion of an awaitable; nothing where `pending` is null. */
  void complete(const Variant& pending, const Variant& result);

  bool empty() const { return list_.empty(); }
  /** Emits all, in order; those of objects that were freed meanwhile are left out. */
  void run();
  /** Has the engine emit all at the end of the frame. */
  void run_later();

 private:
  struct Emission {
    ObjectId target;
    Variant pending;
    const char* signal;
    std::vector<Variant> arguments;
    Silence silence;  // nullptr: it is told in any case
  };
  std::vector<Emission> list_;
};

}  // namespace banter::godot
