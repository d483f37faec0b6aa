// The part of the engine thread that loads and releases models.
#include <algorithm>
#include <cmath>

#include "engine/engine_thread.h"
#include "engine/guard.h"

namespace banter::engine {
namespace {

/** As it was loaded. */
uint64_t pool_bytes(const ModelObject& model) {
  return model.facts.load(std::memory_order_relaxed)->info.kv_pool_bytes;
}

}  // namespace

void EngineThread::track(ModelObject& model) {
  model.previous_tracked = nullptr;
  model.next_tracked = models_;
  if (models_ != nullptr) models_->previous_tracked = &model;
  models_ = &model;

  const uint32_t slot_index = model.load_slot;
  accept(channels_.slots[slot_index]);
  const Result<void> placed = guarded([&]() -> Result<void> {
    auto generation = receive(channels_, slot_index);
    generation->arrival = ++arrivals_;
    generations_[slot_index] = std::move(generation);
    load_queue_.push_back(&model);
    return {};
  });
  if (placed) return;
  if (generations_[slot_index] != nullptr) return end_load(model, placed.error());
  refuse(slot_index, placed.error());
  model.failure = placed.error();  // its message is short: no memory needed
  model.status.store(ModelObject::kFailed, std::memory_order_release);
}

Generation* EngineThread::load_generation(ModelObject& model) {
  Generation* const generation = generations_[model.load_slot].get();
  const bool its_own = generation != nullptr && generation->kind == RequestKind::kLoad && generation->model == &model;
  return its_own && generation->terminal == 0 ? generation : nullptr;
}

void EngineThread::look_after_loads() {
  if (loading_ != nullptr) {
    ModelObject& model = *loading_;
    if (loader_.finished()) {
      loading_ = nullptr;
      end_load(model, loader_.take());
    } else {
      if (loader_.progress() > 0 && !std::exchange(made_room_, true)) make_room();
      tell_progress(model);
    }
  }
  while (loading_ == nullptr && !load_queue_.empty()) {
    ModelObject& model = *load_queue_.front();
    load_queue_.pop_front();
    start_load(model);
  }
}

void EngineThread::tell_progress(ModelObject& model) {
  const float progress = loader_.progress();
  Generation* const generation = load_generation(model);
  if (generation == nullptr || progress <= progress_told_) return;
  EventBlock* const block = channels_.events.allocate();
  if (block == nullptr) return;  // the next one tells more anyway
  block->kind = BANTER_EVENT_LOAD_PROGRESS;
  block->slot = generation->slot;
  block->request = generation->id;
  block->model = &model;
  block->npc = nullptr;
  block->user_data = model.user_data;
  block->progress = std::clamp(progress, 0.0f, 1.0f);
  progress_told_ = progress;
  channels_.events.push(block);
}

void EngineThread::start_load(ModelObject& model) {
  const EngineConfig& config = channels_.config;
  LoadSettings& settings = model.settings;
  settings.backend = model.fallback == nullptr ? config.backend : BANTER_BACKEND_CPU;
  settings.cuda = config.cuda;
  settings.log = config.log;
  settings.threads.threads = config.thread_count > 0 ? config.thread_count : default_thread_count();
  settings.threads.affinity_mask = config.affinity_mask;
  settings.threads.low_priority = config.low_priority;
  settings.step_tokens = config.step_tokens;
  settings.swap_budget_bytes = config.swap_budget_bytes;
  settings.max_sequences = static_cast<int32_t>(std::min<uint32_t>(config.max_requests, 64));
  made_room_ = false;
  settings.memory_left = memory_left();
  progress_told_ = -1;
  log(BANTER_LOG_INFO, [&] {
    return "Loading " + (model.source.path.empty() ? std::string("a model from memory") : model.source.path);
  });
  if (Result<void> started = loader_.start(model.source, settings, settings.threads); !started) {
    return end_load(model, started.error());
  }
  loading_ = &model;
  if (model.fallback != nullptr) return;  // for requests that began long ago
  Generation* const generation = load_generation(model);
  if (generation == nullptr || channels_.slots[generation->slot].cancel_requested()) return loader_.cancel();
  tell_progress(model);
}

void EngineThread::end_load(ModelObject& model, Result<std::unique_ptr<LoadedModel>> outcome) {
  Generation* const generation = load_generation(model);
  Fallback* const fallback = model.fallback.get();
  if (outcome && fallback != nullptr && (*outcome)->fingerprint != fallback->fingerprint) {
    outcome = Error{BANTER_ERROR_STATE, "What it was loaded from is another model by now."};
  }
  if (outcome && !model.is_released) {
    Result<void> ready = guarded([&]() -> Result<void> {
      if (Result<void> fits = fits_budget((*outcome)->model->weight_bytes()); !fits) return fits;
      model_ready(model, std::move(*outcome));
      return {};
    });
    if (ready) {
      if (generation != nullptr) end(*generation, BANTER_EVENT_MODEL_READY, BANTER_OK, {});
      share_budget();
      start_waiting(model);
      return;
    }
    model.runner.reset();
    outcome = ready.error();
  }
  const bool cancelled = model.is_released || (!outcome && outcome.error().code == BANTER_ERROR_CANCELLED);
  model.failure.code = cancelled ? BANTER_ERROR_CANCELLED : outcome.error().code;
  model.failure.message = sentence([&]() -> std::string {
    if (cancelled) return "its load was cancelled.";
    return fallback == nullptr ? outcome.error().message
                               : outcome.error().message + " The processor was to take over: " + fallback->reason;
  });
  model.status.store(ModelObject::kFailed, std::memory_order_release);
  if (!cancelled) channels_.config.log.write(BANTER_LOG_ERROR, model.failure.message);
  if (generation != nullptr) {
    if (cancelled) {
      end(*generation, BANTER_EVENT_CANCELLED, BANTER_OK, {});
    } else {
      end(*generation, BANTER_EVENT_FAILED, model.failure.code, sentence([&] { return model.failure.message; }));
    }
  }
  end_requests(model, BANTER_EVENT_FAILED, fallback == nullptr ? BANTER_ERROR_STATE : BANTER_ERROR_BACKEND,
               sentence([&] { return "The model is not loaded: " + model.failure.message; }));
  share_budget();
  if (model.is_released && model.references.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_reference(model);
}

void EngineThread::model_ready(ModelObject& model, std::unique_ptr<LoadedModel> loaded) {
  const model::Model& m = *loaded->model;
  auto facts = std::make_unique<ModelFacts>();
  facts->name = m.display_name();
  facts->architecture = m.hyperparameters().architecture;
  facts->backend = loaded->backend->name();
  facts->backend_reason = model.fallback == nullptr ? std::move(loaded->backend_reason) : model.fallback->reason;
  facts->warning = loaded->warning;
  banter_model_info& info = facts->info;
  info.struct_size = sizeof info;
  info.name = facts->name.c_str();
  info.architecture = facts->architecture.c_str();
  info.backend = facts->backend.c_str();
  info.context_tokens = static_cast<uint32_t>(loaded->context_tokens);
  info.vocabulary = static_cast<uint32_t>(m.hyperparameters().vocabulary);
  info.weight_bytes = m.weight_bytes();
  info.kv_pool_bytes = loaded->kv_bytes;
  info.kv_bytes_per_token = loaded->kv_bytes_per_token;
  info.has_chat_template = loaded->format->has_template() ? 1 : 0;
  info.kv_type = ops::kv_type_name(m.kv_type());
  info.backend_reason = facts->backend_reason.c_str();
  info.warning = facts->warning.c_str();
  channels_.config.log.write(BANTER_LOG_INFO,
                             facts->name + " is ready on " + facts->backend + " (" + facts->backend_reason +
                                 "): " + std::to_string(info.weight_bytes >> 20) + " MiB of weights, " +
                                 std::to_string(info.kv_pool_bytes >> 20) + " MiB for conversations of up to " +
                                 std::to_string(info.context_tokens) + " tokens.");
  if (!loaded->warning.empty()) channels_.config.log.write(BANTER_LOG_WARNING, loaded->warning);

  Figures& figures = channels_.figures;
  const uint64_t weights = info.weight_bytes, kv = info.kv_pool_bytes;
  model.all_facts.reserve(model.all_facts.size() + 1);  // the last that may fail, with the next line
  model.runner = std::make_unique<ModelRunner>(channels_, model, std::move(loaded));
  figures.weight_bytes.fetch_add(weights, std::memory_order_relaxed);
  figures.kv_bytes_total.fetch_add(kv, std::memory_order_relaxed);
  figures.models_loaded.fetch_add(1, std::memory_order_relaxed);
  // Other threads read from here on; a second load's tokenizer is the first one's equal, and they may be using that.
  if (model.fallback == nullptr) model.tokenizer = &model.runner->loaded().model->tokenizer();
  model.facts.store(model.all_facts.emplace_back(std::move(facts)).get(), std::memory_order_release);
  model.status.store(ModelObject::kReady, std::memory_order_release);
}

/** The model became ready: what waited for it begins, in the order of arrival. */
void EngineThread::start_waiting(ModelObject& model) {
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->next_tracked) {
    if (npc->model == &model && npc->state != nullptr) model.runner->remember(*npc);
  }
  if (model.fallback != nullptr) adopt_stranded(model);
  for (size_t i = 0; i < waiting_.size();) {
    Generation& generation = *waiting_[i];
    if (generation.model != &model) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    begin(generation);
  }
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->next_tracked) {
    if (npc->model != &model || npc->state == nullptr) continue;
    if (npc->state->running == nullptr && npc->state->conversation.wants_summary()) start_summary(*npc);
    advance(*npc);
  }
}

