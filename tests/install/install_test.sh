#!/usr/bin/env bash
# install_test.sh CMAKE BUILD CXX CC VERSION
set -euo pipefail
cmake=$1 build=$2 cxx=$3 cc=$4 version=$5
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$scratch/first" > "$scratch/log"
mv "$scratch/first" "$scratch/prefix"     # an installed tree can be moved
prefix=$scratch/prefix
[ "$("$prefix/bin/tilewright" --version)" = "tilewright $version" ] || fail "the installed tool does not run"

echo "-- find_package(tilewright CONFIG)"
"$cmake" -S "$here/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" > "$scratch/log" ||
  { cat "$scratch/log"; fail "configure"; }
"$cmake" --build "$scratch/consumer" > "$scratch/log" || { cat "$scratch/log"; fail "build"; }
[ "$("$scratch/consumer/consumer")" = "$version: 6" ] || fail "the CMake consumer prints something else"

echo "-- pkg-config"
pc=$(find "$prefix" -name tilewright.pc)
export PKG_CONFIG_PATH=${pc%/*}
[ "$(pkg-config --modversion tilewright)" = "$version" ] || fail "pkg-config tells another version"
"$cxx" -std=c++17 -pedantic -Wall -Wextra -Werror "$here/consumer/consumer.cpp" -o "$scratch/modern" $(pkg-config --cflags --libs tilewright)
"$cc" -std=c99 -pedantic -Wall -Werror "$here/consumer/consumer.c" -o "$scratch/plain" $(pkg-config --cflags --libs tilewright)
libdir=$(pkg-config --variable=libdir tilewright)
for program in plain modern; do
  [ "$(LD_LIBRARY_PATH=$libdir "$scratch/$program")" = "$version: 6" ] || fail "the $program consumer prints something else"
done

echo "-- what is needed and what is shown"
library=$libdir/libtilewright.so
for file in "$library" "$prefix/bin/tilewright"; do
  others=$(objdump -p "$file" | awk '/NEEDED/ {print $2}' | grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*)\.so' || true)
  [ -z "$others" ] || fail "$file needs $others"
done
strangers=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^tw_' || true)
[ -z "$strangers" ] || fail "exported: $strangers"
echo "installed, found and used"
