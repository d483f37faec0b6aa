# The sources of the CUDA backend, for nvcc and for the emulator of the tests: one list, relative to this folder.
set(BANTER_CUDA_SOURCES
    attention.cu attention_plain.cu attention_quantised.cu best_logits.cu context.cpp cuda_backend.cpp device_choice.cpp driver.cpp embed.cu executor.cpp
    graph_cache.cpp linear.cu linear_floats.cu linear_gemm_blocks.cu linear_gemm_halves.cu linear_gemm_supers.cu
    linear_gemv_blocks.cu linear_gemv_supers.cu memory.cpp plugin.cpp quantised_rows.cpp rope_kv.cu row_kernels.cu scratch.cpp
    step_upload.cpp weight_packing.cpp weight_upload.cpp)
