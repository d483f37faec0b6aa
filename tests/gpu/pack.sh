#!/usr/bin/env bash
# Builds here what tests/gpu/check.sh runs on a machine with an NVIDIA card that lacks our libraries, or the time to compile: the
# library, the benchmark and the tests, in one archive. Needs nvcc, but no card.
#
#   tests/gpu/pack.sh [ARCHITECTURE] [BUILD_FOLDER]     default: 90 (Hopper), build/gpu-pack
#
# Prints the archive's path. There:  mkdir gpu && tar -xJf banter-gpu-sm_90.tar.xz -C gpu && gpu/check.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
architecture=${1:-90}
folder=${2:-build/gpu-pack}
pack=$folder/pack
mkdir -p "$folder"
say() { printf 'gpu pack: %s\n' "$*" >&2; }

launchers=()
! command -v ccache >/dev/null || launchers=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
if ! cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBANTER_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$architecture-real" \
  -DBANTER_TEST_ON_DEVICE=ON -DBANTER_INSTALL=OFF "${launchers[@]}" >"$folder/configure.log" 2>&1; then
  tail -20 "$folder/configure.log" >&2
  exit 1
fi
say "building for sm_$architecture"
if ! ninja -C "$folder" -j "${BANTER_JOBS:-$(nproc)}" banter_cuda banter_bench_cuda tests_gpu >"$folder/build.log" 2>&1; then
  grep -nE -A12 '^FAILED:|error:' "$folder/build.log" | head -40 >&2
  exit 1
fi

rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib"
while read -r name _; do
  [ -f "$pack/bin/$name" ] || strip -o "$pack/bin/$name" "$folder/bin/$name"
done <"$folder/gpu_suites"
strip -o "$pack/bin/banter_bench_cuda" "$folder/bin/banter_bench_cuda"
strip --strip-unneeded -o "$pack/lib/libbanter_cuda.so" "$folder/lib/libbanter_cuda.so"
cp -r tests/data "$pack/data"
cp tests/gpu/check.sh "$folder/gpu_suites" "$pack/"
echo "$architecture" >"$pack/gpu_architecture"

# Everything that is not on every Linux must be inside.
needed=$(objdump -p "$pack"/bin/* "$pack"/lib/* | sed -n 's/^ *NEEDED *//p' | sort -u)
if grep -vxE 'lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so\.[0-9]+|ld-linux-[a-z0-9_-]+\.so\.[0-9]+' <<<"$needed" >&2; then
  say "the packed programs need these libraries, which another machine may lack"
  exit 1
fi
# The programs share most of their code: a window as large as most of them together.
tar -C "$pack" -c . | xz -T1 --lzma2=preset=2,dict=128MiB >"$folder/banter-gpu-sm_$architecture.tar.xz"
say "$(du -m "$folder/banter-gpu-sm_$architecture.tar.xz" | cut -f1) MB, $(wc -l <"$folder/gpu_suites") suites"
echo "$folder/banter-gpu-sm_$architecture.tar.xz"
