#!/usr/bin/env bash
# What needs a GPU. `build` makes a binary that needs only libc and libstdc++ (carry build-gpu/ to the GPU machine); `check` compares
# every kernel with the CPU target; `sanitize` repeats that under compute-sanitizer's four tools; `time` measures, peers beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-all}" in
  build)
    cmake -S . -B build-gpu/tree -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=OFF > /dev/null
    cmake --build build-gpu/tree -j "$(nproc)" --target bench_gpu
    strip -o build-gpu/bench_gpu build-gpu/tree/bench_gpu ;;
  check) build-gpu/bench_gpu check ;;
  sanitize)
    for tool in memcheck racecheck initcheck synccheck; do
      echo "-- $tool"
      compute-sanitizer --tool "$tool" --error-exitcode 1 build-gpu/bench_gpu small | tail -4
    done ;;
  time)
    build-gpu/bench_gpu time
    python3 bench/gpu/peers.py ;;
  all) for part in check sanitize time; do "$0" "$part"; done ;;
  *) echo "usage: bench/gpu.sh build|check|sanitize|time|all" >&2; exit 2 ;;
esac
