#!/usr/bin/env bash
# What needs a GPU, in parts of a few minutes each. `build` makes a binary that needs only libc and libstdc++ (carry build-gpu/ to the GPU
# machine); `check` compares every kernel with the CPU target; `sanitize` repeats that for the small ones under compute-sanitizer's four
# tools; `right` runs whole networks, neighbours joined, against torch in fp32, without torch.compile; `networks 1|2|3|4` times a quarter of
# them beside torch.compile, N=1 and N=32; `time` measures kernels, peers in the same process; `models` takes rows of your own (--rows:
# bench/gpu/models.py says which); `kernels NETWORK:TYPE:N,...` (the same rows) or `kernels FILE SIZE=N ...` checks and times every kernel of networks; `attention` and
# `matmul` check all kinds of those, the small ones under memcheck and racecheck too, and time the others beside cuDNN, FlexAttention and cuBLAS;
# `decode` times one query over long caches, planned whole; `loss` a linear layer with its cross-entropy; `counters` sets the bytes that the
# GPU counted beside the model's.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${BENCH_GPU:-build-gpu/bench_gpu}
both() { for name in "$@"; do printf '%s:f16:1,%s:f16:32,' "$name" "$name"; done | sed 's/,$//'; echo; }
quarter() {
  case "$1" in
    1) both mobilenet_v2 mobilenet_v1 mnasnet_b1 ;;
    2) both mobilenet_v3_large mobilenet_v4_conv_m proxylessnas_gpu ;;
    3) both efficientnet_b0 xception convnext_t ;;
    4) echo "$(both vit_s),mobilenet_v2:f32:1,mobilenet_v2:f32:32,efficientnet_b0:f32:1,xception:f32:1" ;;
    *) echo "usage: bench/gpu.sh networks 1|2|3|4" >&2; exit 2 ;;
  esac
}
models() { TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/models.py "$@"; }
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
    "$bench" dump "$folder" "${2:-}"
    python3 bench/gpu/peers.py "$folder"
    rm -r "$folder" ;;
  attention | matmul)
    "$bench" check "$1"
    for tool in memcheck racecheck; do
      echo "-- $tool"
      compute-sanitizer --tool "$tool" --error-exitcode 1 "$bench" small "$1" | tail -4
    done
    "$0" time "$1" ;;
  right) models --no-compile --rows "$(for part in 1 2 3 4; do quarter $part; done | paste -sd, -)" ;;
  networks) rows=$(quarter "${2:-}"); models --rows "$rows" ;;
  models) models "${@:2}" ;;
  sparse) TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/sparse.py "${@:2}" ;;
  decode) TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/decode.py "${@:2}" ;;
  loss) TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/loss.py "${@:2}" ;;
  kernels)
    if [ -f "${2:-}" ]; then "${bench}_models" both "${@:2}"
    else BENCH_GPU=$bench TILEWRIGHT_LIBRARY=${TILEWRIGHT_LIBRARY:-$PWD/build-gpu/libtilewright.so} PYTHONPATH=python python3 bench/gpu/network_kernels.py "${@:2}"; fi ;;
  counters)
    ncu --clock-control none --csv --print-units base --metrics dram__bytes.sum,l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__m_l1tex2xbar_write_bytes.sum,gpu__time_duration.sum "$bench" once 2> /dev/null | python3 bench/gpu/counters.py ;;
  all) for part in check sanitize right 'networks 1' 'networks 2' 'networks 3' 'networks 4' time counters; do "$0" $part; done ;;
  *) echo "usage: bench/gpu.sh build|check|sanitize|right|networks|time|models|sparse|decode|loss|kernels|attention|matmul|counters|all" >&2; exit 2 ;;
esac