/** Ends every request of a model, loads excepted. */
void EngineThread::end_requests(ModelObject& model, banter_event_kind kind, banter_result code,
                                const std::string& message) {
  for (NpcObject* npc = npcs_; npc != nullptr; npc = npc->next_tracked) {
    if (npc->model != &model || npc->state == nullptr) continue;
    std::vector<NpcState::Item> queue = std::exchange(npc->state->queue, {});
    drop_summary(*npc);
    if (npc->state->running != nullptr) end(*npc->state->running, kind, code, sentence([&] { return message; }));
    drop_summary(*npc);  // ending that one may have begun another
    for (NpcState::Item& item : queue) {
      if (item.generation != nullptr) {
        end(*item.generation, kind, code, sentence([&] { return message; }));
      } else {
        channels_.turn_free.release(item.turn);
      }
    }
  }
  for (const std::unique_ptr<Generation>& generation : generations_) {
    if (generation == nullptr || generation->model != &model || generation->kind == RequestKind::kLoad) continue;
    end(*generation, kind, code, sentence([&] { return message; }));
  }
}

void EngineThread::release(ModelObject& model) {
  model.is_released = true;
  end_requests(model, BANTER_EVENT_CANCELLED, BANTER_OK, {});
  if (loading_ == &model) return loader_.cancel();  // end_load() drops the reference
  const auto queued = std::find(load_queue_.begin(), load_queue_.end(), &model);
  if (queued != load_queue_.end()) {
    load_queue_.erase(queued);
    return end_load(model, Error{BANTER_ERROR_CANCELLED, {}});
  }
  if (model.runner != nullptr) {
    model.tokenizer = nullptr;
    unload(model);
  }
  if (model.references.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_reference(model);
}

/** Frees what the loaded model holds; nothing runs on it any more. */
void EngineThread::unload(ModelObject& model) {
  Figures& figures = channels_.figures;
  const LoadedModel& loaded = model.runner->loaded();
  figures.weight_bytes.fetch_sub(loaded.model->weight_bytes(), std::memory_order_relaxed);
  figures.kv_bytes_total.fetch_sub(loaded.kv_bytes, std::memory_order_relaxed);
  figures.models_loaded.fetch_sub(1, std::memory_order_relaxed);
  for (ModelObject* user = models_; user != nullptr; user = user->next_tracked) {
    if (user->draft == &model && user->runner != nullptr) user->runner->drop_draft();
  }
  model.runner.reset();
}

/** Nobody refers to the model any more. */
void EngineThread::drop_reference(ModelObject& model) {
  if (model.previous_tracked != nullptr) model.previous_tracked->next_tracked = model.next_tracked;
  if (model.next_tracked != nullptr) model.next_tracked->previous_tracked = model.previous_tracked;
  if (models_ == &model) models_ = model.next_tracked;
  model.magic = ObjectMagic::kDead;
  ModelObject* const draft = model.draft;
  channels_.config.host.destroy(&model);
  if (draft != nullptr && draft->references.fetch_sub(1, std::memory_order_acq_rel) == 1) drop_reference(*draft);
}

/** For a further model: what pools have grown by since they were loaded is its own first, see make_room(). */
uint64_t EngineThread::memory_left() const {
  if (budget_bytes_ == 0) return UINT64_MAX;
  uint64_t used = channels_.figures.weight_bytes.load(std::memory_order_relaxed);
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) used += std::min(model->runner->loaded().kv_bytes, pool_bytes(*model));
  }
  return budget_bytes_ > used ? budget_bytes_ - used : 0;
}

