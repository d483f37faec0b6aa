#!/usr/bin/env bash
# Proves and measures the CUDA backend on a machine with an NVIDIA card: first what is right, then how fast. Needs no network; ends
# with the benchmark's tables and JSON lines, and with 1 where a test failed, 2 where nothing could be run.
#
#   tests/gpu/check.sh [BUILD_FOLDER]     builds for the card that is there, in build/gpu; needs nvcc, cmake, ninja, a C++ compiler
#                                         and the libraries that README.md lists
#   FOLDER/check.sh                       in a folder that tests/gpu/pack.sh packed elsewhere: builds nothing, needs the driver only
#
#   BANTER_GPU_SECONDS=N                  time that all of it may take (480); what does not fit is left out, and said
#   BANTER_GPU_OUT=FOLDER                 copies of the logs and of the tables go there, as they come
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
limit=${BANTER_GPU_SECONDS:-480}
status=0
SECONDS=0

say() { printf 'gpu check (%3d s): %s\n' "$SECONDS" "$*"; }
left() { echo $((limit - SECONDS)); }
least() { echo $(($1 < $2 ? $1 : $2)); }
give_out() { [ -z "${BANTER_GPU_OUT:-}" ] || cp "$@" "$BANTER_GPU_OUT/"; }

if [ -f "$here/gpu_suites" ]; then
  folder=$here # packed
  data=$here
else
  cd "$here/../.." || exit 2
  mkdir -p "${1:-build/gpu}"
  folder=$(cd "${1:-build/gpu}" && pwd)
  data=$PWD/tests
fi
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d '. ')
[ -n "$capability" ] || { say "nvidia-smi shows no card"; exit 2; }
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit --format=csv,noheader

# -------------------------------------------------------------------------------------------------------------- building
build() {
  local nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)} launchers=() jobs=${BANTER_JOBS:-$(nproc)}
  [ -x "$nvcc" ] || { say "there is no nvcc"; exit 2; }
  say "building for sm_$capability"
  ! command -v ccache >/dev/null || launchers=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  if ! cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBANTER_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability-real" \
    -DBANTER_TEST_ON_DEVICE=ON -DBANTER_INSTALL=OFF "${launchers[@]}" >"$folder/configure.log" 2>&1; then
    give_out "$folder/configure.log"
    tail -20 "$folder/configure.log"
    exit 2
  fi
  # What ships and what measures it first; of the tests, those that compile. Some time is kept to run what there is.
  timeout "$(left)" ninja -C "$folder" -j "$jobs" banter_cuda banter_bench_cuda >"$folder/build.log" 2>&1 &&
    timeout "$(($(left) * 3 / 4))" ninja -C "$folder" -j "$jobs" -k 0 tests_gpu >>"$folder/build.log" 2>&1 && return
  status=1
  give_out "$folder/build.log"
  grep -nE -A12 '^FAILED:|error:' "$folder/build.log" | head -60
  say "the build failed or took too long: what there is runs"
}

# ----------------------------------------------------------------------------------------------------------------- tests
# Each executable runs once, as a process that opens the card once: at most suite_seconds, and not into the benchmarks' time.
suite_seconds=60
bench_seconds=$(least 200 $((limit / 2)))
failed=() left_out=() passed=0 alone=0 sanitized=0

# run_tests NAME FILTER SECONDS: into $log; returns the executable's status, 124 or 137 where its time was up.
run_tests() {
  (cd "$data" && BANTER_CUDA_LIBRARY=$folder/lib/libbanter_cuda.so timeout -k 5 "$3" "$folder/bin/$1" "--gtest_filter=$2" \
    --gtest_color=no) >"$log" 2>&1
}

# Adds $log to the tests' log, under a heading; what thousands of numbers are wrong in needs no more than its beginning and end.
keep_log() {
  printf '=== %s\n' "$*"
  if [ "$(stat -c %s "$log")" -gt 200000 ]; then
    head -c 150000 "$log"
    printf '\n[…]\n'
    tail -c 50000 "$log"
  else
    cat "$log"
  fi
} >>"$folder/tests.log"

# The test that was running when the process ended, if any.
interrupted() {
  sed -n 's/^\[ \(RUN\| *OK\| *FAILED\| *SKIPPED\) *\] \([^ ,]*\).*/\1 \2/p' "$log" | tail -1 | sed -n 's/^RUN //p'
}
failures_of() { sed -n 's/^\[  FAILED  \] \([^ ,]*\.[^ ,]*\),* .*(.* ms)$/\1/p' "$log" | sort -u; }

