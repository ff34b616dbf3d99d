"""Reads `ncu --csv` of `bench_gpu once` and sets the bytes between multiprocessors and the L2, and DRAM's, beside the model's."""
import csv
import sys

text = sys.stdin.read().splitlines()
model = {}
for line in text:  # bench_gpu's own lines: name, ..., "moves N bytes, at least M"
    if " moves " in line:
        words = line.split()
        model[words[0]] = (int(words[words.index("moves") + 1]), int(words[words.index("least") + 1]))
start = next(i for i, line in enumerate(text) if line.startswith('"ID"'))
rows = {}
for row in csv.DictReader(line for line in text[start:] if line.startswith('"')):
    rows.setdefault(row["Kernel Name"].split("(")[0], {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
print("| kernel | L2 MB counted | by the model | counted over model | DRAM MB counted | least |")
print("| --- | --- | --- | --- | --- | --- |")
for name, counted in rows.items():
    if name not in model:
        continue
    l2, (moved, least) = counted["l1tex__m_xbar2l1tex_read_bytes.sum"] + counted["l1tex__m_l1tex2xbar_write_bytes.sum"], model[name]
    print(f"| {name} | {l2 / 1e6:.2f} | {moved / 1e6:.2f} | {l2 / moved:.3f} | {counted['dram__bytes.sum'] / 1e6:.2f} | {least / 1e6:.2f} |")
