"""Runs the cases packed by `contract pack` through PyTorch's own kernels on a GPU.

usage: torch_contract.py CASES.safetensors OUTDIR [compiled]

Writes one file per backend: eager kernels, each backend of scaled_dot_product_attention, a few CPU kernels, and, with the
argument `compiled`, Inductor's Triton kernels. Cases a kernel refuses are counted and named, never replaced. Needs
torch only.
"""

import json
import struct
import sys
import warnings

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch._dynamo.config.recompile_limit = 256
torch._dynamo.config.accumulated_recompile_limit = 100000

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I8": torch.int8, "I32": torch.int32,
    "I64": torch.int64, "U8": torch.uint8, "BOOL": torch.bool,
}
NAMES = {v: k for k, v in DTYPES.items()}


def read(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + n])
    meta = header.pop("__metadata__", {})
    body = memoryview(bytearray(raw[8 + n :]))
    out = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        flat = torch.frombuffer(body[lo:hi], dtype=DTYPES[t["dtype"]]) if hi > lo else torch.empty(0, dtype=DTYPES[t["dtype"]])
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


def forced(backend):
    def f(a, q, k, v):
        with torch.nn.attention.sdpa_kernel(backend):
            return attention(a, q, k, v)
    return f


def attention(a, q, k, v):
    m, n, hq, hkv = q.shape[-2], k.shape[-2], q.shape[1], k.shape[1]
    k, v = k.repeat_interleave(hq // hkv, 1), v.repeat_interleave(hq // hkv, 1)
    mask = None
    if a["causal"] or a["window"]:
        off = n - m if a["align"] != "top_left" else 0
        i = torch.arange(m, device=q.device)[:, None] + off
        j = torch.arange(n, device=q.device)[None, :]
        mask = torch.ones(m, n, dtype=torch.bool, device=q.device)
        if a["causal"]:
            mask &= j <= i
        if a["window"]:
            mask &= j > i - a["window"]
    scale = a["scale"] or None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def rope(a, x, c, s):
    c, s = c[None, :, None, :], s[None, :, None, :]
    t = x.dtype
    acc = torch.float64 if t == torch.float64 else torch.float32
    if a["interleaved"]:
        x1, x2 = x[..., 0::2].to(acc), x[..., 1::2].to(acc)
        return torch.stack((x1 * c - x2 * s, x2 * c + x1 * s), -1).flatten(-2).to(t)
    x1, x2 = x.to(acc).chunk(2, -1)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(t)


def act(name, x):
    return {"none": lambda y: y, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
            "silu": F.silu}[name](x)


def fp8_matmul(a, x, y, sa, sb):
    return torch._scaled_mm(x.contiguous(), y.t().contiguous().t(), scale_a=sa.reshape(()), scale_b=sb.reshape(()),
                            out_dtype=torch.float32, use_fast_accum=a["fast_accum"])


def quantize(group):
    def f(a, x):
        acc = torch.float64 if x.dtype == torch.float64 else torch.float32
        y = x.to(acc)
        r, c = y.shape
        if group == "tensor":
            s = y.abs().amax().clamp_min(1e-10).reshape(1) / 127
            full = s
        elif group == "row":
            s = y.abs().amax(1).clamp_min(1e-10) / 127
            full = s[:, None]
        else:
            g = a["group"]
            p = F.pad(y, (0, -c % g)).reshape(r, -1, g)
            s = p.abs().amax(2).clamp_min(1e-10) / 127
            full = s.repeat_interleave(g, 1)[:, :c]
        return {"q": (y / full).round().clamp(-127, 127).to(torch.int8), "scale": s.float()}
    return f


def quantize_fp8(a, x):
    acc = torch.float64 if x.dtype == torch.float64 else torch.float32
    s = x.to(acc).abs().amax(1).clamp_min(1e-10) / 448
    return {"q": (x.to(acc) / s[:, None]).clamp(-448, 448).to(torch.float32).to(torch.float8_e4m3fn), "scale": s.float()}


def moe(a, x):
    acc = torch.float64 if x.dtype == torch.float64 else torch.float32
    w, i = torch.topk(torch.softmax(x, -1, dtype=acc), a["k"], -1)
    if a["renormalize"]:
        w = w / w.sum(-1, keepdim=True)
    return {"weights": w.to(x.dtype), "indices": i.to(torch.int32)}


def topk(a, x):
    v, i = torch.topk(x, a["k"], -1)
    return {"values": v, "indices": i}


def conv(f, groups=False):
    return lambda a, x, w, b: f(x, w, b, stride=a["stride"], padding=a["padding"], dilation=a["dilation"],
                                groups=x.shape[1] if groups else 1)


OPS = {
    "relu": lambda a, x: F.relu(x), "leaky_relu": lambda a, x: F.leaky_relu(x, a["alpha"]),
    "elu": lambda a, x: F.elu(x, a["alpha"]), "gelu": lambda a, x: F.gelu(x),
    "gelu_tanh": lambda a, x: F.gelu(x, approximate="tanh"), "silu": lambda a, x: F.silu(x),
    "sigmoid": lambda a, x: torch.sigmoid(x), "tanh": lambda a, x: torch.tanh(x),
    "softplus": lambda a, x: F.softplus(x, a["beta"], a["threshold"]), "exp": lambda a, x: torch.exp(x),
    "log": lambda a, x: torch.log(x), "rsqrt": lambda a, x: torch.rsqrt(x),
    "add": lambda a, x, y: x + y, "mul": lambda a, x, y: x * y,
    "swiglu": lambda a, g, u: F.silu(g) * u, "geglu": lambda a, g, u: F.gelu(g) * u,
    "sum": lambda a, x: x.sum(-1), "mean": lambda a, x: x.mean(-1), "max": lambda a, x: x.amax(-1),
    "argmax": lambda a, x: x.argmax(-1), "var": lambda a, x: x.var(-1, correction=a["correction"]),
    "logsumexp": lambda a, x: torch.logsumexp(x, -1), "cumsum": lambda a, x: x.cumsum(-1),
    "softmax": lambda a, x: torch.softmax(x, -1), "log_softmax": lambda a, x: torch.log_softmax(x, -1),
    "layernorm": lambda a, x, w, b: F.layer_norm(x, x.shape[-1:], w, b, a["eps"]),
    "rmsnorm": lambda a, x, w: F.rms_norm(x, x.shape[-1:], w, a["eps"]),
    "groupnorm": lambda a, x, w, b: F.group_norm(x, a["groups"], w, b, a["eps"]),
    "l2norm": lambda a, x: F.normalize(x, dim=-1, eps=a["eps"]),
    "batchnorm": lambda a, x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.0, a["eps"]),
    "matmul": lambda a, x, y: x @ y, "batched_matmul": lambda a, x, y: torch.bmm(x, y),
    "matmul_bias_act": lambda a, x, y, b: act(a["act"], torch.addmm(b, x, y)) if a["act"] in ("none", "relu") else None,
    "fp8_matmul": fp8_matmul,
    "attention": attention, "causal_attention": attention, "window_attention": attention, "gqa_attention": attention,
    "rope": rope,
    "cross_entropy": lambda a, x, t: F.cross_entropy(x, t, reduction="none", ignore_index=a["ignore_index"],
                                                      label_smoothing=a["label_smoothing"]),
    "embedding": lambda a, w, i: F.embedding(i, w), "gather": lambda a, x, i: torch.gather(x, 1, i),
    "scatter_add": lambda a, x, i, s: x.index_add(0, i, s) if x.dtype in (torch.float32, torch.float64) else None,
    "topk": topk, "moe_routing": moe,
    "conv1d": conv(F.conv1d), "conv2d": conv(F.conv2d), "depthwise_conv2d": conv(F.conv2d, True),
    "max_pool2d": lambda a, x: F.max_pool2d(x, a["kernel"], a["stride"], a["padding"]),
    "avg_pool2d": lambda a, x: F.avg_pool2d(x, a["kernel"], a["stride"], a["padding"]),
    "quantize_tensor": quantize("tensor"), "quantize_row": quantize("row"), "quantize_group": quantize("group"),
    "quantize_fp8_row": quantize_fp8,
}


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
            r = fn(note["attrs"], *args)
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


COMPILED = ["gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softplus", "swiglu", "geglu", "sum", "mean", "var", "logsumexp", "softmax",
            "log_softmax", "layernorm", "rmsnorm", "groupnorm", "l2norm", "rope", "moe_routing", "cumsum", "cross_entropy"]


ATTENTION = ["attention", "causal_attention", "window_attention", "gqa_attention"]


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
