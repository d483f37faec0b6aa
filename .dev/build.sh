# Configuring and building presets, quietly, with progress. Sourced by ./dev.

jobs_count() { echo "${BANTER_JOBS:-$(nproc)}"; }

# Runs a command with its output in a log; shows how far it is; on failure shows the log's end and fails.
# usage: with_progress LABEL LOG COMMAND…   BANTER_QUIET=1: nothing but a terminal's passing line, unless it fails.
with_progress() {
  local label=$1 log=$2 start=$SECONDS told=$SECONDS pause=0.02 pid step
  shift 2
  "$@" >"$log" 2>&1 &
  pid=$!
  # shellcheck disable=SC2064
  trap "kill $pid 2>/dev/null || true" EXIT
  while kill -0 $pid 2>/dev/null; do
    sleep $pause
    pause=0.1
    if [ -t 2 ]; then
      step=$(grep -aoE '^\[[0-9]+/[0-9]+\]' "$log" | tail -1 || true)
      [ -z "$step" ] || printf '\r\033[Kbanter: %s %s' "$label" "$step" >&2
    elif [ $((SECONDS - told)) -ge 30 ] && [ -z "${BANTER_QUIET:-}" ]; then
      step=$(grep -aoE '^\[[0-9]+/[0-9]+\]' "$log" | tail -1 || true)
      say "$label $step"
      told=$SECONDS
    fi
  done
  trap - EXIT
  [ ! -t 2 ] || printf '\r\033[K' >&2
  if ! wait $pid; then
    say "$label failed:"
    # From the first failed step on, when there is one: that is what a person looks for.
    { grep -anE -m1 '^FAILED:|CMake Error' "$log" | cut -d: -f1 || true; } | {
      read -r line || line=1
      tail -n "+$line" "$log" | head -60 >&2
    }
    fail "the whole output is in $log"
  fi
  [ -n "${BANTER_QUIET:-}" ] || [ $((SECONDS - start)) -lt 2 ] || say "$label: done in $((SECONDS - start)) s"
}

configure() {
  local preset=$1 folder=build/$1 options=()
  [ ! -e "$folder/build.ninja" ] || [ CMakePresets.json -nt "$folder/.configured" ] || return 0
  grep -q "\"name\": \"$preset\"" CMakePresets.json || fail "there is no preset '$preset'; known: dev release asan tsan fuzz cuda cuda-ci"
  mkdir -p "$folder"
  ! command -v ccache >/dev/null || options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # Warnings are errors with the compiler that we test with; another one's new warnings must not stop a user's build.
  case $preset/$(c++ -dumpversion 2>/dev/null || true) in dev/12* | release/12* | cuda/12* | cuda-ci/12*) options+=(-DBANTER_WERROR=ON) ;; esac
  with_progress "configuring $preset" "$folder/configure.log" cmake --preset "$preset" "${options[@]}"
  touch "$folder/.configured"
}

# Why this configured preset has no CUDA backend, or nothing where it has one.
cuda_obstacle() {
  [ ! -r "build/$1/configure.log" ] || sed -n 's/^-- The CUDA backend is not built: //p' "build/$1/configure.log" | tail -1
}

# build PRESET [TARGET…]: one build of a preset at a time, whoever asks for it.
build() {
  local preset=$1 folder=build/$1 lock
  shift
  mkdir -p "$folder"
  exec {lock}>"$folder/.lock"
  flock "$lock"
  configure "$preset"
  local obstacle
  obstacle=$(cuda_obstacle "$preset")
  [ -z "$obstacle" ] || say "the CUDA backend is not built: $obstacle"
  with_progress "building $preset" "$folder/build.log" ninja -C "$folder" -j "$(jobs_count)" "$@"
  exec {lock}>&-
}

# existing_targets PRESET TARGET…: those of the targets that the build has (a label may have no test yet).
existing_targets() {
  local preset=$1 target known
  shift
  (configure "$preset")
  known=$(ninja -C "build/$preset" -t targets all 2>/dev/null)
  for target in "$@"; do
    if grep -qE "^$target: " <<<"$known"; then echo "$target"; fi
  done
}