/** A load has begun to bring weights, so it will hardly fail. */
void EngineThread::make_room() {
  if (budget_changes_seen_ > 0) resize_pools(std::min(1.0, budget_factor()));
}

/** A load has ended: a budget that was set holds for all models that there are now. */
void EngineThread::share_budget() {
  if (budget_changes_seen_ > 0 && loading_ == nullptr) apply_budget();
}

/** A budget that was set while a model loaded holds for it, too. Errors: BUDGET_EXCEEDED. */
Result<void> EngineThread::fits_budget(uint64_t weight_bytes) const {
  const uint64_t weights = channels_.figures.weight_bytes.load(std::memory_order_relaxed) + weight_bytes;
  if (budget_bytes_ == 0 || weights <= budget_bytes_) return {};
  return Error{BANTER_ERROR_BUDGET_EXCEEDED, "The budget has become " + std::to_string(budget_bytes_ >> 20) +
                                                 " MiB; with this model the weights alone take " +
                                                 std::to_string(weights >> 20) + " MiB."};
}

/** What the budget leaves beside the weights, in sizes that the models' KV pools had when they were loaded. */
double EngineThread::budget_factor() const {
  if (budget_bytes_ == 0) return 1;
  double wanted = 0;
  for (const ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner != nullptr) wanted += static_cast<double>(pool_bytes(*model));
  }
  const uint64_t weights = channels_.figures.weight_bytes.load(std::memory_order_relaxed);
  return static_cast<double>(budget_bytes_ > weights ? budget_bytes_ - weights : 0) / std::max(wanted, 1.0);
}

