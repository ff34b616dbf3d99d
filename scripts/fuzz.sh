#!/usr/bin/env bash
# Builds the fuzzers of both readers with clang, ASan and UBSan, and runs each for some seconds from the committed corpus. Prints
# executions and new coverage; a finding leaves its input in build-fuzz/ and fails.
#   scripts/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
command -v clang++-16 > /dev/null || { echo "clang++-16 is missing: scripts/setup.sh installs it" >&2; exit 4; }
mkdir -p build-fuzz
cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_C_COMPILER=clang-16 \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_FUZZ=ON > build-fuzz/log.txt
cmake --build build-fuzz --target fuzz_onnx_reader fuzz_text >> build-fuzz/log.txt || { cat build-fuzz/log.txt; exit 1; }
cd build-fuzz
run() { # name, corpus, further flags
  local name=$1 corpus=$2
  shift 2
  mkdir -p "new_$corpus"
  "./$name" -max_total_time="$seconds" -print_final_stats=1 "$@" "new_$corpus" "../tests/fuzz/corpus/$corpus" > "$name.log" 2>&1 \
    || { tail -40 "$name.log"; echo "$name: a finding" >&2; exit 1; }
  echo "$name: $(awk '/stat::number_of_executed_units/ {print $2}' "$name.log") executions, $(ls "new_$corpus" | wc -l) new inputs in ${seconds} s"
}
run fuzz_onnx_reader onnx -malloc_limit_mb=64 &
onnx=$!
run fuzz_text text -dict=../tests/fuzz/text.dict -timeout=20
wait $onnx
