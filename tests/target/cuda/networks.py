"""Networks of bench/zoo, planned for a GPU, printed, and run kernel by kernel by the emulated one.

    networks.py EMULATE_MODELS NETWORK:f16|f32:h200|a100:joined|apart ...       or --long: all of them, compiled by NVRTC too
"""
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
import onnx  # noqa: E402
from zoo import NETWORKS, build  # noqa: E402
from zoo.half import half  # noqa: E402


def main():
    tool, *rows = sys.argv[1:]
    more = []
    if rows == ["--long"]:
        rows = [":".join(r) for r in itertools.product(sorted(n for n in NETWORKS if n not in ("bert_base", "gpt2_small")), ("f16", "f32"), ("h200", "a100"), ("joined", "apart"))]
        more = ["compile"]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            name, kind, machine, how = row.split(":")
            path = Path(folder) / f"{name}_{kind}.onnx"
            if not path.exists():
                onnx.save(half(build(name, 96, 1)) if kind == "f16" else build(name, 96, 1), path)
            done = subprocess.run([tool, str(path), f"machine={machine}", *(["apart"] if how == "apart" else []), *more], capture_output=True, text=True)
            bad += done.returncode != 0
            print(row, done.stdout + done.stderr, sep="\n", flush=True)
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