/** Shares what the budget leaves beside the weights among the models' KV pools, in proportion to their sizes at load. */
void EngineThread::apply_budget() {
  // Pools do not grow over what a load was granted.
  resize_pools(loading_ != nullptr ? std::min(1.0, budget_factor()) : budget_factor());
  const Figures& figures = channels_.figures;
  const uint64_t now =
      figures.weight_bytes.load(std::memory_order_relaxed) + figures.kv_bytes_total.load(std::memory_order_relaxed);
  if (budget_bytes_ == 0 || now <= budget_bytes_) return;
  log(BANTER_LOG_WARNING, [&] {
    return "The budget of " + std::to_string(budget_bytes_ >> 20) +
           " MiB is less than the weights and the smallest KV pools need: " + std::to_string(now >> 20) +
           " MiB are in use.";
  });
}

/** To `factor` times their sizes at load. */
void EngineThread::resize_pools(double factor) {
  Figures& figures = channels_.figures;
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    ModelRunner* const runner = model->runner.get();
    if (runner == nullptr) continue;
    for (ModelObject* user = models_; user != nullptr; user = user->next_tracked) {
      if (user->draft == model && user->runner != nullptr) user->runner->drop_draft_caches();
    }
    const uint64_t before = runner->loaded().kv_bytes;
    const Result<void> resized = guarded(
        [&] { return runner->resize_pool(static_cast<uint64_t>(factor * static_cast<double>(pool_bytes(*model)))); });
    const uint64_t after = runner->loaded().kv_bytes;
    figures.kv_bytes_total.fetch_add(after - before, std::memory_order_relaxed);
    if (!resized) {
      log(BANTER_LOG_WARNING, [&] { return "The KV pool could not be resized as asked: " + resized.error().message; });
    }
    for (size_t i = 0; i < runner->ended().size(); ++i) finish(*runner->ended()[i]);
  }
}

void EngineThread::update_figures() {
  uint64_t used = 0;
  KvPages pages;
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) {
    if (model->runner == nullptr) continue;
    used += model->runner->kv_bytes_used();
    pages += model->runner->kv_pages();
  }
  channels_.figures.kv_bytes_used.store(used, std::memory_order_relaxed);
  channels_.metrics.kv_pages(pages);
}

void EngineThread::destroy_objects() {
  for (std::unique_ptr<Generation>& generation : generations_) {
    // Caches give their pages back before the pools go.
    if (generation != nullptr) {
      generation->own_cache.reset();
      generation->draft_cache.reset();
    }
    generation.reset();
  }
  for (std::unique_ptr<Generation>& job : summaries_) {
    job->own_cache.reset();
    job->draft_cache.reset();
  }
  summaries_.clear();
  // Objects whose creation was not noticed yet.
  Notice** last = &notices_;
  while (*last != nullptr) last = &(*last)->next;
  *last = channels_.notices.take_all();
  for (Notice* notice = notices_; notice != nullptr;) {
    Notice* const next = notice->next;
    if (notice->kind == Notice::kNpcCreated) track(*static_cast<NpcObject*>(notice->object));
    if (notice->kind == Notice::kModelCreated) {
      auto& model = *static_cast<ModelObject*>(notice->object);
      model.previous_tracked = nullptr;
      model.next_tracked = models_;
      if (models_ != nullptr) models_->previous_tracked = &model;
      models_ = &model;
    }
    notice = next;
  }
  for (ModelObject* model = models_; model != nullptr; model = model->next_tracked) model->runner.reset();
  while (npcs_ != nullptr) {
    NpcObject* const next = npcs_->next_tracked;
    channels_.config.host.destroy(npcs_);
    npcs_ = next;
  }
  while (models_ != nullptr) {
    ModelObject* const next = models_->next_tracked;
    channels_.config.host.destroy(models_);
    models_ = next;
  }
}

}  // namespace banter::engine
