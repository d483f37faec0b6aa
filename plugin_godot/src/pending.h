// What `await` waits for, and signals that are collected first and emitted when nothing of ours is in the middle of its work.
#pragma once

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

/** Signals to be emitted. Handlers of signals may free anything of ours, so nothing of ours may be in use while they run. */
class Emissions {
 public:
  template <class... Arguments>
  void add(ObjectId target, const char* signal, const Arguments&... arguments) {
    list_.push_back({target, Variant(), signal, {Variant(arguments)...}});
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
  };
  std::vector<Emission> list_;
};

}  // namespace banter::godot
