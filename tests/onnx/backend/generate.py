"""Writes the ONNX backend node tests of the installed onnx package as folders that run_node_tests reads.

    generate.py OUT      ->   OUT/test_abs/{model.onnx, tolerance.txt, test_data_set_0/{input_0.pb, output_0.pb}}

Data that is no tensor (sequences, optionals) is left out: such tests are not claimed.
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def write_values(folder, kind, values, infos):
    for i, (value, info) in enumerate(zip(values, infos)):
        path = folder / f"{kind}_{i}.pb"
        if isinstance(value, onnx.TensorProto):
            path.write_bytes(value.SerializeToString())
        elif info.type.HasField("tensor_type") and value is not None:
            path.write_bytes(numpy_helper.from_array(np.asarray(value), info.name).SerializeToString())


def main():
    out = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    cases = collect_testcases(None)
    for case in cases:
        folder = out / case.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        (folder / "tolerance.txt").write_text(f"{case.rtol} {case.atol}\n")
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{k}"
            data.mkdir(exist_ok=True)
            write_values(data, "input", inputs, case.model.graph.input)
            write_values(data, "output", outputs, case.model.graph.output)
    (out / "version.txt").write_text(f"onnx {onnx.__version__}, {len(cases)} tests\n")
    print(f"onnx {onnx.__version__}: {len(cases)} tests in {out}")


if __name__ == "__main__":
    main()
