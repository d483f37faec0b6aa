// A card that fails in the middle of its work: the processor takes over, and the game notices only that it took a while.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>

#include "engine/plugin_fixture.h"

namespace banter::test {
namespace {

/** A model read through callbacks. From the second time on that it is opened, reading waits until let_through(). */
class GatedSource {
 public:
  explicit GatedSource(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  banter_io io() {
    banter_io io{};
    io.struct_size = sizeof io;
    io.open = [](const char*, void** file, void* self) { return static_cast<GatedSource*>(self)->open(file); };
    io.size = [](void*, void* self) -> uint64_t { return static_cast<GatedSource*>(self)->bytes_.size(); };
    io.read_at = [](void*, uint64_t offset, void* to, size_t bytes, void* self) -> banter_result {
      std::memcpy(to, static_cast<GatedSource*>(self)->bytes_.data() + offset, bytes);
      return BANTER_OK;
    };
    io.close = [](void*, void* self) { --static_cast<GatedSource*>(self)->open_files; };
    io.user_data = this;
    return io;
  }
  void let_through() {
    const std::lock_guard lock(mutex_);
    may_pass_ = true;
    changed_.notify_all();
  }
  bool is_waiting() {
    const std::lock_guard lock(mutex_);
    return opened_ > 1;
  }
  std::atomic<int> open_files{0};

 private:
  banter_result open(void** file) {
    std::unique_lock lock(mutex_);
    *file = this;
    ++open_files;
    if (++opened_ > 1) changed_.wait(lock, [&] { return may_pass_; });
    return BANTER_OK;
  }
  const std::vector<std::byte>& bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int opened_ = 0;
  bool may_pass_ = false;
};

class DeviceLoss : public PluginTest {
 protected:
  static constexpr uint32_t kTokens = 24;

  void SetUp() override {
    PluginTest::SetUp();
    // Other builds' tests may run at the same time.
    path_ = ::testing::TempDir() + "banter_device_loss_" + std::to_string(getpid()) + ".gguf";
    write(bytes_);
  }
  void TearDown() override {
    std::remove(path_.c_str());
    PluginTest::TearDown();
  }
  void write(const std::vector<std::byte>& bytes) const {
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.flush());
  }
  /** An engine whose card fails as told, with the model loaded from its file. */
  std::unique_ptr<Host> spoiled(const char* faults,
                                const std::function<void(banter_engine_config&)>& change = nullptr) {
    spoil(faults);
    auto made = host(BANTER_BACKEND_AUTO, kPlugin, change);
    model_ = from_file(*made);
    EXPECT_EQ(std::string(info().backend).rfind("test/", 0), 0u) << info().backend;
    return made;
  }
  banter_model* from_file(Host& host, const std::function<void(banter_model_config&)>& change = nullptr) const {
    return host.load(bytes_, [&](banter_model_config& c) {
      c.memory = nullptr;
      c.memory_bytes = 0;
      c.path = path_.data();
      c.path_len = path_.size();
      if (change) change(c);
    });
  }
  /** The same with the model behind a gate. */
  std::unique_ptr<Host> gated(const char* faults, GatedSource& source) {
    spoil(faults);
    auto made = host(BANTER_BACKEND_AUTO);
    const banter_io io = source.io();
    model_ = from_file(*made, [&](banter_model_config& c) {
      c.io = &io;
      c.flags = BANTER_MODEL_SOURCE_STAYS;
    });
    return made;
  }
  static Ask ask(uint32_t tokens = kTokens) { return Ask(tokens, kGoOn | BANTER_REQUEST_REPORT_PROMPT); }

