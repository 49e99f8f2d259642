"""Builds, tests, signs and verifies the CUDA examples of receipts: run by receipts.sh."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROOF = os.environ["GPU_PROOF_BINARY"]
LIMIT = 300  # seconds of one command
# Each example, what it needs beside nvcc, and the file with its kernel.
EXAMPLES = {
    "cuda_ctypes_matmul": ("numpy", "src/matmul.cu"),
    "cuda_pybind11_matmul": ("pybind11", "src/matmul.cu"),
    "cuda_nanobind_matmul": ("nanobind", "src/matmul.cu"),
    "jax_ffi_cuda_matmul": ("jax", "src/matmul_ffi.cu"),
}
# The planted fault: the last element of each row of A is left out where the row is longer than one tile.
WRONG = ("at + i < k;", "at + i < (k > kTile ? k - 1 : k);")


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command and keeps what it prints in the log."""
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        done = subprocess.CompletedProcess(command, 124, f"no end after {exc.timeout} s\n")
    with open(Path(os.environ["OUT"], "receipts.log"), "a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n{done.stdout}exit status {done.returncode}\n\n")
    return done


def make_key(home: Path) -> None:
    """A throw-away key and its line of allowed signers; OpenSSH is not everywhere where a GPU is."""
    key = home / "key"
    if shutil.which("ssh-keygen"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        line = Path(str(key) + ".pub").read_text()
    else:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True)
        command = ["openssl", "pkey", "-in", str(key), "-pubout", "-outform", "DER"]
        public = subprocess.run(command, check=True, capture_output=True).stdout[-32:]  # behind 12 bytes of ASN.1
        parts = (b"ssh-ed25519", public)
        blob = b"".join(struct.pack(">I", len(part)) + part for part in parts)
        line = "ssh-ed25519 " + base64.b64encode(blob).decode() + "\n"
    key.chmod(0o600)
    (home / "allowed_signers").write_text("device " + line)


def commit(place: Path) -> None:
    """Commits all files."""
    identity = ["-c", "user.name=device", "-c", "user.email=device@example.org"]
    for command in (["add", "-A"], [*identity, "commit", "-q", "--allow-empty", "-m", "state"]):
        subprocess.run(["git", *command], cwd=place, check=True)


def tests(place: Path, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest with a receipt."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_gpu_proof.plugin", "--gpu-proof-enable",
               f"--gpu-proof-key={home / 'key'}", "--gpu-proof-signer=device", *options]  # fmt: skip
    return run(command, place)


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip("= ") for line in reversed(text.splitlines()) if line.strip("= ")), "")


def example(name: str, home: Path) -> tuple[str, list[str]]:
    """Whether an example went well ("ok", "not run", "FAILED"), and what is to be said of it."""
    needed, kernel = EXAMPLES[name]
    if run([sys.executable, "-c", f"import {needed}"], home).returncode != 0:
        return "not run", [f"{needed} is not installed"]
    place = home / name
    shutil.copytree(ROOT / "examples" / name, place)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place, check=True)
    said = []

    def build() -> None:
        started = time.monotonic()
        done = run(["sh", "build.sh"], place)
        if done.returncode != 0:
            raise RuntimeError("build.sh: " + last_line(done.stdout))
        said.append(f"built in {time.monotonic() - started:.0f} s")

    try:
        build()
        commit(place)
        done = tests(place, home)
        said.append(last_line(done.stdout))
        if done.returncode != 0:
            raise RuntimeError("pytest: exit status " + str(done.returncode))
        commit(place)
        verify = [PROOF, "verify", "--receipt", "gpu-proof.json", "--allowed-signers", str(home / "allowed_signers"),
                  "--require-gpu", "--recheck"]  # fmt: skip
        done = run(verify, place)
        if done.returncode != 0:
            raise RuntimeError("verify: " + last_line(done.stdout))
        said.append("verified, outputs checked again")
        text = (place / kernel).read_text()
        (place / kernel).write_text(text.replace(*WRONG))
        assert (place / kernel).read_text() != text, "the fault was not planted"
        build()
        commit(place)
        done = tests(place, home)
        if done.returncode != 1 or (place / "gpu-proof.json").exists():
            raise RuntimeError("the broken kernel got a receipt: exit status " + str(done.returncode))
        said.append("broken kernel: " + last_line(done.stdout))
    except RuntimeError as exc:
        return "FAILED", [*said, str(exc)]
    return "ok", said


def main() -> int:
    """Runs all examples, or those that are named."""
    names = sys.argv[1:] or list(EXAMPLES)
    out = Path(os.environ["OUT"])
    (out / "receipts.log").write_text("")
    states = []
    lines = []
    with tempfile.TemporaryDirectory(prefix="receipts-") as directory:
        home = Path(directory)
        make_key(home)
        for name in names:
            state, said = example(name, home)
            states.append(state)
            lines.append(f"| {name} | {state} | {'; '.join(said)} |")
            print(f"{name}: {state}: {'; '.join(said)}", flush=True)
    gpu = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], ROOT)
    machine = last_line(gpu.stdout) if gpu.returncode == 0 else "no GPU"
    text = f"# Receipts of the CUDA examples\n\nMade by bench/device/receipts.sh on {machine}.\n\n"
    text += "| example | outcome | what was seen |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    (out / "receipts.md").write_text(text)
    return 1 if "FAILED" in states else 3 if "not run" in states else 0


if __name__ == "__main__":
    sys.exit(main())
