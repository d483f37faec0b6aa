# A Godot for the addon: the one that is there, or Debian's, unpacked in the cache beside the system. Sourced by ./dev.

godot_cache() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/banter/godot"; }

# Whether a program is a Godot that works here, 4.3 or later.
is_godot() {
  local version
  version=$("$1" --headless --version 2>/dev/null | tail -1) || return 1
  [[ $version =~ ^4\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 3 ]
}

# Prints the path of a Godot: $BANTER_GODOT, one of the PATH, or the cached one. Fails where there is none.
godot_program() {
  local candidate
  for candidate in "${BANTER_GODOT:-}" "$(command -v godot || true)" "$(command -v godot4 || true)" "$(godot_cache)/godot"; do
    if [ -n "$candidate" ] && is_godot "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# The mirror and the key that apt uses on this system, as "URI KEYRING".
debian_source() {
  local uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -r "$keyring" ] || return 1
  uri=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -1)
  [ -n "$uri" ] || uri=$(sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' /etc/apt/sources.list 2>/dev/null | head -1)
  [ -n "$uri" ] && echo "$uri $keyring"
}

can_unpack_debian() {
  [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null && debian_source >/dev/null
}

# unpack_debian FOLDER SUITE PACKAGE…: these packages of a suite, and what they need, unpacked in FOLDER. Nothing of the system changes.
unpack_debian() {
  local folder=$1 suite=$2 state uri keyring archive
  shift 2
  read -r uri keyring <<<"$(debian_source)"
  state=$folder.apt
  rm -rf "$folder" "$state"
  mkdir -p "$folder" "$state"/lists/partial "$state"/cache/archives/partial "$state"/sources
  : >"$state/status"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$uri" "$suite" "$keyring" >"$state/sources/suite.sources"
  local apt=(apt-get -q -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
    -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$state/sources" -o Dir::Etc::preferencesparts=/dev/null
    -o "APT::Architecture=$(dpkg --print-architecture)" -o APT::Install-Recommends=false -o "APT::Sandbox::User=$(id -un)"
    -o Acquire::Languages=none -o Acquire::Retries=3)
  "${apt[@]}" update && "${apt[@]}" install --yes --download-only base-files "$@" </dev/null || return 1
  # base-files owns the links from /lib to /usr/lib, so it goes first.
  for archive in "$state"/cache/archives/base-files_*.deb "$state"/cache/archives/*.deb; do
    dpkg-deb --extract "$archive" "$folder" || return 1
  done
  rm -rf "$state" "$folder"/usr/share/{doc,man,locale}
}

# run_in_tree TREE PROGRAM…: with the suite's own C library, which is newer than the system's.
run_in_tree() {
  local tree=$1 program=$2 libraries
  shift 2
  libraries=$tree/usr/lib/x86_64-linux-gnu
  "$tree/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/pulseaudio" "$program" "$@"
}

# The export templates that the cached Godot does not have yet.
missing_templates() {
  local kind
  for kind in release debug; do
    [ -x "$1/usr/bin/godot-template-$kind" ] || echo "godot-template-$kind"
  done
}

# are_templates TREE VERSION LOADER_TREE…: whether those of a tree run, with the libraries of the others, and are of this version.
are_templates() {
  local tree=$1 version=$2 template loader
  shift 2
  for template in "$tree"/usr/bin/godot-template-*; do
    for loader in "$@"; do
      [ "$(run_in_tree "$loader" "$template" --headless --version 2>/dev/null | tail -1)" = "$version" ] || return 1
    done
  done
}

# Lets a cached Godot that was unpacked without its export templates have them. Another Godot's templates are its installer's business.
bring_templates() {
  local cache tree beside log suite version mark today missing
  cache=$(godot_cache)
  tree=$cache/tree
  [ "$1" = "$cache/godot" ] && [ -x "$tree/usr/bin/godot" ] || return 0
  missing=$(missing_templates "$tree")
  [ -n "$missing" ] && can_unpack_debian || return 0
  # Not again on the day of a failure: it takes a while, and nothing of the addon needs the templates but some tests.
  mark=$cache/template.missing today="$(date +%F) $(stat -c %Y "$tree/usr/bin/godot")"
  if [ "$(cat "$mark" 2>/dev/null)" = "$today" ]; then
    say "no export templates: they could not be had earlier today, see $cache/template.log; without $mark it is tried again"
    return 0
  fi
  say "bringing the export templates of Debian's Godot into $cache"
  beside=$cache/template log=$cache/template.log
  version=$("$1" --headless --version 2>/dev/null | tail -1)
  : >"$log"
  for suite in testing sid; do
    # shellcheck disable=SC2086  # one word for each package
    unpack_debian "$beside" "$suite" $missing >>"$log" 2>&1 || continue
    # Those of another version would not understand what this Godot packs.
    if are_templates "$beside" "$version" "$beside" "$tree"; then
      mv "$beside"/usr/bin/godot-template-* "$tree/usr/bin/"
      rm -rf "$beside"
      return 0
    fi
    echo "the templates of $suite are not those of $version" >>"$log"
  done
  rm -rf "$beside" "$beside.apt"
  echo "$today" >"$mark"
  say "the export templates of $version could not be had; $cache/template.log tells why. Removing $cache and running this again brings all anew."
}

# Installs Debian's Godot in the cache. Prints why where it cannot, and fails.
install_godot() {
  local cache tree libraries suite log
  cache=$(godot_cache)
  if ! can_unpack_debian; then
    say "no Godot was found, and only Debian's can be brought here. Install Godot 4.3 or later, on the PATH or named by BANTER_GODOT."
    return 1
  fi
  tree=$cache/tree
  mkdir -p "$cache"
  log=$cache/install.log
  say "bringing Debian's Godot into $cache (210 MB)"
  : >"$log"
  for suite in testing sid; do
    if unpack_debian "$tree" "$suite" godot godot-template-release godot-template-debug libgl1 libglx-mesa0 >>"$log" 2>&1; then
      libraries=$tree/usr/lib/x86_64-linux-gnu
      # With the suite's own C library, which is newer than the system's.
      printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$tree/usr/lib64/ld-linux-x86-64.so.2" \
        "$libraries:$libraries/pulseaudio" "$tree/usr/bin/godot" >"$cache/godot"
      chmod +x "$cache/godot"
      ! is_godot "$cache/godot" || return 0
    fi
  done
  say "Debian's Godot could not be installed; $log tells why. Is there a network connection?"
  return 1
}

# Whether a build was configured before the export templates were there.
misses_template() {
  grep -q '^BANTER_GODOT_TEMPLATE\(_DEBUG\)\?:FILEPATH=.*-NOTFOUND$' "$1" && [ -z "$(missing_templates "$(godot_cache)/tree")" ]
}

# The release build with a Godot, which is installed where there is none. Prints its path. Fails, and has said why, where there is none.
configure_with_godot() {
  local program
  [ -z "${BANTER_GODOT:-}" ] || is_godot "$BANTER_GODOT" || fail "BANTER_GODOT is $BANTER_GODOT, which is no Godot 4.3 or later that works here."
  program=$(godot_program) || { install_godot && program=$(godot_program); } || return 1
  bring_templates "$program"
  (configure release)
  local cache=build/release/CMakeCache.txt
  { grep -qxF "BANTER_GODOT:FILEPATH=$program" "$cache" && ! misses_template "$cache"; } ||
    with_progress "configuring release with Godot" build/release/configure.log cmake -S . -B build/release "-DBANTER_GODOT=$program"
  echo "$program"
}
