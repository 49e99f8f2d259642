"""Options: the command line, then [tool.gpu_proof] of pyproject.toml, then the defaults."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MODES = ("local", "ci-gpu")
BACKENDS = ("ed25519", "none")
FORMATS = ("statement", "1")
# Keys of the verifier. The plugin has no use for them, and CI believes a policy rather than the tree under test.
VERIFIER_KEYS = {"max_age_days": int, "require_gpu": bool, "expected_skips": list}
SHARDS = ("shard", "shard_fingerprint_paths", "shard_fingerprint_extra_paths")


@dataclass(frozen=True)
class Option:
    """One option: its name after --gpu-proof-, its key in TOML, and its form."""

    name: str
    key: str
    help: str
    kind: str = "text"  # text, path, paths, flag
    default: Any = None
    choices: tuple[str, ...] = ()


OPTIONS = (
    Option("mode", "mode", "where the tests run: local or ci-gpu", default="local", choices=MODES),
    Option("out", "output", "file of the receipt (default gpu-proof.json)", "path", "gpu-proof.json"),
    Option("key", "key_path", "SSH private key, its .pub for the agent's, or agent; default: found", "path"),
    Option("signing-backend", "signing_backend", "ed25519: sign with an SSH key of any type; none: do not sign",
           default="ed25519", choices=BACKENDS),
    Option("format", "format", "statement (default), or 1 for verifiers of the first format",
           default="statement", choices=FORMATS),
    Option("policy", "policy_path", "policy that the receipt is held to as soon as it is signed", "path"),
    Option("required-marker", "required_marker", "marker of tests that belong to the proof (default gpu_proof)",
           default="gpu_proof"),
    Option("fail-on-skip", "fail_on_skip", "no receipt, and a failure, if a test of the proof or one that is "
           "gpu_required is skipped", "flag", False),
    Option("best-effort", "best_effort", "a receipt that cannot be made does not change the exit status", "flag",
           False),
    Option("fingerprint-paths", "fingerprint_paths", "paths of the code, from the top of the repository, with commas "
           "between them (default src,tests)", "paths", ("src", "tests")),
    Option("fingerprint-extra-paths", "fingerprint_extra_paths", "build outputs to hash that Git ignores, such as "
           "build/kernel.so", "paths", ()),
    Option("fingerprint-excluded-paths", "fingerprint_excluded_paths", "files in scope that are left out; a policy "
           "must allow it", "paths", ()),
    Option("github-user", "github_username", "GitHub name of the signer; default: found"),
    Option("signer", "signer", "name of the signer in allowed_signers, instead of a GitHub name"),
    Option("nonce", "nonce", "text that CI gave for this run"),
    Option("results", "results_path", "keep the unsigned result file here", "path"),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The options of a run. Paths are absolute, but for those of the scope: they are from the top of the repository."""

    root: Path  # pytest's rootdir, where node ids begin
    mode: str
    out: Path
    key: str | None
    signing_backend: str
    format: str
    policy: Path | None
    required_marker: str
    fail_on_skip: bool
    best_effort: bool
    fingerprint_paths: tuple[str, ...]
    fingerprint_extra_paths: tuple[str, ...]
    fingerprint_excluded_paths: tuple[str, ...]
    github_user: str | None
    signer: str | None
    nonce: str
    results: Path | None


def add_options(parser: pytest.Parser) -> None:
    """Adds the options. None of them has a default here: what is given beats TOML even if it is the default."""
    group = parser.getgroup("gpu-proof", "signed receipts of GPU tests")
    group.addoption("--gpu-proof-enable", action="store_true", default=False, help="write a signed receipt")
    for option in OPTIONS:
        name = "--gpu-proof-" + option.name
        if option.kind == "flag":
            group.addoption(name, action="store_true", default=None, help=option.help)
        elif option.choices:
            group.addoption(name, choices=option.choices, default=None, help=option.help)
        else:
            metavar = {"path": "PATH", "paths": "PATHS"}.get(option.kind, "TEXT")
            group.addoption(name, metavar=metavar, default=None, help=option.help)
    for shard in SHARDS:
        group.addoption("--gpu-proof-" + shard.replace("_", "-"), default=None, metavar="TEXT",
                        help="refused: sign each part of a run by itself, then gpu-proof merge")  # fmt: skip


