# <banter_build/backend_fingerprint.h>: the version, a hash of the headers whose types pass between the library and its
# plugins, and the compiler. Both carry it; a plugin of another build is refused.
set(fingerprint_headers
    include/banter/result.h include/banter/types.h src/base/result.h src/base/thread_pool.h src/formats/tensor_type.h
    src/ops/backend.h src/ops/backend_plugin.h src/ops/kv_format.h)
set(hashes)
foreach(header ${fingerprint_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
  file(SHA256 ${CMAKE_CURRENT_SOURCE_DIR}/${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
string(REGEX MATCH "^[0-9]+" compiler_major "${CMAKE_CXX_COMPILER_VERSION}")
set(BANTER_FINGERPRINT "${PROJECT_VERSION}-${hash}-${CMAKE_CXX_COMPILER_ID}${compiler_major}")
configure_file(cmake/backend_fingerprint.h.in ${banter_build_include}/banter_build/backend_fingerprint.h @ONLY)