  /** The reply is whole: begun with the card's numbers, and from some token on exactly what the processor continues them
   *  with. */
  void expect_continued(const Outcome& reply, size_t first_by_processor, size_t last_by_processor) {
    ASSERT_EQ(reply.kind, BANTER_EVENT_DONE) << reply.message;
    EXPECT_EQ(reply.terminals, 1);
    EXPECT_EQ(reply.reason, BANTER_FINISH_LENGTH);
    ASSERT_EQ(reply.tokens.size(), kTokens);
    EXPECT_EQ(reply.statistics.generated_tokens, kTokens);
    const std::vector<int32_t> by_card = continued(BANTER_BACKEND_REFERENCE, reply, 0);
    for (size_t from = first_by_processor; from <= last_by_processor; ++from) {
      const auto middle = static_cast<std::ptrdiff_t>(from);
      if (!std::equal(reply.tokens.begin(), reply.tokens.begin() + middle, by_card.begin())) continue;
      const std::vector<int32_t> rest(reply.tokens.begin() + middle, reply.tokens.end());
      if (continued(BANTER_BACKEND_CPU, reply, from) == rest) return;
    }
    FAIL() << "no token between " << first_by_processor << " and " << last_by_processor
           << " from which the processor went on";
  }
  /** What a backend says behind the prompt and the reply's first `count` tokens. */
  std::vector<int32_t> continued(banter_backend backend, const Outcome& reply, size_t count) {
    std::unique_ptr<Host>& other = others_[backend];
    if (other == nullptr) {
      other = host(backend);
      other_models_[backend] = other->load(bytes_);
    }
    std::vector<int32_t> tokens = reply.prompt;
    tokens.insert(tokens.end(), reply.tokens.begin(), reply.tokens.begin() + static_cast<std::ptrdiff_t>(count));
    banter_request_id request = 0;
    Ask greedy(kTokens - static_cast<uint32_t>(count), kGoOn);
    EXPECT_EQ(
        banter_model_complete_tokens(other_models_[backend], tokens.data(), tokens.size(), greedy.get(), &request),
        BANTER_OK);
    return other->finish(request).tokens;
  }
  void expect_on_processor(banter_model* model, const std::string& why) {
    const banter_model_info facts = info_of(model);
    EXPECT_EQ(std::string(facts.backend).rfind("cpu/", 0), 0u) << facts.backend;
    EXPECT_NE(std::string(facts.backend_reason).find(why), std::string::npos) << facts.backend_reason;
    EXPECT_NE(log().find("warning: CUDA is not used any more: "), std::string::npos) << log();
  }

  std::string path_;

