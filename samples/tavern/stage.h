// The stage of the tavern: several characters stream at once, one is printed at a time, the others wait their turn.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "banter/banter.h"

/** One reply on its way to the screen. */
struct Line {
  banter_request_id request = 0;
  size_t speaker = 0;
  std::string question;
  std::string pending;           // streamed but not printed yet
  uint32_t pieces = 0;           // TEXT events so far
  uint32_t interrupt_after = 0;  // the player cuts in after so many pieces; 0: lets the character finish
  bool interrupted = false;
  bool begun = false, ended = false, failed = false;
  std::string note;  // figures, or what went wrong
};

/** Characters, their running replies, and what is printed now. Used by the game thread only. */
class Stage {
 public:
  Stage(banter_engine* engine, banter_model* model) : engine_(engine), model_(model) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /** Creates a character; false: the reason was printed. */
  bool add(const std::string& name, const std::string& persona);
  size_t size() const { return names_.size(); }
  const std::string& name(size_t speaker) const { return names_[speaker]; }
  /** Asks a character; the reply appears when its turn on the screen comes. */
  bool ask(size_t speaker, const std::string& question, uint32_t max_tokens, uint32_t interrupt_after = 0);
  /** One frame: takes events, prints what is due. */
  void frame();
  bool idle() const { return lines_.empty(); }
  bool failed() const { return failed_; }
  /** Cuts off the reply that is being printed. */
  void interrupt();

 private:
  void handle(const banter_event& event);
  void print();

  banter_engine* engine_;
  banter_model* model_;
  std::vector<std::string> names_;
  std::vector<banter_npc*> npcs_;
  std::deque<Line> lines_;  // the front one is on the screen
  bool failed_ = false;
};
