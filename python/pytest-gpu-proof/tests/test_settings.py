"""Options of the command line and of pyproject.toml."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpu_proof import devices, settings

GOOD = "@pytest.mark.gpu_proof\ndef test_good():\n    pass\n"


def loaded(pytester: pytest.Pytester, toml: str | None, *arguments: str) -> settings.Settings:
    if toml is not None:
        pytester.path.joinpath("pyproject.toml").write_text(toml)
    options = ("-p", "pytest_gpu_proof.plugin", f"--rootdir={pytester.path}", *arguments)
    return settings.load(pytester.parseconfig(*options))


def test_defaults(pytester: pytest.Pytester) -> None:
    found = loaded(pytester, None)
    assert found == settings.Settings(
        root=pytester.path, mode="local", out=pytester.path / "gpu-proof.json", key=None, signing_backend="ed25519",
        format="statement", policy=None, required_marker="gpu_proof", fail_on_skip=False, best_effort=False,
        fingerprint_paths=("src", "tests"), fingerprint_extra_paths=(), fingerprint_excluded_paths=(),
        github_user=None, signer=None, nonce="", results=None,
    )  # fmt: skip


TOML = """
[tool.gpu_proof]
mode = "ci-gpu"
output = "out/receipt.json"
key_path = "~/.ssh/lab"
signing_backend = "none"
format = "1"
policy_path = "policy.yaml"
required_marker = "on_gpu"
fail_on_skip = true
best_effort = true
fingerprint_paths = ["kernels", "tests"]
fingerprint_extra_paths = ["build/k.so"]
fingerprint_excluded_paths = "tests/data.bin, tests/more.bin"
github_username = "ada"
nonce = "n1"
results_path = "results.json"
max_age_days = 3
require_gpu = true
expected_skips = []
"""


def test_every_key(pytester: pytest.Pytester) -> None:
    found = loaded(pytester, TOML)
    assert found == settings.Settings(
        root=pytester.path, mode="ci-gpu", out=pytester.path / "out/receipt.json",
        key=os.path.expanduser("~/.ssh/lab"), signing_backend="none", format="1", policy=pytester.path / "policy.yaml",
        required_marker="on_gpu", fail_on_skip=True, best_effort=True, fingerprint_paths=("kernels", "tests"),
        fingerprint_extra_paths=("build/k.so",), fingerprint_excluded_paths=("tests/data.bin", "tests/more.bin"),
        github_user="ada", signer=None, nonce="n1", results=pytester.path / "results.json",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [("--gpu-proof-mode=local", "mode", "local"), ("--gpu-proof-signing-backend=ed25519", "signing_backend", "ed25519"),
     ("--gpu-proof-required-marker=gpu_proof", "required_marker", "gpu_proof"),
     ("--gpu-proof-fingerprint-paths=src,tests", "fingerprint_paths", ("src", "tests")),
     ("--gpu-proof-format=statement", "format", "statement"), ("--gpu-proof-key=agent", "key", "agent"),
     ("--gpu-proof-nonce=n2", "nonce", "n2")],
)  # fmt: skip
def test_the_command_line_beats_toml_with_defaults_too(
    pytester: pytest.Pytester, option: str, field: str, value: Any
) -> None:
    assert getattr(loaded(pytester, TOML, option), field) == value


def test_paths_of_the_command_line_begin_where_one_is(pytester: pytest.Pytester) -> None:
    below = pytester.mkdir("below")
    os.chdir(below)
    found = loaded(pytester, None, "--gpu-proof-out=r.json", "--gpu-proof-key=~/k")
    assert (found.out, found.key) == (below / "r.json", os.path.expanduser("~/k"))


@pytest.mark.parametrize(
    ("toml", "message"),
    [("[tool.gpu_proof\n", "correct the file"), ("[tool]\ngpu_proof = 3\n", "want a table"),
     ("[tool.gpu_proof]\nfingerprint_path = 'src'\n", "no key fingerprint_path; did you mean fingerprint_paths"),
     ("[tool.gpu_proof]\nmode = 'gpu'\n", 'mode is "gpu", want local or ci-gpu'),
     ("[tool.gpu_proof]\nfail_on_skip = 'yes'\n", 'fail_on_skip is "yes", want true or false'),
     ("[tool.gpu_proof]\nfingerprint_paths = [1]\n", "want a list of paths"),
     ("[tool.gpu_proof]\nfingerprint_paths = []\n", "fingerprint-paths is empty"),
     ("[tool.gpu_proof]\noutput = 1\n", "output is 1, want a text"),
     ("[tool.gpu_proof]\nmax_age_days = true\n", "max_age_days is true, want int"),
     ("[tool.gpu_proof]\nshard = 'a'\n", "gpu-proof merge"),
     ("[tool.gpu_proof]\nsigner = 'a'\ngithub_username = 'b'\n", "want one name")],
)  # fmt: skip
def test_row_a16_a_pyproject_that_is_not_understood_is_an_error(
    pytester: pytest.Pytester, toml: str, message: str
) -> None:
    pytester.path.joinpath("pyproject.toml").write_text(toml)
    file = pytester.makeini("[pytest]\n")  # pytest itself would read pyproject.toml first, and stop
    with pytest.raises(pytest.UsageError, match=message):
        loaded(pytester, None, "-c", str(file))


def test_row_a16_the_run_stops(repository: Any) -> None:
    repository.write("pytest.ini", "[pytest]\n")
    repository.write("pyproject.toml", "[tool.gpu_proof]\nrequire_gpu = yes\n")
    result = repository.run(GOOD)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and not repository.receipt.exists()
    result.stderr.fnmatch_lines(["*pyproject.toml: *Invalid value*"])


@pytest.mark.parametrize("toml", [None, "[tool.pytest.ini_options]\n"])
def test_a_value_that_pytest_takes_for_a_file_of_tests(repository: Any, toml: str | None) -> None:
    if toml is not None:
        repository.write("pyproject.toml", toml)  # pytest looks around the key, unless it is given tests
    key = str(repository.home / "key")
    done = repository.run(GOOD, "--gpu-proof-key", key, sign=False)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: --gpu-proof-key {key}: pytest takes this*; write --gpu-proof-key={key}"])
    done = repository.run(None, "tests", "--gpu-proof-key", key, "--gpu-proof-signer=ada", sign=False)
    assert done.ret == (pytest.ExitCode.OK if toml else pytest.ExitCode.USAGE_ERROR)


@pytest.mark.parametrize("name", ["shard", "shard-fingerprint-paths", "shard-fingerprint-extra-paths"])
def test_shards_are_refused_with_the_way_out(repository: Any, name: str) -> None:
    result = repository.run(GOOD, f"--gpu-proof-{name}=x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--gpu-proof-{name}: named shards are not supported*gpu-proof merge*"])


def test_another_marker_replaces_gpu_proof(repository: Any) -> None:
    tests = """
