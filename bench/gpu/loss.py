"""Linear layer and cross-entropy in one go, no logits in memory, beside torch's product and loss, in bf16 and with the loss in fp32.

    TILEWRIGHT_LIBRARY=libtilewright.so PYTHONPATH=python python3 bench/gpu/loss.py [--small --device cpu]

Every row is checked first: against doubles for some tokens, and against torch's own error on them.
"""
import argparse

import torch
import torch.nn.functional as F

import sparse

ROWS = [(8192, 4096, 128256)]


def program(tokens, depth, words):
    return (f"program linear_cross_entropy(t={tokens}, m={depth}, v={words})\ninput H[t m], W[v m] : bf16\ninput label[t] : index(v)\n"
            "Z[t v] : f32 = sum[m] H[t m] * W[v m]\nL[t] : f32 = logsumexp[v] Z[t v]\nT[t] : f32 = Z[t, label[t]]\nN[t] : f32 = L[t] - T[t]\noutput N\n")


def measure(tokens, depth, words, device):
    h = torch.randn(tokens, depth, device=device, dtype=torch.bfloat16)
    w = (torch.randn(words, depth, device=device) / depth**0.5).to(torch.bfloat16)
    label = torch.randint(0, words, (tokens,), device=device)
    narrow = lambda: F.cross_entropy(h @ w.t(), label, reduction="none")
    wide = lambda: F.cross_entropy((h @ w.t()).float(), label, reduction="none")
    some = min(tokens, 128)
    want = F.cross_entropy(h[:some].double() @ w.double().t(), label[:some], reduction="none")
    error = lambda out: ((out[:some].double() - want).norm() / want.norm()).item()
    theirs = [error(narrow()), error(wide())]
    times = [sparse.timed(call, 2, 5) if device == "cuda" else 1.0 for call in (wide, lambda: h @ w.t())]
    said = sparse.row(program(tokens, depth, words), {"H": h, "W": w, "label": label}, "f32", (tokens,), error, narrow)
    return f"{tokens} x {depth} x {words} | {said} | {times[0]:.0f} | {times[1]:.0f} | {theirs[0]:.1e}, {theirs[1]:.1e}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    sparse.on.device = given.device
    print("| tokens x depth x words | ours us | torch us | times | apart | kernels | with the loss in fp32, us | torch's product alone, us | torch's errors |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for row in [(256, 128, 1000)] if given.small else ROWS:
        torch.manual_seed(7)
        print(f"| {measure(*row, given.device)} |", flush=True)


main()
