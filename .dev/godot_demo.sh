# The demo of the Godot addon: what it takes from elsewhere, and how it is run. Sourced by ./dev.

# The font with which the demo shows Chinese: the system's, or the one of Debian's package, cached. Without one the demo says so and goes on.
bring_font() {
  local demo=$1 name=DroidSansFallbackFull.ttf cache font
  [ ! -s "$demo/fonts/chinese.ttf" ] || return 0
  cache=$(dirname "$(godot_cache)")/fonts
  for font in "$cache/$name" "/usr/share/fonts/truetype/droid/$name"; do
    [ ! -s "$font" ] || break
  done
  if [ ! -s "$font" ] && can_unpack_debian; then
    say "bringing a font for Chinese (Debian's fonts-droid-fallback, 2 MB)"
    mkdir -p "$cache"
    font=$cache/$name
    if unpack_debian "$cache/tree" testing fonts-droid-fallback >"$cache/install.log" 2>&1; then
      mv "$cache/tree/usr/share/fonts/truetype/droid/$name" "$font"
    fi
    rm -rf "$cache/tree" "$cache/tree.apt"
  fi
  if [ ! -s "$font" ]; then
    say "no font for Chinese was found; without one two of the villagers are hard to read. On Debian: apt-get install fonts-droid-fallback"
    return 0
  fi
  mkdir -p "$demo/fonts"
  cp "$font" "$demo/fonts/chinese.ttf"
}

# Puts addon and font into the demo's project, and lets Godot import it.
complete_demo() {
  local program=$1 demo=$2
  bring_font "$demo"
  mkdir -p "$demo/addons" "$demo/.godot"
  rm -rf "$demo/addons/banter"
  cp -r plugin_godot/addons/banter "$demo/addons/banter"
  # Written first: Godot then has the addon's classes already while it imports.
  echo res://addons/banter/banter.gdextension >"$demo/.godot/extension_list.cfg"
  with_progress "importing the demo" build/release/import.log timeout 300 "$program" --headless --path "$demo" --import
  ! grep -E 'SCRIPT ERROR|Parse Error' build/release/import.log >&2 || fail "the demo cannot be imported; see build/release/import.log"
}

# Whether one of the demo's options makes it end without a person.
ends_by_itself() {
  local word
  for word in "$@"; do
    case $word in --script-evening | --measure | --screen-no-model | --help) return 0 ;; esac
  done
  return 1
}

# run_demo PROGRAM MODEL [ARGS…]: on the screen that is there, else on a virtual one, where it plays an evening by itself.
run_demo() {
  local program=$1 model demo=$PWD/plugin_godot/demo
  model=$(realpath -- "$2")  # Godot goes to the demo's folder
  shift 2
  complete_demo "$program" "$demo"
  if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    exec "$program" --path "$demo" -- --model "$model" "$@"
  fi
  need_packages screen
  local pictures=$PWD/build/godot_demo
  if ! ends_by_itself "$@"; then
    say "there is no display: the demo plays an evening by itself on a virtual one; pictures of it land in $pictures"
    set -- --script-evening "$@"
  fi
  # Godot's sound has nobody to hear it; Mesa renders on the processor.
  exec timeout 1200 xvfb-run -a -s "-screen 0 1152x648x24" "$program" --rendering-driver opengl3 --audio-driver Dummy --resolution 1152x648 \
    --path "$demo" -- --model "$model" --screenshots "$pictures" "$@"
}
