#!/usr/bin/env bash
# What needs a GPU. `build` makes a binary that needs only libc and libstdc++ (carry build-gpu/ to the GPU machine); `check` compares
# every kernel with the CPU target; `sanitize` repeats that for the small ones under compute-sanitizer's four tools; `time` measures,
# peers in the same process; `models` runs whole networks beside torch (--rows: bench/gpu/models.py says which); `kernels FILE SIZE=N ...`
# checks and times every kernel of a network; `counters` sets the bytes that the GPU counted beside the model's.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${BENCH_GPU:-build-gpu/bench_gpu}
case "${1:-all}" in
  build)
    cmake -S . -B build-gpu/tree -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=OFF > /dev/null
    cmake --build build-gpu/tree -j "$(nproc)" --target bench_gpu bench_gpu_models tilewright_tool tilewright_library
    for file in bench_gpu bench_gpu_models tilewright libtilewright.so; do strip -o "build-gpu/$file" "build-gpu/tree/$file"; done ;;
  check) "$bench" check ;;
  sanitize)
    for tool in memcheck racecheck initcheck synccheck; do
      echo "-- $tool"
      compute-sanitizer --tool "$tool" --error-exitcode 1 "$bench" small | tail -4
    done ;;
  time)
    folder=$(mktemp -d)
    "$bench" dump "$folder"
    python3 bench/gpu/peers.py "$folder"
    rm -r "$folder" ;;
  models)
    TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/models.py "${@:2}" ;;
  kernels) "${bench}_models" both "${@:2}" ;;
  counters)
    ncu --clock-control none --csv --print-units base --metrics dram__bytes.sum,l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__m_l1tex2xbar_write_bytes.sum,gpu__time_duration.sum "$bench" once 2> /dev/null | python3 bench/gpu/counters.py ;;
  all) for part in check sanitize time counters; do "$0" "$part"; done ;;
  *) echo "usage: bench/gpu.sh build|check|sanitize|time|models|kernels|counters|all" >&2; exit 2 ;;
esac
