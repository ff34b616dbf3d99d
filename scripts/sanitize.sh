#!/usr/bin/env bash
# Builds everything with sanitizers and runs the C++ tests, the C interface and the tool under them.
#   scripts/sanitize.sh address|thread [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${2:-$(nproc)}
case ${1:-} in
  address) sanitizers="address;undefined"; tests='^(support|expr|onnx|normal|law|machine|schedule|cost|plan|loop|check|target_cpu|runtime|api|cli)$' ;;
  thread) sanitizers=thread; tests='^(support|target_cpu|runtime|api)$' ;;
  *) echo "usage: scripts/sanitize.sh address|thread [JOBS]" >&2; exit 2 ;;
esac
build=build-$1
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
unset TILEWRIGHT_LONG
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DTILEWRIGHT_SANITIZE="$sanitizers" > /dev/null
cmake --build "$build" -j "$jobs" > "$build/log.txt" || { tail -50 "$build/log.txt"; exit 1; }
cd "$build"
TILEWRIGHT_SANITIZED=1 ctest --output-on-failure -R "$tests" --timeout 3600
