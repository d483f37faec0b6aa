# The sources of the CUDA backend, for nvcc and for the emulator of the tests: one list, relative to this folder.
set(BANTER_CUDA_SOURCES
    cuda_backend.cpp device_choice.cpp executor.cpp graph_cache.cpp memory.cpp plugin.cpp scratch.cpp step_upload.cpp
    weight_upload.cpp)
