"""Runs the cases packed by `contract pack` through PyTorch's own kernels on a GPU.

usage: torch_contract.py CASES.safetensors OUTDIR [compiled]

Writes one file per backend: eager kernels, each backend of scaled_dot_product_attention, a few CPU kernels, and, with
the argument `compiled`, Inductor's Triton kernels. Cases a kernel refuses are counted and named, never replaced. Needs
torch only.
"""

import json
import struct
import sys
import warnings

import torch
from torch_ops import ATTENTION, COMPILED, OPS, exact_arithmetic, forced
from torch_ops import DTYPES as CASE_DTYPES

warnings.filterwarnings("ignore")
exact_arithmetic()
torch._dynamo.config.recompile_limit = 256
torch._dynamo.config.accumulated_recompile_limit = 100000

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I8": torch.int8, "I32": torch.int32,
    "I64": torch.int64, "U8": torch.uint8, "BOOL": torch.bool,
}
NAMES = {v: k for k, v in DTYPES.items()}


def read(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + n])
    meta = header.pop("__metadata__", {})
    body = memoryview(bytearray(raw[8 + n :]))
    out = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        dtype = DTYPES[t["dtype"]]
        flat = torch.frombuffer(body[lo:hi], dtype=dtype) if hi > lo else torch.empty(0, dtype=dtype)
        out[name] = flat.reshape(t["shape"])
    return meta, out


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        t = t.detach().contiguous().cpu()
        b = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(b)]}
        blobs.append(b)
        at += len(b)
    h = json.dumps(header).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + b"".join(blobs))


def inputs_of(key, tensors, order):
    return [tensors[n].cuda() for n in order[key]]


def run(name, fns, cases, out_path, on_cpu=False):
    meta, tensors = cases
    order = {}
    for n in tensors:
        order.setdefault(n.split("/")[0], []).append(n)
    outs, refused = {}, {}
    for key, text in sorted(meta.items()):
        note = json.loads(text)
        fn = fns.get(note["op"])
        if fn is None:
            refused.setdefault(note["op"], ["no such kernel", 0])[1] += 1
            continue
        try:
            args = [tensors[n] for n in order[key]] if on_cpu else inputs_of(key, tensors, order)
            r = fn(dict(note["attrs"], dtype=CASE_DTYPES.get(note["dtype"])), *args)
            torch.cuda.synchronize()
        except Exception as e:  # a refusal is data, not an end
            refused.setdefault(note["op"] + "/" + note["dtype"], [str(e).splitlines()[0][:100], 0])[1] += 1
            continue
        if r is None:
            refused.setdefault(note["op"] + "/" + note["dtype"], ["no fused kernel", 0])[1] += 1
            continue
        if not isinstance(r, dict):
            r = {"output": r}
        for o, t in r.items():
            outs[key + "/" + o] = t
    write(out_path, outs)
    print(f"{name}: {len(outs)} outputs")
    for op, (why, n) in sorted(refused.items()):
        print(f"  refused {op}: {n} ({why})")


def main():
    cases, out = read(sys.argv[1]), sys.argv[2]
    print(torch.__version__, torch.cuda.get_device_name())
    eager = {k: f for k, f in OPS.items() if k not in ATTENTION}
    run("eager", eager, cases, out + "/torch-eager.safetensors")
    backends = torch.nn.attention.SDPBackend
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        fns = dict.fromkeys(ATTENTION, forced(getattr(backends, name)))
        run(name, fns, cases, f"{out}/torch-sdpa-{name.split('_')[0].lower()}.safetensors")
    run("cpu", {k: OPS[k] for k in ("rmsnorm", "layernorm", "softmax", "cumsum", "groupnorm")}, cases,
        out + "/torch-cpu.safetensors", on_cpu=True)
    if len(sys.argv) > 3 and sys.argv[3] == "compiled":
        fns = {k: torch.compile(OPS[k], dynamic=True) for k in COMPILED}
        run("compiled", fns, cases, out + "/torch-compiled.safetensors")


main()
