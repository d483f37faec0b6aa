# What the commands of ./dev need from the system, and how it is installed. Sourced by ./dev.

say() { printf '%s\n' "banter: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# Debian packages of each group. A word "program:package" is met by the program from wherever it comes.
packages_of() {
  case $1 in
    build) echo g++:g++ cmake:cmake ninja:ninja-build libpcre2-dev libutf8proc-dev nlohmann-json3-dev libconcurrentqueue-dev \
      libflatbuffers-dev flatc:flatbuffers-compiler \
      libcli11-dev libgtest-dev ;;
    test) echo python3:python3 pkg-config:pkg-config ;;
    check) echo python3:python3 git:git g++:g++ clang-format-14:clang-format-14 ;;
    fetch) python_with_pip >/dev/null || echo python3 python3-pip ;;
    screen) echo xvfb-run:xvfb xauth:xauth ;;
    fuzz) echo clang++:clang libclang-rt-14-dev ;;
  esac
}

# Prints the first Python that has pip (one from elsewhere may stand before the system's and lack it).
python_with_pip() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None)' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# need_packages GROUP…: installs what is missing of these groups.
need_packages() {
  local group word missing=() log
  for group in "$@"; do
    for word in $(packages_of "$group"); do
      if [ "${word%%:*}" != "$word" ]; then
        command -v "${word%%:*}" >/dev/null || missing+=("${word#*:}")
      elif command -v dpkg-query >/dev/null; then
        is_installed "$word" || missing+=("$word")
      fi
    done
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    fail "this system has no apt-get; please install what Debian calls: ${missing[*]}"
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing and installing them needs root or sudo. As root run: apt-get install ${missing[*]}"
  fi
  say "installing with apt-get: ${missing[*]}"
  log=$(mktemp)
  if ! as_root apt-get update >"$log" 2>&1 ||
    ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
    grep -E '^(E|W|Err)[: ]' "$log" | tail -8 >&2 || tail -8 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${missing[*]} (its words are above). Is there a network connection?"
  fi
  rm -f "$log"
}