 private:
  std::map<banter_backend, std::unique_ptr<Host>> others_;
  std::map<banter_backend, banter_model*> other_models_;
};

TEST_F(DeviceLoss, InTheFirstStepAndInDecode) {
  for (const size_t step : {1u, 2u, 9u, kTokens}) {
    SCOPED_TRACE(step);
    clear_log();
    const auto told = spoiled(("step=" + std::to_string(step)).c_str());
    const Outcome reply = told->finish(complete(model_, "Once upon a time", ask()));
    expect_continued(reply, step - 1, step - 1);
    expect_on_processor(model_, "failed at step " + std::to_string(step));
    EXPECT_EQ(told->statistics().models_loaded, 1u);
    EXPECT_EQ(told->statistics().requests_active, 0u);
  }
}

TEST_F(DeviceLoss, InTheMiddleOfAPrompt) {
  const auto told = spoiled("step=3", [](banter_engine_config& c) { c.step_tokens = 16; });
  const Outcome reply = told->finish(complete(model_, std::string(100, 'x'), ask()));
  expect_continued(reply, 0, 0);
  EXPECT_EQ(reply.prompt.size(), reply.statistics.prompt_tokens);
  EXPECT_GE(reply.statistics.recomputed_tokens, 32u);
}

TEST_F(DeviceLoss, WithManyCharacters) {
  for (const char* const faults : {"step=3", "step=12", "step=30"}) {
    SCOPED_TRACE(faults);
    const auto told = spoiled(faults);
    std::vector<banter_request_id> requests;
    std::vector<banter_npc*> npcs;
    for (int i = 0; i < 4; ++i) {
      npcs.push_back(told->npc(model_, ("You are number " + std::to_string(i) + ".").c_str()));
      for (int turn = 0; turn < 2; ++turn) requests.push_back(say(npcs.back(), "Hello", ask()));
    }
    requests.push_back(complete(model_, "Once", ask()));
    for (const banter_request_id request : requests) expect_continued(told->finish(request), 0, kTokens);
    for (size_t i = 0; i < npcs.size(); ++i) {
      // The conversation has both turns, whoever computed them.
      const Outcome third = told->finish(say(npcs[i], "And?", ask()));
      const Outcome& second = told->outcomes[requests[2 * i + 1]];
      EXPECT_GT(third.prompt.size(), second.prompt.size() + kTokens);
      ASSERT_GT(third.prompt.size(), second.prompt.size());
      EXPECT_TRUE(std::equal(second.prompt.begin(), second.prompt.end(), third.prompt.begin()));
      expect_continued(third, 0, kTokens);
    }
    expect_on_processor(model_, "failed at step");
  }
}

TEST_F(DeviceLoss, OfTwoModelsAndOfADraftModel) {
  // Whether guesses are worth their cost is measured, and with these models they hardly are: so a few attempts to see some.
  uint32_t drafted_by_processor = 0;
  for (int attempt = 0; attempt < 8 && drafted_by_processor == 0; ++attempt) {
    spoil("step=6");
    const auto told = host(BANTER_BACKEND_AUTO);
    banter_model* const other = from_file(*told);
    banter_model* const draft = from_file(*told);
    banter_model* const model = from_file(*told, [&](banter_model_config& c) {
      c.speculation = BANTER_SPECULATION_DRAFT;
      c.draft_model = draft;
    });
    std::vector<banter_request_id> requests;
    for (banter_model* const each : {other, model, other, model}) {
      requests.push_back(complete(each, "Once upon a time", ask()));
      requests.push_back(say(told->npc(each), "Hello", ask()));
    }
    for (const banter_request_id request : requests) expect_continued(told->finish(request), 0, kTokens);
    for (banter_model* const each : {other, draft, model}) expect_on_processor(each, "failed at step 6");
    // Guessing goes on when the draft model is there again.
    const Outcome later = told->finish(complete(model, "Twice", ask()));
    expect_continued(later, 0, 0);
    drafted_by_processor = later.statistics.drafted_tokens;
  }
  EXPECT_GT(drafted_by_processor, 0u);
}

TEST_F(DeviceLoss, RequestsMayBeCancelledOrBeginOrExpireMeanwhile) {
  GatedSource source(bytes_);
  const auto told = gated("step=6", source);
  banter_npc* const talks = told->npc(model_);
  banter_npc* const goes = told->npc(model_, "You are Otto.");
  banter_npc* const silent = told->npc(model_, "You are Ida.");
  const auto cancelled = say(talks, "Hello", ask()), going = say(goes, "Hello", ask());
  const auto stays = complete(model_, "Once", ask());
  ASSERT_TRUE(told->pump_until([&] { return source.is_waiting(); }));
  // Comes while there is no backend: waits, as while a model loads for the first time.
  const auto second = say(talks, "And?", ask()), fresh = say(silent, "Hello", ask());
  banter_npc_add_turn(silent, BANTER_ROLE_USER, "Unheard.", BANTER_ZERO_TERMINATED);
  const auto unheard = say(silent, "Hello again", ask());
  EXPECT_TRUE(banter_cancel(told->engine, cancelled) == BANTER_OK && banter_cancel(told->engine, unheard) == BANTER_OK);
  EXPECT_EQ(told->finish(cancelled).kind, BANTER_EVENT_CANCELLED);
  EXPECT_EQ(told->finish(unheard).kind, BANTER_EVENT_CANCELLED);
  banter_npc_destroy(goes);
  EXPECT_EQ(told->finish(going).kind, BANTER_EVENT_CANCELLED);
  EXPECT_EQ(told->outcomes[stays].kind, 0);
  EXPECT_EQ(told->outcomes[second].kind, 0);
  EXPECT_EQ(told->statistics().weight_bytes, 0u);
  info();
  size_t count = 0;
  EXPECT_EQ(banter_model_tokenize(model_, "Hello", 5, nullptr, 0, &count), BANTER_OK);
  source.let_through();
  expect_continued(told->finish(stays), 0, kTokens);
  expect_continued(told->finish(fresh), 0, 0);
  const Outcome next = told->finish(second);
  expect_continued(next, 0, 0);
  // What was said before the cancel stays said.
  const Outcome& first = told->outcomes[cancelled];
  EXPECT_FALSE(first.text.empty());
  EXPECT_GT(next.prompt.size(), first.prompt.size() + first.tokens.size());
  for (const auto& [request, outcome] : told->outcomes) EXPECT_EQ(outcome.terminals, 1) << request;
  EXPECT_EQ(source.open_files, 0);
}

TEST_F(DeviceLoss, DeadlinesHoldMeanwhile) {
  GatedSource source(bytes_);
  const auto told = gated("step=1", source);
  Ask soon = ask();
  soon.config.deadline_ms = 1500;
  const auto late = complete(model_, "Once", soon), patient = complete(model_, "Twice", ask());
  ASSERT_TRUE(told->pump_until([&] { return source.is_waiting(); }));
  EXPECT_EQ(told->finish(late).code, BANTER_ERROR_DEADLINE);
  EXPECT_EQ(told->outcomes[patient].kind, 0);
  source.let_through();
  expect_continued(told->finish(patient), 0, 0);
}

TEST_F(DeviceLoss, TheModelMayBeReleasedMeanwhile) {
  GatedSource source(bytes_);
  const auto told = gated("step=4", source);
  banter_npc* const npc = told->npc(model_);
  const auto first = say(npc, "Hello", ask()), second = say(npc, "And?", ask());
  const auto third = complete(model_, "Once", ask());
  ASSERT_TRUE(told->pump_until([&] { return source.is_waiting(); }));
  banter_model_release(model_);
  for (const auto request : {first, second, third}) EXPECT_EQ(told->finish(request).kind, BANTER_EVENT_CANCELLED);
  const auto late = say(npc, "Hello?", ask());
  EXPECT_EQ(told->finish(late).code, BANTER_ERROR_STATE);
  source.let_through();
  // The engine goes on: another model loads and talks.
  spoil("");
  model_ = from_file(*told);
  EXPECT_FALSE(greeting(*told).empty());
  for (const auto& [request, outcome] : told->outcomes) EXPECT_EQ(outcome.terminals, 1) << request;
}

TEST_F(DeviceLoss, AModelThatWaitsForItsTurnMayBeReleased) {
  GatedSource source(bytes_);
  const auto told = gated("step=4", source);
  banter_model* const first = model_;
  banter_model* const second = from_file(*told);
  const auto one = complete(first, "Once", ask());
  ASSERT_TRUE(told->pump_until([&] { return source.is_waiting(); }));
  const auto two = complete(second, "Once", ask());
  ASSERT_TRUE(told->pump_until([&] {
    return log().find("failed at step 4", log().rfind("warning")) != std::string::npos &&
           told->statistics().models_loaded == 0;
  }));
  banter_model_release(second);
  EXPECT_EQ(told->finish(two).kind, BANTER_EVENT_CANCELLED);
  source.let_through();
  expect_continued(told->finish(one), 3, 3);
}

TEST_F(DeviceLoss, TheEngineMayBeDestroyedMeanwhile) {
  GatedSource source(bytes_);
  auto told = gated("step=4", source);
  banter_npc* const npc = told->npc(model_);
  (void)say(npc, "Hello", ask());
  (void)say(npc, "And?", ask());
  (void)complete(model_, "Once", ask());
  ASSERT_TRUE(told->pump_until([&] { return source.is_waiting(); }));
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    source.let_through();
  });
  told.reset();
  EXPECT_EQ(source.open_files, 0);
  opens.join();
}

