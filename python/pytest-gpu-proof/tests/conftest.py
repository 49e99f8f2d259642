"""Fixtures: the binaries of this checkout, a daemon in a private home, and repositories to run tests in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before pytester runs, which forgets modules that it loads itself; numpy cannot be loaded twice.
import pytest_gpu_proof.challenge
import pytest_gpu_proof.comparison
import pytest_gpu_proof.plugin  # noqa: F401

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[3]
SOURCES = [str(ROOT / "python" / "pytest-gpu-proof" / "src"), str(ROOT / "python" / "src")]


@pytest.fixture(scope="session", autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sets the home of user and daemon for the whole run, and ends the daemon that lives there."""
    home = tmp_path_factory.mktemp("home")
    engine = os.environ.get("GPUEMU_BINARY") or str(ROOT / "bin" / "gpuemu")
    proof = os.environ.get("GPU_PROOF_BINARY") or str(ROOT / "bin" / "gpu-proof")
    for binary in (engine, proof):
        if not os.access(binary, os.X_OK):
            pytest.exit(f"there is no {binary}: make build makes it", returncode=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))  # no key and no Git configuration of the user
        patch.setenv("GPUEMU_HOME", str(home / "gpuemu"))
        patch.setenv("GPUEMU_BINARY", engine)
        patch.setenv("GPU_PROOF_BINARY", proof)
        patch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        for name in ("GPUEMU_SOCKET", "GPUEMU_CONFIG", "GPUEMU_PYTHON", "SSH_AUTH_SOCK", "CI", "BUILD_NUMBER",
                     "PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY"):  # fmt: skip
            patch.delenv(name, raising=False)
        for who in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{who}_NAME", "Ada")
            patch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "key")], check=True)
        public = (home / "key.pub").read_text()
        (home / "allowed_signers").write_text(f"ada {public}")
        yield home
        subprocess.run([engine, "daemon", "stop"], check=False, capture_output=True, timeout=60)


class Repository:
    """A Git repository with tests, in which pytest is run."""

    def __init__(self, pytester: pytest.Pytester, home: Path) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.home = home
        self.git("init", "-q", "-b", "main")
        self.write("src/kernel.py", "def relu(values):\n    return [max(v, 0.0) for v in values]\n")
        self.write(".gitignore", "__pycache__/\n.pytest_cache/\n*.so\n")

    def git(self, *arguments: str) -> str:
        """Runs git here."""
        done = subprocess.run(["git", *arguments], cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the repository."""
        file = Path(self.path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self) -> None:
        """Commits all files."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")

    def arguments(self, options: tuple[str, ...], sign: bool) -> list[str]:
        """Arguments of pytest for a run with a receipt; the result file is kept outside of the repository."""
        key = [f"--gpu-proof-key={self.home / 'key'}", "--gpu-proof-signer=ada"] if sign else []
        plugin = ["-p", "pytest_gpu_proof.plugin", "--gpu-proof-enable", f"--gpu-proof-results={self.results_file}"]
        return ["--strict-markers", *plugin, *key, *options]

    @property
    def results_file(self) -> Path:
        """Where the result file of the last run is."""
        return Path(str(self.path) + "-results.json")

    def run(self, tests: str | None, *options: str, sign: bool = True, name: str = "tests/test_kernel.py") -> Any:
        """Writes and commits a file of tests and runs pytest with a receipt, in this process."""
        if tests is not None:
            self.write(name, "import pytest\n\n" + tests)
        self.commit()
        self.results_file.unlink(missing_ok=True)
        return self.pytester.runpytest_inprocess(*self.arguments(options, sign))

    def run_apart(self, tests: str | None, *options: str, name: str = "tests/test_kernel.py") -> Any:
        """run, in a process of its own."""
        if tests is not None:
            self.write(name, "import pytest\n\n" + tests)
        self.commit()
        self.results_file.unlink(missing_ok=True)
        return self.pytester.runpytest_subprocess(*self.arguments(options, True))

    def results(self) -> Any:
        """The result file of the last run."""
        return json.loads(self.results_file.read_text())

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Outcome and phase by the last part of the id."""
        return {t["id"].rpartition("::")[2]: (t["outcome"], t["phase"]) for t in self.results()["tests"]}

    @property
    def receipt(self) -> Path:
        """Where the receipt is."""
        return Path(self.path, "gpu-proof.json")

    def verify(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs gpu-proof verify on the receipt."""
        command = [os.environ["GPU_PROOF_BINARY"], "verify", "--receipt", str(self.receipt), "--repo", str(self.path),
                   "--allowed-signers", str(self.home / "allowed_signers"), *options]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(pytester: pytest.Pytester, private_home: Path) -> Repository:
    """A fresh repository."""
    return Repository(pytester, private_home)
