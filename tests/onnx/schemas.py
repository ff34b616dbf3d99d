"""Compares the input types of docs/onnx_operators.md (which a test keeps equal to the importer's table) with the onnx package.

    python tests/onnx/schemas.py docs/onnx_operators.md

For every row and the newest schema that it covers: inputs that the schema gives one type have one letter; what an input takes
is a part of what the schema allows there; the row begins no earlier than the operator does. Operators whose first schema is
older than the oldest operator set that we read begin there.
"""

import sys

from onnx import defs

OLDEST, NEWEST = 7, 28
ONNX = {"float": "f32", "float16": "f16", "bfloat16": "bf16", "double": "f64", "int8": "i8", "uint8": "u8", "int32": "i32",
        "int64": "i64", "bool": "bool", "float8e4m3fn": "f8e4m3", "float8e5m2": "f8e5m2"}
ALL = set(ONNX.values())
FLOAT, INT = {"f32", "f16", "bf16", "f64"}, {"i8", "u8", "i32", "i64"}
F8 = {"f8e4m3", "f8e5m2"}
WORDS = {"all": FLOAT | INT | {"bool"}, "any": ALL, "number": FLOAT | INT, "float": FLOAT, "int": INT, "byte": {"i8", "u8"}, "index": {"i32", "i64"}, "f8": F8}
# Where we take more than the schema says, on purpose.
WIDER = {
    "Attention attn_mask": "any number may be added",
}


def dtypes_of(words):
    return set().union(*(WORDS.get(w, {w}) for w in words.split(";")[0].replace(",", " ").split()))


def allowed(schema, formal):
    kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(formal.type_str, [formal.type_str])
    return {ONNX[k[7:-1]] for k in kinds if k.startswith("tensor(") and k[7:-1] in ONNX}


def compare(name, since, until, words, dtypes):
    schema = defs.get_schema(name, until, "")
    problems = [] if since >= min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == name and s.domain == "") else ["begins later"]
    kinds = words.split()
    letters = {}
    for i, formal in enumerate(schema.inputs):
        if i >= len(kinds) and not kinds[-1].endswith("*"):
            problems.append(f"input {formal.name} is not in the table")
            continue
        kind = kinds[min(i, len(kinds) - 1)].rstrip("*")
        if letters.setdefault(formal.type_str, kind.partition(":")[0]) != kind.partition(":")[0]:
            problems.append(f"input {formal.name} may differ in type")
        letter, _, bound = kind.partition(":")
        takes = dtypes_of(dtypes) if kind == "T" else dtypes_of(bound) if bound else ALL if kind.isupper() else dtypes_of(kind)
        good = allowed(schema, formal)
        more = takes - good - (FLOAT if good & FLOAT else set())  # one width of floats is as good as another
        if more and (letter == "T" or bound or kind.islower()) and f"{name} {formal.name}" not in WIDER:
            problems.append(f"input {formal.name} takes {', '.join(sorted(more))}")
    return problems


def main():
    rows = [line.split(" | ") for line in open(sys.argv[1]) if line.startswith("| ")][2:]
    failed = 0
    for name, versions, words, dtypes, _ in rows:
        name = name.removeprefix("| ")
        since, _, until = versions.rstrip("+").partition("-")
        for problem in compare(name, int(since), int(until or NEWEST), words, dtypes):
            print(f"{name} {versions}: {problem}")
            failed += 1
    print(f"{len(rows)} rows, {failed} differences")
    return 1 if failed or len(rows) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
