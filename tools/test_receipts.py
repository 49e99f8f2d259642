"""Checks an installed pytest-gpu-proof: run by test-package.sh in an empty directory, with the root of the checkout.

The quick start of its README as it stands, in a repository of its own and with a throw-away key: the tests run, the
receipt is signed, committed and verified; for other code it is refused.
"""

import os
import pathlib
import subprocess
import sys

import pytest_gpu_proof

root, home = pathlib.Path(sys.argv[1]), pathlib.Path(os.environ["HOME"])
installed = pathlib.Path(pytest_gpu_proof.__file__).parent
assert root not in installed.parents, installed
assert (installed / "py.typed").is_file()


def run(command, status=0):
    """Runs a command of the shell, as the README shows it, and returns what it prints."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == status, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


readme = (root / "python" / "pytest-gpu-proof" / "README.md").read_text()
quick_start = readme.split("```python\n")[1].split("```")[0]
block = "pytest " + readme.split("```\npytest ")[1].split("```")[0]
commands = [line.split("  ")[0] for line in block.splitlines()]
assert [line.split()[0] for line in commands] == ["pytest", "git", "gpu-proof"], commands

for folder in ("src", "tests", ".github", home / ".ssh"):
    pathlib.Path(folder).mkdir()
pathlib.Path("src/relu.py").write_text(
    "def python_relu(values):\n    return [v if v > 0 else 0.0 for v in values]\n\n"
    "def cuda_relu(values):\n    return [max(v, 0.0) for v in values]\n"
)
pathlib.Path("tests/test_relu.py").write_text(quick_start)
pathlib.Path("pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["src"]\n')
pathlib.Path(".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
# The key is found where OpenSSH keeps it, and the name of the signer where Git has it.
run(f"ssh-keygen -q -t ed25519 -N '' -f {home}/.ssh/id_ed25519")
run("git config --global user.name Ada && git config --global user.email ada@example.org")
run("git config --global github.user ada && git config --global init.defaultBranch main")
public = (home / ".ssh" / "id_ed25519.pub").read_text()
pathlib.Path(".github/allowed_signers").write_text(f"ada {public}")
run("git init -q && git add -A && git commit -q -m code")

pytest, commit, verify = commands
said = run(pytest)
assert "1 passed" in said and "[gpu-proof]" in said, said
run(commit.replace("git commit && git push", "git commit -q -m receipt"))
said = run(verify)
again = run(verify.replace("gpu-proof verify", f"{sys.executable} -m pytest_gpu_proof verify"))
assert said == again
pathlib.Path("src/relu.py").write_text("def python_relu(values):\n    return values\n\ncuda_relu = python_relu\n")
run("git commit -q -a -m other")
run(verify, status=1)
print(f"installed pytest-gpu-proof {pytest_gpu_proof.__version__}: signed, verified, and refused for other code")