@pytest.mark.on_gpu
def test_mine():
    pass

@pytest.mark.gpu_proof
def test_usual():
    pass

@pytest.mark.gpu_equivalence
def test_alias():
    pass
"""
    repository.run(tests, "--gpu-proof-required-marker=on_gpu")
    assert list(repository.outcomes()) == ["test_mine", "test_alias"]


@pytest.mark.parametrize("option", ["--collect-only", "--fixtures", "--fixtures-per-test", "--cache-show"])
def test_a_look_writes_nothing(repository: Any, option: str) -> None:
    repository.receipt.write_text("{}")
    result = repository.run(GOOD, option)
    assert result.ret == 0 and repository.receipt.read_text() == "{}" and not repository.results_file.exists()


REQUIRED = """
@pytest.mark.gpu_required
def test_needs():
    pass

@pytest.mark.gpu_required
@pytest.mark.gpu_proof
def test_both():
    pass

@pytest.mark.gpu_proof
def test_good():
    pass
"""


@pytest.mark.parametrize("present", [True, False])
def test_gpu_required(repository: Any, monkeypatch: pytest.MonkeyPatch, present: bool) -> None:
    monkeypatch.setattr("pytest_gpu_proof.plugin.gpu_present", lambda: present)
    result = repository.run(REQUIRED)
    result.assert_outcomes(passed=3) if present else result.assert_outcomes(passed=1, skipped=2)
    both = ("passed", "call") if present else ("skipped", "setup")
    assert repository.outcomes() == {"test_both": both, "test_good": ("passed", "call")}


SKIPS = {
    "proof and required": REQUIRED,
    "proof": "@pytest.mark.gpu_proof\ndef test_s():\n    pytest.skip()\n",
    "required": GOOD + "\n@pytest.mark.gpu_required\ndef test_needs():\n    pass\n",
}


@pytest.mark.parametrize("tests", SKIPS.values(), ids=SKIPS)
def test_fail_on_skip(repository: Any, monkeypatch: pytest.MonkeyPatch, tests: str) -> None:
    monkeypatch.setattr("pytest_gpu_proof.plugin.gpu_present", lambda: False)
    result = repository.run(tests, "--gpu-proof-fail-on-skip")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()
    result.stdout.fnmatch_lines(["*--gpu-proof-fail-on-skip: * tests were skipped*", "*test_kernel.py::test_*"])


@pytest.mark.parametrize(("script", "present"), [("exit 0", True), ("exit 9", False), ("sleep 60", False)])
def test_nvidia_smi_says_whether_there_is_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, present: bool
) -> None:
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)  # torch would be asked as well
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{script}\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(devices, "SMI_LIMIT", 0.3)
    assert devices.gpu_present() is present


@pytest.mark.parametrize(
    ("given", "text"),
    [(bytes(range(16)), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"), ("", ""), (b"", ""),
     ("GPU-00010203-0405-0607-0809-0A0B0C0D0E0F", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")],
)  # fmt: skip
def test_uuids_as_the_driver_writes_them(given: Any, text: str) -> None:
    assert devices._uuid(given) == text


UUID = bytes(range(16))


def fake_frameworks(ready: bool) -> dict[str, Any]:
    """Frameworks as far as they are asked for their devices, set up or not."""
    gpu = SimpleNamespace(name="NVIDIA H200", uuid=UUID.hex(), device_kind="NVIDIA H200", platform="gpu")
    cpu = SimpleNamespace(device_kind="cpu", platform="cpu")
    cuda = SimpleNamespace(is_initialized=lambda: ready, device_count=lambda: 1, get_device_properties=lambda i: gpu)
    runtime = SimpleNamespace(getDeviceCount=lambda: 1,
                              getDeviceProperties=lambda i: {"name": b"NVIDIA H200", "uuid": UUID})  # fmt: skip
    return {
        "torch": SimpleNamespace(cuda=cuda),
        "cupy": SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)),
        "jax": SimpleNamespace(devices=lambda: [gpu, cpu]),
        "jax._src.xla_bridge": SimpleNamespace(backends_are_initialized=lambda: ready),
    }


def test_devices_of_frameworks_that_are_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in fake_frameworks(True).items():
        monkeypatch.setitem(sys.modules, name, module)
    named = {"name": "NVIDIA H200", "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"}
    assert devices.used_devices() == [
        {"framework": "torch", **named}, {"framework": "cupy", **named},
        {"framework": "jax", "name": "NVIDIA H200", "uuid": ""},
    ]  # fmt: skip


def test_devices_of_frameworks_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in fake_frameworks(False).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())  # of a version that has nothing of it
    assert devices.used_devices() == []


def test_devices_are_in_the_result_file(repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"framework": "torch", "name": "NVIDIA H200", "uuid": ""}
    monkeypatch.setattr("pytest_gpu_proof.tester.used_devices", lambda: [found])
    assert repository.run(GOOD + "\n@pytest.mark.gpu_proof\ndef test_other():\n    pass\n").ret == 0
    assert repository.results()["devices"] == [found], "once"