TEST_F(DeviceLoss, WithoutAnotherCopyOfTheModelAllRequestsEndWithTheReason) {
  for (const bool replaced : {false, true}) {
    SCOPED_TRACE(replaced);
    write(bytes_);
    const auto told = spoiled("step=5");
    if (replaced) {
      TinyModelOptions options;
      options.seed = 2;
      write(tiny_model(options));
    } else {
      ASSERT_EQ(std::remove(path_.c_str()), 0);
    }
    std::vector<banter_request_id> requests;
    banter_npc* const npc = told->npc(model_);
    for (int i = 0; i < 3; ++i) requests.push_back(say(npc, "Hello", ask()));
    requests.push_back(complete(model_, "Once", ask()));
    for (const banter_request_id request : requests) {
      const Outcome outcome = told->finish(request);
      EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
      EXPECT_EQ(outcome.code, BANTER_ERROR_BACKEND);
      EXPECT_NE(outcome.message.find("failed at step 5"), std::string::npos) << outcome.message;
      EXPECT_NE(outcome.message.find(replaced ? "another model by now" : path_), std::string::npos) << outcome.message;
    }
    const Outcome late = told->finish(say(npc, "Hello?", ask()));
    EXPECT_EQ(late.code, BANTER_ERROR_STATE);
    EXPECT_NE(late.message.find("failed at step 5"), std::string::npos) << late.message;
    EXPECT_EQ(told->finish(complete(model_, "Once", ask())).code, BANTER_ERROR_STATE);
    for (const auto& [request, outcome] : told->outcomes) EXPECT_EQ(outcome.terminals, 1) << request;
    banter_model_info facts{};
    facts.struct_size = sizeof facts;
    EXPECT_EQ(banter_model_get_info(model_, &facts), BANTER_ERROR_STATE);
    banter_model_release(model_);
  }
}

