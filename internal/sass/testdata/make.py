"""Makes the listings of this directory, and mix.json from what nvdisasm says in JSON about the same code.

usage: make.py NVCC_BIN OLD_CUOBJDUMP SM60_CUBIN

NVCC_BIN is the folder with nvcc, ptxas, cuobjdump and nvdisasm of CUDA 13; OLD_CUOBJDUMP is one of CUDA 12, which still
knows Pascal; SM60_CUBIN is the one among the files of package cubin. Run it in /src, with a copy of the sources there:
listings name the files they come from.
"""

import collections
import json
import pathlib
import subprocess
import sys

NVCC_BIN, OLD_CUOBJDUMP, SM60_CUBIN = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def mix(cubin):
    """Opcodes of each function, without the NOPs at its end."""
    functions = json.loads(run(NVCC_BIN / "nvdisasm", "-json", cubin))[1]
    counts = {}
    for function in functions:
        words = [(i.get("predicate", ""), i["opcode"]) for i in function["sass-instructions"]]
        while words and words[-1][1] == "NOP":
            words.pop()
        counts[function["function-name"]] = {
            "instructions": len(words),
            "predicated": sum(p != "" for p, _ in words),
            "opcodes": dict(sorted(collections.Counter(w for _, w in words).items())),
        }
    return counts


def main():
    nvdisasm, cuobjdump = NVCC_BIN / "nvdisasm", NVCC_BIN / "cuobjdump"
    run(NVCC_BIN / "nvcc", "-arch=sm_90a", "-cubin", "tensor.cu", "-o", "tensor.cubin")
    run(NVCC_BIN / "nvcc", "-arch=sm_90", "-lineinfo", "-cubin", "lines.cu", "-o", "lines.cubin")
    run(NVCC_BIN / "ptxas", "-arch", "sm_100a", "blackwell.ptx", "-o", "blackwell.cubin")
    listings = {
        "tensor.nvdisasm": run(nvdisasm, "-c", "tensor.cubin"),
        "hopper.cuobjdump": run(cuobjdump, "-sass", "-fun", "hopper", "tensor.cubin"),
        "lines.nvdisasm": run(nvdisasm, "-c", "-gi", "lines.cubin"),
        "lines-all.nvdisasm": run(nvdisasm, "lines.cubin"),
        "lines-registers.nvdisasm": run(nvdisasm, "-c", "-plr", "-hex", "lines.cubin"),
        "blackwell.nvdisasm": run(nvdisasm, "-c", "blackwell.cubin"),
        "pascal.cuobjdump": run(OLD_CUOBJDUMP, "-sass", "-fun", "barriers", SM60_CUBIN),
    }
    for name, text in listings.items():
        pathlib.Path(name + ".sass").write_text(text)
    counts = mix("tensor.cubin") | mix("lines.cubin") | mix("blackwell.cubin")
    pathlib.Path("mix.json").write_text(json.dumps(counts, indent="\t", sort_keys=True) + "\n")


main()
