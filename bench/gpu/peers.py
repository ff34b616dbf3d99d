"""The vendor's libraries on the kernels of bench/gpu/first.cpp: microseconds a call, from chains of 40 in one graph, as ours."""
import torch
import torch.nn.functional as F

torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False


def median_us(call, sets, calls=40, repeats=15):
    for s in sets:
        call(*s)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    times = []
    for i in range(repeats + 3):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(a.elapsed_time(b) / calls * 1e3)
    return sorted(times)[len(times) // 2]


def pair(n, size, c, f, dtype, copies=8):
    sets = []
    for _ in range(copies):
        x = torch.randn(n, c, size, size, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
        v = torch.randn(c, 1, 3, 3, device="cuda", dtype=dtype) / 3
        w = (torch.randn(f, c, 1, 1, device="cuda", dtype=dtype) / c**0.5).to(memory_format=torch.channels_last)
        a, b = (torch.randn(k, device="cuda", dtype=dtype) for k in (c, f))
        sets.append((x, v, a, w, b))
    return median_us(lambda x, v, a, w, b: F.relu6(F.conv2d(F.relu6(F.conv2d(x, v, a, padding=1, groups=x.shape[1])), w, b)), sets)


def matmul(m, n, k, dtype, copies=4):
    sets = [(torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)) for _ in range(copies)]
    return median_us(torch.mm, sets)


print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
for n, size, c, f, dtype in [(32, 112, 32, 64, torch.half), (32, 56, 128, 128, torch.half), (32, 28, 256, 256, torch.half),
                             (32, 14, 512, 512, torch.half), (1, 14, 512, 512, torch.half), (1, 56, 128, 128, torch.float)]:
    print(f"pair {size}x{size}x{c}-{f} n{n} {dtype}: {pair(n, size, c, f, dtype):9.2f} us")
print(f"matmul 4096 f16: {matmul(4096, 4096, 4096, torch.half):9.2f} us")
print(f"matmul 1024 f32: {matmul(1024, 1024, 1024, torch.float):9.2f} us")