run_suite() {
  local name=$1 filter=$2 seconds code culprit tests=() test again=0
  log=$folder/suite.log
  [ -x "$folder/bin/$name" ] || { left_out+=("$name (not built)"); return; }
  seconds=$(least $suite_seconds $(($(left) - bench_seconds)))
  [ "$seconds" -ge 5 ] || { left_out+=("$name $filter"); return; }
  run_tests "$name" "$filter" "$seconds"
  code=$?
  keep_log "$name $filter: ended with $code"
  passed=$((passed + $(grep -c '^\[       OK \]' "$log")))
  grep '^\[  SKIPPED \].*ms)$' "$log"
  # A library that is not used would let every test pass on the processor.
  [ $code != 0 ] || { say "$name: $(grep -c '^\[       OK \]' "$log") passed"; return; }
  status=1
  mapfile -t tests < <(failures_of)
  culprit=$(interrupted)
  failed+=("${tests[@]}" ${culprit:+"$culprit (ended with $code)"})
  [ ${#tests[@]} -gt 0 ] || [ -n "$culprit" ] || failed+=("$name (ended with $code)")
  say "$name: FAILED with $code: ${tests[*]}${culprit:+ ended in $culprit}"
  grep -vE '^\[ *(RUN|OK|-+|=+) *\]|^Note: ' "$log" | head -40
  # A fault of the card fails all that come after it in the process: which fail alone, too? And what is behind what ended it?
  for test in ${culprit:+"$culprit"} "${tests[@]}"; do
    if [ $alone -ge 12 ] || [ $again -ge 3 ] || [ "$(($(left) - bench_seconds))" -lt 20 ]; then break; fi
    alone=$((alone + 1)) again=$((again + 1))
    run_tests "$name" "$test" 15
    code=$?
    keep_log "$name $test alone: ended with $code"
    say "$test alone: $([ $code = 0 ] && echo passed || echo "ended with $code")"
    [ $code = 0 ] || sanitize "$name" "$test"
  done
  if [ -n "$culprit" ]; then
    case $filter in *-*) filter="$filter:$culprit" ;; *) filter="$filter-$culprit" ;; esac
    case ${3:-0} in 0 | 1) run_suite "$name" "$filter" $((${3:-0} + 1)) ;; esac
  fi
}

# What NVIDIA's own checker says of a kernel's test that fails, where there is one; of two tests.
sanitize() {
  local checker
  checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  case $1 in cuda_*) ;; *) return ;; esac
  [ -x "$checker" ] && [ $sanitized -lt 2 ] && [ "$(($(left) - bench_seconds))" -ge 40 ] || return
  sanitized=$((sanitized + 1))
  (cd "$data" && timeout -k 5 30 "$checker" --tool memcheck "$folder/bin/$1" "--gtest_filter=$2") >"$log" 2>&1
  keep_log "$1 $2 under compute-sanitizer"
  grep '^=====' "$log" | head -25
}

# ------------------------------------------------------------------------------------------------------------ benchmarks
# run_bench NAME SECONDS ARGUMENTS…: it stops by itself before its time is up, and is ended when that fails.
run_bench() {
  local name=$1 seconds
  seconds=$(least "$(left)" "$2")
  shift 2
  if [ "$seconds" -lt 15 ] || [ ! -x "$folder/bin/banter_bench_cuda" ]; then
    left_out+=("benchmark of $name")
    return
  fi
  say "$name"
  if ! timeout -k 5 "$seconds" "$folder/bin/banter_bench_cuda" --limit $((seconds * 2 / 3)) "$@" >"$folder/bench_$name.log" 2>&1; then
    say "$name failed or did not end in $seconds s"
    status=1
  fi
  cat "$folder/bench_$name.log"
  give_out "$folder/bench_$name.log"
}

if [ "$folder" = "$here" ]; then
  made_for=$(cat "$folder/gpu_architecture")
  say "packed for sm_$made_for; the card is sm_$capability"
  # Machine code runs on cards of its own major version that are as new or newer.
  if [ "${made_for%?}" != "${capability%?}" ] || [ "$capability" -lt "$made_for" ]; then
    say "pack anew: tests/gpu/pack.sh $capability"
    exit 2
  fi
else
  build
fi
say "tests on the card"
: >"$folder/tests.log"
while read -r name filter; do
  run_suite "$name" "$filter" </dev/null
  give_out "$folder/tests.log"
done <"$folder/gpu_suites"
say "tests: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ] || printf '  failed: %s\n' "${failed[@]}"

run_bench kernels 75 --no-models --no-frames
run_bench models 110 --no-kernels --no-frames
run_bench frames 40 --no-kernels --no-models

[ ${#left_out[@]} = 0 ] || printf '  left out: %s\n' "${left_out[@]}"
# Nothing that passed is no success.
[ "$passed" -gt 0 ] || status=1
say "$([ $status = 0 ] && echo passed || echo FAILED), $(date -u +%F)"
exit $status
