"""Makes the files of this directory and figures.json, from the output of NVIDIA's own tools.

usage: make.py NVCC_BIN VERSION=PTXAS... OLD_CUOBJDUMP

NVCC_BIN is the folder with nvcc, ptxas and cuobjdump of CUDA 13; PTXAS are assemblers of older toolkits (12.0, 12.6,
12.8 and 12.9), OLD_CUOBJDUMP is one of CUDA 12, which reads what older assemblers write.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
NVCC_BIN, OLD_CUOBJDUMP = pathlib.Path(sys.argv[1]), sys.argv[-1]
ASSEMBLERS = dict(arg.split("=", 1) for arg in sys.argv[2:-1])


def run(*command):
    done = subprocess.run([str(c) for c in command], cwd=HERE, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return done.stdout + done.stderr


def assembler_figures(text):
    """What ptxas -v says, by kernel."""
    kernels, kernel, function = {}, "", ""
    for line in text.splitlines():
        if m := re.search(r"Compiling entry function '(\S+)'", line):
            kernel = m[1]
            kernels[kernel] = {}
        elif m := re.search(r"Function properties for (\S+)", line):
            function = m[1]
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if function == kernel:
                kernels[kernel] |= {"frame": int(m[1]), "spill_stores": int(m[2]), "spill_loads": int(m[3])}
        elif m := re.search(r"Used (\d+) registers", line):
            smem = re.search(r"(\d+) bytes smem", line)
            bars = re.search(r"used (\d+) barriers", line)
            kernels[kernel] |= {"registers": int(m[1]), "shared_static": int(smem[1]) if smem else 0}
            if bars:
                kernels[kernel]["barriers"] = int(bars[1])
    return kernels


def usage(cuobjdump, file):
    """What cuobjdump -res-usage says, by kernel."""
    kernels = {}
    for name, line in re.findall(r"Function (\S+):\n\s*(.*)", run(cuobjdump, "-res-usage", file)):
        figures = dict(re.findall(r"([A-Z]+(?:\[\d+\])?):(\d+)", line))
        kernels[name] = {
            "registers": int(figures["REG"]),
            "shared": int(figures["SHARED"]),
            "local": int(figures["LOCAL"]),
            "constant": {k[9:-1]: int(v) for k, v in figures.items() if k.startswith("CONSTANT")},
        }
        if "STACK" in figures:  # not known in code with recursion
            kernels[name]["stack"] = int(figures["STACK"])
    return kernels


def cubin(file, version, arch, ptx, *flags):
    ptxas = NVCC_BIN / "ptxas" if version == "13.2" else ASSEMBLERS[version]
    said = assembler_figures(run(ptxas, "-v", "-arch", arch, *flags, ptx, "-o", file))
    recorded = usage(NVCC_BIN / "cuobjdump" if version >= "12.3" else OLD_CUOBJDUMP, file)
    for name, figures in said.items():
        assert figures["registers"] == recorded[name]["registers"], (file, name)
    kernels = {name: figures | recorded[name] for name, figures in said.items()}
    return {"file": file, "arch": arch, "version": version, "kernels": kernels}


def main():
    nvcc = NVCC_BIN / "nvcc"
    work = pathlib.Path("/tmp")
    run(nvcc, "-arch=compute_80", "-ptx", "kernels.cu", "-o", work / "kernels.ptx")
    run(nvcc, "-arch=compute_90a", "-ptx", "cluster.cu", "-o", work / "cluster.ptx")
    # Older assemblers do not know the newest version of PTX, but all that is used here.
    text = (work / "kernels.ptx").read_text()
    for arch in ("sm_80", "sm_60"):
        old = re.sub(r"(?m)^\.version .*", ".version 7.8", text)
        (work / f"{arch}.ptx").write_text(re.sub(r"(?m)^\.target .*", f".target {arch}", old))
    old = re.sub(r"(?m)^\.version .*", ".version 8.0", text)
    (work / "sm_90a.ptx").write_text(re.sub(r"(?m)^\.target .*", ".target sm_90a", old))
    files = [
        cubin("sm60-12.6.cubin", "12.6", "sm_60", work / "sm_60.ptx", "-maxrregcount", "24"),
        cubin("sm80-12.0.cubin", "12.0", "sm_80", work / "sm_80.ptx"),
        cubin("sm80-12.8-24.cubin", "12.8", "sm_80", work / "sm_80.ptx", "-maxrregcount", "24"),
        cubin("sm90a-12.9.cubin", "12.9", "sm_90a", work / "sm_90a.ptx"),
        cubin("sm100-12.9.cubin", "12.9", "sm_100", work / "sm_80.ptx"),
        cubin("sm80-13.2.cubin", "13.2", "sm_80", work / "sm_80.ptx"),
        cubin("sm90a-13.2-24.cubin", "13.2", "sm_90a", work / "sm_90a.ptx", "-maxrregcount", "24"),
        cubin("sm120-13.2.cubin", "13.2", "sm_120", work / "sm_80.ptx", "-O0"),
        cubin("cluster-13.2.cubin", "13.2", "sm_90a", work / "cluster.ptx"),
    ]
    (HERE / "figures.json").write_text(json.dumps(files, indent="\t", sort_keys=True) + "\n")

    several = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]",
               "-gencode", "arch=compute_100f,code=sm_100f"]
    for mode in ("none", "speed", "size"):
        run(nvcc, *several, "-Xfatbin", "-compress-all", f"--compress-mode={mode}", "-fatbin", "small.cu",
            "-o", f"{mode}.fatbin")
    run(nvcc, "-gencode", "arch=compute_90,code=[sm_90,lto_90]", "-fatbin", "small.cu", "-o", "lto.fatbin")
    run(nvcc, "-arch=sm_90", "-rdc=true", "-c", "small.cu", "-o", "relocatable.o")
    run(nvcc, *several, "-shared", "-cudart", "none", "-Xcompiler", "-fPIC", "small.cu", "-o", "library.so")
    run("strip", "library.so")


main()
