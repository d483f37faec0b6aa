#!/bin/sh
# Builds and runs a consumer project. usage: run.sh CASE PREFIX SOURCE WORK LIBDIR
#   CASE: prefix | shared | static | c_only_shared | c_only_static | pkg_config | pkg_config_static | subdirectory
set -eu
case=$1 prefix=$2 source=$3 work=$4 libdir=$5
here=$(dirname "$0")
rm -rf "$work"
mkdir -p "$work"

run_games() {
  for game in "$@"; do
    echo "run $game"
    "$game"
  done
}

# usage: cmake_consumer FOLDER TARGET GAMES OPTION…
cmake_consumer() {
  folder=$1 target=$2 games=$3
  shift 3
  cmake -S "$here/$folder" -B "$work" -G Ninja -DCONSUMER_TARGET="$target" "$@"
  cmake --build "$work"
  for game in $games; do run_games "$work/$game"; done
}

# A link that silently took the other library is a fault. usage: expect_link shared|static
expect_link() {
  if readelf -d "$work/game_c" | grep -q 'NEEDED.*libbanter'; then found=shared; else found=static; fi
  [ $found = "$1" ] || { echo "game_c is linked with the $found library, not the $1 one"; exit 1; }
}

# usage: pkg_config_consumer MODULE
pkg_config_consumer() {
  export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
  pkg-config --print-errors --exists "$1 = $(sed -n 's/^Version: //p' "$PKG_CONFIG_PATH/$1.pc")"
  # shellcheck disable=SC2046
  cc -std=c99 -Wall -Wextra -pedantic -Werror "$here/consumer/main.c" -o "$work/game_c" $(pkg-config --cflags --libs "$1") \
    -Wl,-rpath,"$prefix/$libdir"
  run_games "$work/game_c"
}

case $case in
  prefix) # SOURCE is the build folder here
    rm -rf "$prefix"
    cmake --install "$source" --prefix "$prefix"
    for file in include/banter/banter.h include/banter/banter.hpp include/banter/version.h "$libdir/libbanter.so" \
      share/banter/schema/npc_profile.fbs "$libdir/libbanter_static.a" "$libdir/pkgconfig/banter.pc" "$libdir/cmake/banter/banterConfig.cmake"; do
      [ -e "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
    done
    # Nothing of the build machine may be left in what is installed.
    if grep -rlIF -e "$source" -e /usr/lib "$prefix/include" "$prefix/$libdir/cmake"; then
      echo "the files above name folders of the build machine"
      exit 1
    fi
    ;;
  shared)
    cmake_consumer consumer banter::banter "game_c game_cpp" -DCMAKE_PREFIX_PATH="$prefix"
    expect_link shared
    ;;
  static)
    cmake_consumer consumer banter::banter_static "game_c game_cpp" -DCMAKE_PREFIX_PATH="$prefix"
    expect_link static
    ;;
  c_only_shared)
    cmake_consumer consumer_c banter::banter game_c -DCMAKE_PREFIX_PATH="$prefix"
    expect_link shared
    ;;
  c_only_static)
    cmake_consumer consumer_c banter::banter_static game_c -DCMAKE_PREFIX_PATH="$prefix"
    expect_link static
    ;;
  pkg_config)
    pkg_config_consumer banter
    expect_link shared
    ;;
  pkg_config_static)
    pkg_config_consumer banter_static
    expect_link static
    ;;
  subdirectory)
    cmake_consumer consumer banter::banter_static "game_c game_cpp" -DCONSUMER_SUBDIRECTORY="$source" -DCMAKE_BUILD_TYPE=Debug
    expect_link static
    ;;
  *)
    echo "unknown case $case"
    exit 2
    ;;
esac
echo "install test $case: done"