TEST_F(DeviceLoss, MemoryIsReadAgainOnlyWhereTheGameSaysThatItStays) {
  spoil("step=5");
  for (const bool stays : {false, true}) {
    const auto told = host(BANTER_BACKEND_AUTO);
    model_ = told->load(bytes_, [&](banter_model_config& c) {
      if (stays) c.flags = BANTER_MODEL_SOURCE_STAYS;
    });
    const Outcome reply = told->finish(complete(model_, "Once upon a time", ask()));
    if (stays) {
      expect_continued(reply, 4, 4);
    } else {
      EXPECT_EQ(reply.kind, BANTER_EVENT_FAILED);
      EXPECT_EQ(reply.code, BANTER_ERROR_BACKEND);
      EXPECT_EQ(reply.terminals, 1);
    }
  }
}

TEST_F(DeviceLoss, OtherThreadsMayAskForFactsAllTheTime) {
  const auto told = spoiled("step=8");
  const banter_model_info before = info();
  const std::string backend = before.backend, reason = before.backend_reason;
  std::atomic<bool> stop{false};
  std::set<std::string> seen;
  std::thread asks([&] {
    while (!stop) {
      const banter_model_info facts = info_of(model_);
      seen.insert(facts.backend);
      int32_t tokens[8];
      size_t count = 0;
      EXPECT_EQ(banter_model_tokenize(model_, "Hello", 5, tokens, 8, &count), BANTER_OK);
    }
  });
  const auto request = say(told->npc(model_), "Hello", ask());
  expect_continued(told->finish(request), 7, 7);
  expect_on_processor(model_, "failed at step 8");
  stop = true;
  asks.join();
  EXPECT_LE(seen.size(), 2u);
  // What was told before stays as long as the model.
  EXPECT_EQ(before.backend, backend);
  EXPECT_EQ(before.backend_reason, reason);
}

TEST_F(DeviceLoss, SummariesGoOn) {
  // Turns go after about five replies of 24 steps; the summary of them takes up to 200 steps, in which no reply runs.
  const auto told = spoiled("step=200");
  banter_npc* const npc = told->npc(model_, "You are Mira.", [](banter_npc_config& c) {
    c.context_policy = BANTER_CONTEXT_SUMMARIZE;
    c.context_tokens = 700;
  });
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(say(npc, "Question " + std::to_string(i) + std::string(60, '.'), Ask(kTokens, kGoOn)));
  }
  uint32_t dropped = 0;
  for (const auto request : requests) {
    const Outcome reply = told->finish(request);
    EXPECT_EQ(reply.kind, BANTER_EVENT_DONE) << reply.message;
    dropped += reply.dropped_turns;
  }
  EXPECT_GT(dropped, 0u);
  expect_on_processor(model_, "failed at step 200");
}

TEST_F(DeviceLoss, AConversationIsSavedWithoutItsPagesAndGoesOn) {
  const auto told = spoiled("step=40");
  banter_npc* const npc = told->npc(model_);
  EXPECT_EQ(told->finish(say(npc, "Hello", Ask(12, kGoOn))).kind, BANTER_EVENT_DONE);
  const Outcome whole = told->finish(save(npc, BANTER_SAVE_KV_PAGES));
  ASSERT_EQ(whole.kind, BANTER_EVENT_SNAPSHOT) << whole.message;
  EXPECT_GT(whole.statistics.cached_tokens, 0u);
  spoil("copies");
  const Outcome saved = told->finish(save(npc, BANTER_SAVE_KV_PAGES));
  ASSERT_EQ(saved.kind, BANTER_EVENT_SNAPSHOT) << saved.message;
  EXPECT_EQ(saved.statistics.cached_tokens, 0u);
  EXPECT_LT(saved.bytes.size(), whole.bytes.size());
  EXPECT_EQ(saved.bytes.size(), told->finish(save(npc)).bytes.size());
  // After the loss the card's pages are of no use, the words are; pages of the processor's are saved again.
  EXPECT_EQ(told->finish(say(npc, "And?", Ask(40, kGoOn))).kind, BANTER_EVENT_DONE);
  expect_on_processor(model_, "failed at step 40");
  const Outcome loaded = told->finish(test::load(npc, whole.bytes));
  EXPECT_EQ(loaded.kind, BANTER_EVENT_DONE);
  EXPECT_NE(loaded.message.find("another backend computed them"), std::string::npos) << loaded.message;
  EXPECT_EQ(told->finish(say(npc, "And?", Ask(12, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_GT(told->finish(save(npc, BANTER_SAVE_KV_PAGES)).statistics.cached_tokens, 0u);
}

}  // namespace
}  // namespace banter::test
