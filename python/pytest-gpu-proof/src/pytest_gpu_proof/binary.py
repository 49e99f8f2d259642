"""The binary gpu-proof: where it is, and what the plugin asks it to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SNAPSHOT_LIMIT = 300  # seconds; a tree of 20,000 files takes less than one


class BinaryFailed(Exception):
    """The binary is missing, or it said no; the message is what it printed."""


def find_binary() -> str:
    """The path of gpu-proof: GPU_PROOF_BINARY, beside GPUEMU_BINARY, installed with gpuemu, or the first on PATH."""
    given = os.environ.get("GPU_PROOF_BINARY")
    if given:
        return given
    places = [os.path.dirname(os.path.abspath(os.environ["GPUEMU_BINARY"]))] if os.environ.get("GPUEMU_BINARY") else []
    places.append(sysconfig.get_path("scripts"))
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        places.append(sysconfig.get_path("scripts", user))
    for place in places:
        candidate = os.path.join(place, "gpu-proof")
        if os.access(candidate, os.X_OK) and _is_program(candidate):
            return candidate
    found = shutil.which("gpu-proof")
    if found is None or not _is_program(found):
        raise BinaryFailed(
            "there is no gpu-proof binary: install a wheel of gpuemu that has it (pip install gpuemu), put it on PATH, "
            "or name it in GPU_PROOF_BINARY"
        )
    return found


def _is_program(path: str) -> bool:
    """Whether a file is no script: versions of pytest-gpu-proof up to 0.4 installed one of the same name."""
    with open(path, "rb") as f:
        return f.read(2) != b"#!"


@dataclass(frozen=True)
class Snapshot:
    """What `gpu-proof snapshot` says: the digest of the code in scope, and where the repository is."""

    digest: str
    files: int
    top: str
    root: str


@dataclass(frozen=True)
class Scope:
    """What of a repository is hashed: paths from its top."""

    repo: Path
    paths: Sequence[str]
    outputs: Sequence[str]
    excluded: Sequence[str]


def snapshot(scope: Scope) -> Snapshot:
    """Hashes the code in scope as it lies there now."""
    command = ["snapshot", "--repo", str(scope.repo), "--json"]
    for flag, values in (("--path", scope.paths), ("--output", scope.outputs), ("--exclude", scope.excluded)):
        command += [f"{flag}={value}" for value in values]
    said = _answer(command)
    try:
        return Snapshot(str(said["digest"]), int(said["files"]), str(said["top"]), str(said["root"]))
    except (KeyError, TypeError, ValueError) as exc:
        raise BinaryFailed(f"gpu-proof snapshot answers {said!r}: it is of another version than this plugin") from exc


def challenge(
    code: str, op: str, dtype: str, nonce: str, count: int, attributes: Sequence[str], outputs: str | None = None
) -> dict[str, Any]:
    """The cases of a challenge: those that follow from the digest of the code. With outputs of all, their record."""
    command = ["challenge", f"--code={code}", f"--op={op}", f"--dtype={dtype}", f"--nonce={nonce}", f"--count={count}"]
    command += [f"--attr={a}" for a in attributes]
    if outputs is not None:
        command.append(f"--outputs={outputs}")
    return _answer([*command, "--json"])


def sign(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs `gpu-proof sign`. It may ask for a passphrase: standard input and the terminal are passed on."""
    try:
        return subprocess.run([find_binary(), "sign", *arguments], stdout=subprocess.PIPE, text=True)
    except OSError as exc:
        raise BinaryFailed(f"gpu-proof sign could not be started: {exc}") from exc


def verify(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs `gpu-proof verify`."""
    try:
        return subprocess.run([find_binary(), "verify", *arguments], stdout=subprocess.PIPE, text=True)
    except OSError as exc:
        raise BinaryFailed(f"gpu-proof verify could not be started: {exc}") from exc


def _answer(command: Sequence[str]) -> dict[str, Any]:
    """The JSON that a command prints."""
    try:
        done = subprocess.run(
            [find_binary(), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SNAPSHOT_LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BinaryFailed(f"gpu-proof {command[0]}: {exc}") from exc
    if done.returncode != 0:
        raise BinaryFailed(f"gpu-proof {command[0]}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    try:
        said = json.loads(done.stdout)
    except ValueError as exc:
        raise BinaryFailed(f"gpu-proof {command[0]} printed no JSON: {done.stdout[:200]!r}") from exc
    if not isinstance(said, dict):
        raise BinaryFailed(f"gpu-proof {command[0]} printed {said!r}, want an object")
    return said
