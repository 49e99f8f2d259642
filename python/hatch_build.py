"""Builds the Go binaries and puts them into the wheel as scripts: what lands on PATH is the binary itself.

The Go sources are in the parent directory (a checkout) or in go/ (an sdist). GPUEMU_PURE_WHEEL=1 leaves the binaries
out: such a wheel works where gpuemu is on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `go build` for the wheel; an sdist has the sources instead."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        sources = self._sources()
        build_data["force_include"][str(self._worker(sources))] = "gpuemu/worker.py"
        if os.environ.get("GPUEMU_PURE_WHEEL") == "1":
            return
        out = Path(self.directory) / "binaries"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        # One directory of cmd/ is one binary.
        for command in sorted(p.name for p in (sources / "cmd").iterdir() if (p / "main.go").is_file()):
            binary = out / command
            self._build(sources, command, binary)
            build_data["shared_scripts"][str(binary)] = binary.name
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def _worker(self, sources: Path) -> Path:
        """The worker that the binary hands to interpreters, which is gpuemu.worker, too: the same files in one."""
        runner, package = sources / "internal" / "runner", sources / "python" / "src" / "gpuemu"
        parts = [runner / "working.py", package / "_exceptions.py", runner / "worker.py"]
        made = Path(self.directory) / "worker.py"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(b"".join(part.read_bytes() for part in parts))
        return made

    def _sources(self) -> Path:
        root = Path(self.root)
        for place in (root / "go", root.parent):
            if (place / "go.mod").is_file():
                return place
        raise RuntimeError("the Go sources of gpuemu are neither in go/ nor in the parent directory of " + self.root)

    def _build(self, sources: Path, command: str, binary: Path) -> None:
        go = os.environ.get("GO") or shutil.which("go")
        if go is None:
            raise RuntimeError(
                "building the gpuemu wheel needs Go 1.26 or newer on PATH; "
                "GPUEMU_PURE_WHEEL=1 builds one without binaries"
            )
        # A shell without HOME still needs a place for Go's caches.
        env = dict(os.environ, CGO_ENABLED="0", GOFLAGS="", GOWORK="off")
        if "HOME" not in env and "GOCACHE" not in env:
            env["GOCACHE"] = str(Path(self.directory).resolve() / "go-cache")
        flags = "-s -w -X main.version=" + self.metadata.version
        done = subprocess.run(
            [go, "build", "-trimpath", "-ldflags", flags, "-o", str(binary.resolve()), "./cmd/" + command],
            cwd=sources, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"go build ./cmd/{command} failed in {sources}:\n{done.stdout}")
