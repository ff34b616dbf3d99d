#!/usr/bin/env bash
# wheel_test.sh PYTHON LIBRARY: builds the wheel around a library that is there already, installs it into an empty
# environment and uses it. Needs a package index (for setuptools and numpy), so it runs in `make test-long` only.
set -euo pipefail
[ -n "${TILEWRIGHT_LONG:-}" ] || { echo "skipped: TILEWRIGHT_LONG is not set"; exit 77; }
python=$1 library=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The sources are copied: building must not leave anything in the tree.
mkdir "$scratch/source"
cp -r "$root"/{pyproject.toml,setup.py,CMakeLists.txt,LICENSE,README.md,python} "$scratch/source"
"$python" -m venv "$scratch/venv"
pip=("$scratch/venv/bin/python" -m pip -q --disable-pip-version-check)
TILEWRIGHT_LIBRARY=$library "${pip[@]}" wheel --no-deps -w "$scratch/wheels" "$scratch/source"
wheel=$(ls "$scratch"/wheels/*.whl)
case "$wheel" in
  *-py3-none-linux_*.whl) ;;
  *) echo "FAILED: $wheel is not for every Python 3 of this platform" >&2; exit 1 ;;
esac
"${pip[@]}" install "$wheel"
cd "$scratch"
env -u TILEWRIGHT_LIBRARY -u PYTHONPATH "$scratch/venv/bin/python" - <<'PYTHON'
import numpy as np, tilewright
assert "site-packages" in tilewright.__file__, tilewright.__file__
session = tilewright.compile("program twice(n)\ninput X[n] : f32\nY[n] = 2 * X[n]\noutput Y\n")
[y] = session.run(None, {"X": np.arange(5, dtype=np.float32)})
assert y.tolist() == [0, 2, 4, 6, 8], y
print("wheel", tilewright.__version__, "works")
PYTHON
