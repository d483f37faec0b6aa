// The memory layout of every public struct against the committed table layout.txt: a change of a line is a broken ABI,
// a new line at the end of a struct is a new field.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "banter/banter.h"

namespace {

class Table {
 public:
  void open(const char* name, size_t size, size_t alignment) {
    out_ << name << " size " << size << " alignment " << alignment << "\n";
  }
  void field(const char* name, size_t offset, size_t size) {
    out_ << "  " << name << " at " << offset << " size " << size << "\n";
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

#define STRUCT(type) table.open(#type, sizeof(type), alignof(type))
#define FIELD(type, name) table.field(#name, offsetof(type, name), sizeof(type::name))

void configs(Table& table) {
  STRUCT(banter_io);
  FIELD(banter_io, struct_size);
  FIELD(banter_io, flags);
  FIELD(banter_io, open);
  FIELD(banter_io, size);
  FIELD(banter_io, read_at);
  FIELD(banter_io, close);
  FIELD(banter_io, user_data);
  STRUCT(banter_engine_config);
  FIELD(banter_engine_config, struct_size);
  FIELD(banter_engine_config, flags);
  FIELD(banter_engine_config, backend);
  FIELD(banter_engine_config, thread_count);
  FIELD(banter_engine_config, affinity_mask);
  FIELD(banter_engine_config, memory_budget_bytes);
  FIELD(banter_engine_config, max_requests);
  FIELD(banter_engine_config, max_events);
  FIELD(banter_engine_config, text_buffer_bytes);
  FIELD(banter_engine_config, step_tokens);
  FIELD(banter_engine_config, stream_slowdown);
  FIELD(banter_engine_config, alloc);
  FIELD(banter_engine_config, free);
  FIELD(banter_engine_config, alloc_user_data);
  FIELD(banter_engine_config, log);
  FIELD(banter_engine_config, log_user_data);
  FIELD(banter_engine_config, swap_budget_bytes);
  FIELD(banter_engine_config, cuda_library_path);
  FIELD(banter_engine_config, cuda_device);
  FIELD(banter_engine_config, reserved1);
  FIELD(banter_engine_config, cuda_context);
  STRUCT(banter_cuda_context);
  FIELD(banter_cuda_context, struct_size);
  FIELD(banter_cuda_context, kind);
  FIELD(banter_cuda_context, handle);
  FIELD(banter_cuda_context, vulkan_queue);
  FIELD(banter_cuda_context, vulkan_get_device_proc_addr);
  STRUCT(banter_model_config);
  FIELD(banter_model_config, struct_size);
  FIELD(banter_model_config, flags);
  FIELD(banter_model_config, path);
  FIELD(banter_model_config, path_len);
  FIELD(banter_model_config, memory);
  FIELD(banter_model_config, memory_bytes);
  FIELD(banter_model_config, io);
  FIELD(banter_model_config, chat_template);
  FIELD(banter_model_config, chat_template_len);
  FIELD(banter_model_config, context_tokens);
  FIELD(banter_model_config, reserved0);
  FIELD(banter_model_config, kv_budget_bytes);
  FIELD(banter_model_config, user_data);
  FIELD(banter_model_config, speculation);
  FIELD(banter_model_config, reserved1);
  FIELD(banter_model_config, draft_model);
  FIELD(banter_model_config, kv_type);
  FIELD(banter_model_config, reserved2);
  STRUCT(banter_model_needs);
  FIELD(banter_model_needs, struct_size);
  FIELD(banter_model_needs, reserved0);
  FIELD(banter_model_needs, file_bytes);
  FIELD(banter_model_needs, weight_bytes);
  FIELD(banter_model_needs, parameters);
  FIELD(banter_model_needs, step_buffer_bytes);
  FIELD(banter_model_needs, kv_bytes);
  FIELD(banter_model_needs, kv_bytes_per_token);
  FIELD(banter_model_needs, context_tokens);
  FIELD(banter_model_needs, trained_context_tokens);
  FIELD(banter_model_needs, kv_type);
  STRUCT(banter_sampling_config);
  FIELD(banter_sampling_config, struct_size);
  FIELD(banter_sampling_config, flags);
  FIELD(banter_sampling_config, seed);
  FIELD(banter_sampling_config, temperature);
  FIELD(banter_sampling_config, top_k);
  FIELD(banter_sampling_config, top_p);
  FIELD(banter_sampling_config, min_p);
  FIELD(banter_sampling_config, typical_p);
  FIELD(banter_sampling_config, repetition_penalty);
  FIELD(banter_sampling_config, presence_penalty);
  FIELD(banter_sampling_config, frequency_penalty);
  FIELD(banter_sampling_config, penalty_last_tokens);
  FIELD(banter_sampling_config, dry_multiplier);
  FIELD(banter_sampling_config, dry_base);
  FIELD(banter_sampling_config, dry_allowed_length);
  FIELD(banter_sampling_config, dry_last_tokens);
  FIELD(banter_sampling_config, xtc_probability);
  FIELD(banter_sampling_config, xtc_threshold);
  FIELD(banter_sampling_config, mirostat);
  FIELD(banter_sampling_config, mirostat_tau);
  FIELD(banter_sampling_config, mirostat_eta);
  FIELD(banter_sampling_config, logit_bias_count);
  FIELD(banter_sampling_config, logit_bias_tokens);
  FIELD(banter_sampling_config, logit_bias_values);
  FIELD(banter_sampling_config, dry_breakers);
  FIELD(banter_sampling_config, dry_breaker_count);
  FIELD(banter_sampling_config, reserved0);
  STRUCT(banter_npc_config);
  FIELD(banter_npc_config, struct_size);
  FIELD(banter_npc_config, flags);
  FIELD(banter_npc_config, persona);
  FIELD(banter_npc_config, persona_len);
  FIELD(banter_npc_config, context_tokens);
  FIELD(banter_npc_config, reply_reserve_tokens);
  FIELD(banter_npc_config, sampling);
  FIELD(banter_npc_config, user_data);
  FIELD(banter_npc_config, context_policy);
  FIELD(banter_npc_config, reserved0);
  STRUCT(banter_request_config);
  FIELD(banter_request_config, struct_size);
  FIELD(banter_request_config, flags);
  FIELD(banter_request_config, max_tokens);
  FIELD(banter_request_config, priority);
  FIELD(banter_request_config, sampling);
  FIELD(banter_request_config, stop_strings);
  FIELD(banter_request_config, stop_string_count);
  FIELD(banter_request_config, banned_string_count);
  FIELD(banter_request_config, banned_strings);
  FIELD(banter_request_config, stop_tokens);
  FIELD(banter_request_config, stop_token_count);
  FIELD(banter_request_config, reserved0);
  FIELD(banter_request_config, user_data);
  FIELD(banter_request_config, deadline_ms);
  FIELD(banter_request_config, reserved1);
  FIELD(banter_request_config, thinking);
  FIELD(banter_request_config, thinking_budget_tokens);
  STRUCT(banter_save_config);
  FIELD(banter_save_config, struct_size);
  FIELD(banter_save_config, flags);
  FIELD(banter_save_config, user_data);
  STRUCT(banter_load_config);
  FIELD(banter_load_config, struct_size);
  FIELD(banter_load_config, flags);
  FIELD(banter_load_config, user_data);
}

void results(Table& table) {
  STRUCT(banter_engine_statistics);
  FIELD(banter_engine_statistics, struct_size);
  FIELD(banter_engine_statistics, reserved0);
  FIELD(banter_engine_statistics, steps);
  FIELD(banter_engine_statistics, prefill_tokens);
  FIELD(banter_engine_statistics, decode_tokens);
  FIELD(banter_engine_statistics, requests_submitted);
  FIELD(banter_engine_statistics, requests_finished);
  FIELD(banter_engine_statistics, requests_active);
  FIELD(banter_engine_statistics, models_loaded);
  FIELD(banter_engine_statistics, weight_bytes);
  FIELD(banter_engine_statistics, kv_bytes_total);
  FIELD(banter_engine_statistics, kv_bytes_used);
  FIELD(banter_engine_statistics, busy_microseconds);
  FIELD(banter_engine_statistics, events_delayed);
  FIELD(banter_engine_statistics, prefill_tokens_per_second);
  FIELD(banter_engine_statistics, decode_tokens_per_second);
  FIELD(banter_engine_statistics, rows_per_step);
  FIELD(banter_engine_statistics, sequences_per_step);
  FIELD(banter_engine_statistics, prefill_share);
  FIELD(banter_engine_statistics, decode_share);
  FIELD(banter_engine_statistics, mixed_share);
  FIELD(banter_engine_statistics, idle_share);
  FIELD(banter_engine_statistics, recent_prefill_tokens_per_second);
  FIELD(banter_engine_statistics, recent_decode_tokens_per_second);
  FIELD(banter_engine_statistics, recent_rows_per_step);
  FIELD(banter_engine_statistics, recent_sequences_per_step);
  FIELD(banter_engine_statistics, recent_prefill_share);
  FIELD(banter_engine_statistics, recent_decode_share);
  FIELD(banter_engine_statistics, recent_mixed_share);
  FIELD(banter_engine_statistics, recent_idle_share);
  FIELD(banter_engine_statistics, prefill_steps);
  FIELD(banter_engine_statistics, decode_steps);
  FIELD(banter_engine_statistics, mixed_steps);
  FIELD(banter_engine_statistics, kv_pages_total);
  FIELD(banter_engine_statistics, kv_pages_used);
  FIELD(banter_engine_statistics, kv_pages_cached);
  FIELD(banter_engine_statistics, kv_pages_swapped);
  FIELD(banter_engine_statistics, preemptions);
  FIELD(banter_engine_statistics, recomputed_tokens);
  FIELD(banter_engine_statistics, drafted_tokens);
  FIELD(banter_engine_statistics, accepted_tokens);
  FIELD(banter_engine_statistics, requests_queued);
  FIELD(banter_engine_statistics, reserved1);
  STRUCT(banter_model_info);
  FIELD(banter_model_info, struct_size);
  FIELD(banter_model_info, reserved0);
  FIELD(banter_model_info, name);
  FIELD(banter_model_info, architecture);
  FIELD(banter_model_info, backend);
  FIELD(banter_model_info, context_tokens);
  FIELD(banter_model_info, vocabulary);
  FIELD(banter_model_info, weight_bytes);
  FIELD(banter_model_info, kv_pool_bytes);
  FIELD(banter_model_info, kv_bytes_per_token);
  FIELD(banter_model_info, has_chat_template);
  FIELD(banter_model_info, kv_type);
  FIELD(banter_model_info, backend_reason);
  FIELD(banter_model_info, warning);
  STRUCT(banter_request_statistics);
  FIELD(banter_request_statistics, struct_size);
  FIELD(banter_request_statistics, prompt_tokens);
  FIELD(banter_request_statistics, cached_tokens);
  FIELD(banter_request_statistics, generated_tokens);
  FIELD(banter_request_statistics, queue_ms);
  FIELD(banter_request_statistics, ttft_ms);
  FIELD(banter_request_statistics, prefill_ms);
  FIELD(banter_request_statistics, decode_ms);
  FIELD(banter_request_statistics, itl_mean_ms);
  FIELD(banter_request_statistics, itl_p50_ms);
  FIELD(banter_request_statistics, itl_p99_ms);
  FIELD(banter_request_statistics, thought_tokens);
  FIELD(banter_request_statistics, prefilled_tokens);
  FIELD(banter_request_statistics, drafted_tokens);
  FIELD(banter_request_statistics, accepted_tokens);
  FIELD(banter_request_statistics, preemptions);
  FIELD(banter_request_statistics, recomputed_tokens);
  STRUCT(banter_event);
  FIELD(banter_event, kind);
  FIELD(banter_event, code);
  FIELD(banter_event, request);
  FIELD(banter_event, model);
  FIELD(banter_event, npc);
  FIELD(banter_event, user_data);
  FIELD(banter_event, text);
  FIELD(banter_event, text_len);
  FIELD(banter_event, tokens);
  FIELD(banter_event, token_count);
  FIELD(banter_event, finish_reason);
  FIELD(banter_event, progress);
  FIELD(banter_event, dropped_turns);
  FIELD(banter_event, dropped_tokens);
  FIELD(banter_event, reserved0);
  FIELD(banter_event, statistics);
  FIELD(banter_event, bytes);
  FIELD(banter_event, byte_count);
}

void functions(Table& table) {
  STRUCT(banter_api);
  FIELD(banter_api, struct_size);
  FIELD(banter_api, version);
  FIELD(banter_api, api_version);
  FIELD(banter_api, version_string);
  FIELD(banter_api, result_name);
  FIELD(banter_api, last_error_message);
  FIELD(banter_api, engine_config_init);
  FIELD(banter_api, engine_create);
  FIELD(banter_api, engine_destroy);
  FIELD(banter_api, poll);
  FIELD(banter_api, wait);
  FIELD(banter_api, cancel);
  FIELD(banter_api, engine_get_statistics);
  FIELD(banter_api, model_config_init);
  FIELD(banter_api, model_load);
  FIELD(banter_api, model_release);
  FIELD(banter_api, model_get_info);
  FIELD(banter_api, model_tokenize);
  FIELD(banter_api, model_complete);
  FIELD(banter_api, model_complete_tokens);
  FIELD(banter_api, npc_config_init);
  FIELD(banter_api, sampling_config_init);
  FIELD(banter_api, request_config_init);
  FIELD(banter_api, npc_create);
  FIELD(banter_api, npc_destroy);
  FIELD(banter_api, npc_say);
  FIELD(banter_api, npc_add_turn);
  FIELD(banter_api, npc_reset);
  FIELD(banter_api, engine_set_frame_budget);
  FIELD(banter_api, engine_begin_frame);
  FIELD(banter_api, engine_set_cpu_share);
  FIELD(banter_api, engine_set_paused);
  FIELD(banter_api, npc_create_from_profile);
  FIELD(banter_api, save_config_init);
  FIELD(banter_api, load_config_init);
  FIELD(banter_api, npc_save);
  FIELD(banter_api, npc_load);
  FIELD(banter_api, engine_get_metrics_json);
  FIELD(banter_api, engine_trace_start);
  FIELD(banter_api, engine_trace_stop);
  FIELD(banter_api, engine_set_budget);
  FIELD(banter_api, model_measure);
}

TEST(Layout, IsTheCommittedTable) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "The table is for 64-bit systems.";
  Table table;
  configs(table);
  results(table);
  functions(table);
  if (const char* const path = std::getenv("BANTER_WRITE_LAYOUT")) std::ofstream(path) << table.text();
  std::ifstream file(BANTER_LAYOUT_FILE);
  ASSERT_TRUE(file) << BANTER_LAYOUT_FILE;
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(table.text(), expected.str())
      << "The ABI changed. Where only new fields or functions came behind the others, write the table anew with "
         "BANTER_WRITE_LAYOUT=<file>, and name the change in sdk/docs/api-changes.md.";
}

}  // namespace
