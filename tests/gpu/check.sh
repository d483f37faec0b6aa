#!/usr/bin/env bash
# Proves and measures the CUDA backend on a machine with an NVIDIA card. Needs nvcc, cmake, ninja, a C++ compiler and the libraries
# that README.md lists, and no network. Takes under eight minutes; ends with a table and one line of JSON, and with 1 where a
# test failed.
#
#   tests/gpu/check.sh [BUILD_FOLDER]     default: build/gpu
#   BANTER_GPU_SECONDS=N                  time that all of it may take (480); what does not fit is left out, and said
#   BANTER_GPU_OUT=FOLDER                 copies of the logs and of the table go there
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:-build/gpu}
limit=${BANTER_GPU_SECONDS:-480}
status=0
SECONDS=0
mkdir -p "$folder"

say() { printf 'gpu check (%3d s): %s\n' "$SECONDS" "$*"; }
left() { echo $((limit - SECONDS)); }
give_out() { if [ -n "${BANTER_GPU_OUT:-}" ]; then cp "$@" "$BANTER_GPU_OUT/"; fi; }

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || { say "there is no nvcc"; exit 2; }
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d '. ')
[ -n "$capability" ] || { say "nvidia-smi shows no card"; exit 2; }
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit --format=csv,noheader

say "building for sm_$capability"
launchers=()
! command -v ccache >/dev/null || launchers=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
if ! cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBANTER_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability-real" \
  -DBANTER_TEST_ON_DEVICE=ON -DBANTER_INSTALL=OFF "${launchers[@]}" >"$folder/configure.log" 2>&1; then
  tail -20 "$folder/configure.log"
  exit 2
fi
if ! timeout "$(left)" ninja -C "$folder" -j "${BANTER_JOBS:-$(nproc)}" banter_cuda banter_bench_cuda tests_gpu >"$folder/build.log" 2>&1; then
  grep -nE -A12 '^FAILED:|error:' "$folder/build.log" | head -60
  say "the build failed or took too long"
  exit 2
fi

say "tests on the card"
timeout "$(($(left) - 60))" ctest --test-dir "$folder" -L '^gpu$' --output-on-failure --no-tests=error --timeout 120 >"$folder/tests.log" 2>&1 ||
  status=1
grep -E 'Failed|Timeout|Skipped|tests passed|\*\*\*|No tests' "$folder/tests.log" | head -60
give_out "$folder/tests.log"

# Kernels first, then models: a run that is cut short has shown the most telling part.
run_bench() {
  local name=$1 share=$2 seconds
  shift 2
  seconds=$(($(left) < share ? $(left) : share))
  if [ "$seconds" -lt 10 ]; then
    say "no time left for: $name"
    return
  fi
  say "$name"
  if ! timeout "$seconds" "$folder/bin/banter_bench_cuda" "$@" >"$folder/bench_$name.log" 2>&1; then
    say "$name failed or did not end in $seconds s"
    status=1
  fi
  cat "$folder/bench_$name.log"
  give_out "$folder/bench_$name.log"
}
run_bench kernels 90 --no-models --no-frames
run_bench models 150 --no-kernels --no-frames
run_bench frames 45 --no-kernels --no-models

say "$([ $status = 0 ] && echo passed || echo FAILED), $(date -u +%F)"
exit $status
