// banter.hpp compiles as C++17 without exceptions and type information, and does what it says.
#include <utility>

#include "banter/banter.hpp"

int banter_wrapper_works() {
  static_assert(noexcept(banter::Engine().create()));
  banter::Engine engine;
  if (engine) return 1;
  if (engine.create() != BANTER_OK || !engine) return 2;
  banter::Engine moved = std::move(engine);
  if (engine || !moved) return 3;
  moved = std::move(moved);
  if (!moved) return 4;
  banter::Model model;
  banter_request_id load = 0;
  if (model.load(moved, "/absent/model.gguf", &load) != BANTER_OK || load == 0) return 5;
  banter::Npc npc;
  if (npc.create(model, "A persona") != BANTER_OK) return 6;
  banter_request_id reply = 0;
  if (npc.say("Hello", reply) != BANTER_OK || npc.add_turn(BANTER_ROLE_USER, "x") != BANTER_OK) return 7;
  if (npc.reset_turns() != BANTER_OK) return 8;
  banter_request_id snapshot = 0;
  const banter_load_config to_load = banter::load_config();
  if (npc.save(snapshot) != BANTER_OK || npc.load("x", 1, snapshot, &to_load) != BANTER_OK) return 17;
  banter::Npc profiled;
  if (profiled.create_from_profile(model, "x", 1) != BANTER_ERROR_CORRUPT || profiled) return 18;
  int terminals = 0;
  while (terminals < 4) {
    if (moved.wait(20000) != BANTER_OK) return 9;
    const banter_result code = moved.dispatch([&](const banter_event& event) {
      if (banter::is_terminal(event) && banter::text_of(event).size() > 5) ++terminals;
    });
    if (code != BANTER_OK) return 10;
  }
  if (moved.cancel(reply) != BANTER_ERROR_NOT_FOUND) return 11;
  banter_event events[4];
  if (!moved.poll(events).empty()) return 12;
  if (moved.statistics().requests_finished != 4) return 13;
  if (moved.set_frame_budget(2) != BANTER_OK || moved.begin_frame() != BANTER_OK ||
      moved.set_cpu_share(0.5f) != BANTER_OK || moved.set_paused(false) != BANTER_OK ||
      moved.set_budget(0) != BANTER_OK) {
    return 29;
  }
  char line[4096];
  if (moved.metrics_json(line).substr(0, 2) != "{\"") return 27;
  if (moved.trace_start(16) != BANTER_OK || moved.trace_stop(nullptr, nullptr) != BANTER_OK) return 28;
  banter_model_info info;
  if (model.info(info) != BANTER_ERROR_STATE) return 14;
  banter_model_needs needs;
  if (banter::Model::measure(banter::model_config(), needs) != BANTER_ERROR_INVALID_ARGUMENT) return 30;
  if (model.complete("x", reply) != BANTER_OK) return 15;
  return banter::request_config().priority == BANTER_PRIORITY_DEFAULT && banter::sampling_config().top_k == 40 ? 0 : 16;
}
