"""Checks an installed package: run by test-package.sh with the root of the checkout to compare with."""

import pathlib
import subprocess
import sys

import numpy as np

import gpuemu
import gpuemu.worker

root = pathlib.Path(sys.argv[1])
installed = pathlib.Path(gpuemu.__file__).parent
assert root not in installed.parents, installed
assert (installed / "py.typed").is_file()

# The worker is made of the files that the binary embeds.
runner, package = root / "internal" / "runner", root / "python" / "src" / "gpuemu"
parts = [p.read_bytes() for p in (runner / "working.py", package / "_exceptions.py", runner / "worker.py")]
worker = pathlib.Path(gpuemu.worker.__file__).read_bytes()
assert worker == b"".join(parts), "gpuemu.worker differs from the engine's"
binary = pathlib.Path(sys.executable).parent / "gpuemu"
embedded = binary.read_bytes()
assert all(part in embedded for part in parts), "the binary embeds another worker"
version = subprocess.run([str(binary), "version"], check=True, capture_output=True, text=True).stdout
assert gpuemu.__version__ in version, version


def my_softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).astype(x.dtype)


# The examples of the README as they stand.
blocks = (root / "python" / "README.md").read_text().split("```python\n")[1:]
quick_start, as_test = (block.split("```")[0] for block in blocks)
names = {"my_softmax": my_softmax}
exec(quick_start, names)
assert names["results"].ok and names["results"].total == 100, names["results"]

pathlib.Path("test_readme.py").write_text(
    "import numpy as np\ndef my_softmax(x):\n"
    "    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))\n"
    "    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)\n\n" + as_test
)
run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-W", "ignore"], capture_output=True, text=True)
assert run.returncode == 0, run.stdout + run.stderr
print(f"installed gpuemu {gpuemu.__version__}: {names['results']}; pytest: {run.stdout.strip().splitlines()[-1]}")