def load(config: pytest.Config) -> Settings:
    """The settings of this run. pytest.UsageError where something is wrong in them."""
    for shard in SHARDS:
        if config.getoption("gpu_proof_" + shard) is not None:
            raise pytest.UsageError(_no_shards("--gpu-proof-" + shard.replace("_", "-")))
    _check_root(config)
    file = config.rootpath / "pyproject.toml"
    table = read_table(file)
    values: dict[str, Any] = {}
    for option in OPTIONS:
        field = option.name.replace("-", "_")
        given = config.getoption("gpu_proof_" + field)
        start = Path(os.getcwd())
        if given is None and option.key in table:
            given, start = _checked(file, option, table[option.key]), config.rootpath
        elif given is not None and option.kind == "paths":
            given = _split(given)
        if given is None:
            given, start = option.default, Path(os.getcwd())
        values[field] = start / Path(given).expanduser() if option.kind == "path" and given is not None else given
    key = values["key"]
    if key is not None:
        # "agent" is a word, not a file, unless there is such a file.
        values["key"] = "agent" if key.name == "agent" and not key.exists() else str(key)
    values["nonce"] = values["nonce"] or ""
    if values["github_user"] and values["signer"]:
        raise pytest.UsageError("--gpu-proof-github-user and --gpu-proof-signer are both given: want one name")
    for name, paths in values.items():
        if name.startswith("fingerprint"):
            values[name] = tuple(paths)
    if not values["fingerprint_paths"]:
        raise pytest.UsageError("--gpu-proof-fingerprint-paths is empty: name the folders of the code and of the tests")
    return Settings(root=config.rootpath, **values)


def _check_root(config: pytest.Config) -> None:
    """Refuses a root that pytest found by a file of ours.

    It looks for the root of the tests before it knows the options of plugins: in `--gpu-proof-key ~/.ssh/id` it takes
    the key for a file of tests, and what the key and this folder have in common, perhaps the home of the user, for the
    root. Then pyproject.toml is not read, and ids begin elsewhere.
    """
    here = config.invocation_params.dir
    if config.inipath is not None or config.rootpath == here or config.getoption("rootdir", None):
        return
    ours = {"--gpu-proof-" + option.name for option in OPTIONS if option.kind == "path"}
    arguments = [str(argument) for argument in config.invocation_params.args]
    for name, value in zip(arguments, arguments[1:]):
        if name in ours and (here / value).exists():
            raise pytest.UsageError(
                f"{name} {value}: pytest takes this for a file of tests, and {config.rootpath} for their root; "
                f"write {name}={value}"
            )


def _no_shards(name: str) -> str:
    return (
        f"{name}: named shards are not supported; run each part by itself with its own --gpu-proof-out and join the "
        "receipts with gpu-proof merge, which verifies them first"
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def read_table(file: Path) -> Mapping[str, Any]:
    """[tool.gpu_proof] of a pyproject.toml, nothing if there is no such file or table. It must be whole and known."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(file, "rb") as f:
            document = tomllib.load(f)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise pytest.UsageError(f"{file}: {exc}: gpu-proof cannot tell what is set in it; correct the file") from exc
    table = document.get("tool", {}).get("gpu_proof", {})
    if not isinstance(table, dict):
        raise pytest.UsageError(f"{file}: tool.gpu_proof is {_shown(table)}, want a table")
    known = {option.key for option in OPTIONS} | set(VERIFIER_KEYS)
    for key, value in table.items():
        if key in SHARDS:
            raise pytest.UsageError(f"{file}: " + _no_shards(f"[tool.gpu_proof] {key}"))
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else "known are " + ", ".join(sorted(known))
            raise pytest.UsageError(f"{file}: [tool.gpu_proof] has no key {key}; {hint}")
        wanted = VERIFIER_KEYS.get(key)
        if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int)):
            raise pytest.UsageError(f"{file}: [tool.gpu_proof] {key} is {_shown(value)}, want {wanted.__name__}")
    return table


def _checked(file: Path, option: Option, value: Any) -> Any:
    """A value of TOML in the form of its option."""
    place = f"{file}: [tool.gpu_proof] {option.key}"
    if option.kind == "flag":
        if not isinstance(value, bool):
            raise pytest.UsageError(f"{place} is {_shown(value)}, want true or false")
        return value
    if option.kind == "paths":
        if isinstance(value, str):
            return _split(value)
        if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
            raise pytest.UsageError(f"{place} is {_shown(value)}, want a list of paths")
        return value
    if not isinstance(value, str) or not value:
        raise pytest.UsageError(f"{place} is {_shown(value)}, want a text")
    if option.choices and value not in option.choices:
        raise pytest.UsageError(f"{place} is {_shown(value)}, want {' or '.join(option.choices)}")
    return value


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:80]
