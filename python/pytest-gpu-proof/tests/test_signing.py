"""From a run to a receipt that is verified, and what happens where there is none."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from pytest_gpu_proof import binary

GOOD = "@pytest.mark.gpu_proof\ndef test_good(gpu_proof_check):\n    gpu_proof_check('one', lambda: 1, lambda: 1)\n"


def test_a_receipt_is_written_and_verified(repository: Any) -> None:
    result = repository.run(GOOD)
    assert result.ret == 0
    repository.commit()
    said = repository.verify()
    assert said.returncode == 0, said.stdout + said.stderr
    repository.write("src/kernel.py", "def relu(values):\n    return values\n")
    repository.commit()
    changed = repository.verify()
    assert changed.returncode == 1, changed.stdout + changed.stderr


def test_the_name_of_an_account_and_a_nonce_are_signed(repository: Any) -> None:
    key = repository.home / "key"
    result = repository.run(GOOD, f"--gpu-proof-key={key}", "--gpu-proof-github-user=grace", "--gpu-proof-nonce=n42",
                            sign=False)  # fmt: skip
    assert result.ret == 0
    repository.commit()
    keys = repository.home / "keys"
    keys.mkdir()
    (keys / "grace.keys").write_text((repository.home / "key.pub").read_text())
    command = [binary.find_binary(), "verify", f"--receipt={repository.receipt}", f"--repo={repository.path}",
               f"--keys-dir={keys}", "--github-user=grace"]  # fmt: skip
    for nonce, status in (("n42", 0), ("n43", 1)):
        done = subprocess.run([*command, f"--nonce={nonce}"], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr


def test_the_first_format_on_request(repository: Any) -> None:
    assert repository.run(GOOD, "--gpu-proof-format=1").ret == 0
    receipt = json.loads(repository.receipt.read_text())
    assert receipt["schema_version"] == "1" and receipt["tests"][0]["node_id"] == "tests/test_kernel.py::test_good"


def test_unsigned_on_request(repository: Any) -> None:
    result = repository.run(GOOD, "--gpu-proof-signing-backend=none", sign=False)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*UNSIGNED*"])
    repository.commit()
    assert repository.verify().returncode == 1


def test_the_result_file_is_private_and_temporary(repository: Any) -> None:
    repository.run(GOOD)
    assert stat.S_IMODE(repository.results_file.stat().st_mode) == 0o600
    repository.results_file.unlink()
    arguments = [a for a in repository.arguments((), True) if not a.startswith("--gpu-proof-results")]
    assert repository.pytester.runpytest_inprocess(*arguments).ret == 0
    assert not repository.results_file.exists()


def test_row_a9_code_that_changes_during_the_run_is_not_signed(repository: Any) -> None:
    result = repository.run("""
import pathlib

@pytest.mark.gpu_proof
def test_writes():
    pathlib.Path("src/kernel.py").write_text("# another kernel")
""")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()
    code = repository.results()["code"]
    assert code["start"] != code["end"]


def test_row_a12_no_key_is_a_failure_and_the_old_receipt_goes(repository: Any) -> None:
    assert repository.run(GOOD).ret == 0
    old = repository.receipt.read_text()
    result = repository.run(GOOD, "--gpu-proof-key=nowhere/key", "--gpu-proof-signer=ada", sign=False)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not repository.receipt.exists()
    assert (repository.path / "gpu-proof.json.old").read_text() == old
    result.stdout.fnmatch_lines(["*no receipt was written*", "*receipt of an earlier run is now *gpu-proof.json.old"])


def test_row_a12_a_binary_that_writes_nothing(repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repository.run(GOOD).ret == 0
    monkeypatch.setattr(binary, "sign", lambda arguments: subprocess.CompletedProcess(arguments, 0, ""))
    assert repository.run(GOOD).ret == pytest.ExitCode.TESTS_FAILED, "the receipt that lies there is of the run before"
    assert not repository.receipt.exists()


def test_what_could_not_be_signed_can_be_signed_later(repository: Any, pytester: pytest.Pytester) -> None:
    repository.write("tests/test_kernel.py", "import pytest\n\n" + GOOD)
    repository.commit()
    arguments = ["-p", "pytest_gpu_proof.plugin", "--gpu-proof-enable", "--gpu-proof-signer=ada"]
    result = pytester.runpytest_inprocess(*arguments, "--gpu-proof-key=nowhere/key")
    command = result.stdout.str().partition("they need not run again: gpu-proof ")[2].partition("\n")[0]
    assert "--key=" in command and "--yes" not in command
    command = command.replace(str(repository.path / "nowhere/key"), str(repository.home / "key"))
    subprocess.run([os.environ["GPU_PROOF_BINARY"], *shlex.split(command)], check=True)
    assert repository.verify().returncode == 0
    shutil.rmtree(next(Path(a[10:]).parent for a in shlex.split(command) if a.startswith("--results=")))

    repository.write("tests/test_kernel.py", "import pytest\n\n" + GOOD + "    assert 0\n")
    result = pytester.runpytest_inprocess(*arguments, f"--gpu-proof-key={repository.home / 'key'}")
    result.stdout.no_fnmatch_line("*need not run again*")


def test_row_a12_a_failed_run_removes_the_old_receipt_too(repository: Any) -> None:
    assert repository.run(GOOD).ret == 0
    repository.run("@pytest.mark.gpu_proof\ndef test_bad():\n    assert 0\n")
    assert not repository.receipt.exists() and (repository.path / "gpu-proof.json.old").exists()
    assert repository.run(GOOD).ret == 0, "what is kept of the old one is in nobody's way"
    assert repository.receipt.exists() and not (repository.path / "gpu-proof.json.old").exists()


def test_a_result_file_that_cannot_be_written_is_told(repository: Any) -> None:
    result = repository.run(GOOD, "--gpu-proof-results=nowhere/results.json", "-p", "no:terminal")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()
    assert "the result file cannot be written" in result.stderr.str()


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_tests_that_were_only_set_up_are_not_signed(repository: Any, option: str) -> None:
    repository.run(GOOD, option)
    assert repository.outcomes() == {"test_good": ("error", "call")} and not repository.receipt.exists()


def test_best_effort_leaves_the_exit_status(repository: Any) -> None:
    result = repository.run(GOOD, "--gpu-proof-key=nowhere/key", "--gpu-proof-signer=ada", "--gpu-proof-best-effort",
                            sign=False)  # fmt: skip
    assert result.ret == 0 and not repository.receipt.exists()


def test_a_file_that_is_no_receipt_is_not_written_over(repository: Any) -> None:
    result = repository.run(GOOD, "--gpu-proof-out=src/kernel.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert repository.path.joinpath("src/kernel.py").read_text().startswith("def relu")
    result.stderr.fnmatch_lines(["*src/kernel.py is there and is no receipt*"])


def test_without_tests_of_the_proof_there_is_no_receipt(repository: Any) -> None:
    result = repository.run("def test_plain():\n    pass\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()
    result.stdout.fnmatch_lines(["*no test of the proof was run*mark tests with @pytest.mark.gpu_proof*"])
    result = repository.run(GOOD, "-k", "nothing")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["*no test of the proof was run*all 1 of them are deselected"])


def test_row_a7_a_scope_without_files_stops_the_run(repository: Any) -> None:
    result = repository.run(GOOD, "--gpu-proof-fingerprint-paths=nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*gpu-proof snapshot:*", "hint: name the folders*--gpu-proof-fingerprint-paths*"])
    assert "test_good" not in result.stdout.str()


@pytest.mark.parametrize("option", ["out=nowhere/proof.json", "policy=nowhere.yml"])
def test_a_place_that_is_not_there_stops_the_run(repository: Any, option: str) -> None:
    result = repository.run(GOOD, "--gpu-proof-" + option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "test_good" not in result.stdout.str()
    result.stderr.fnmatch_lines([f"ERROR: --gpu-proof-{option.partition('=')[0]}: there is no f* *nowhere*: c*"])
    result = repository.run(None, "--gpu-proof-best-effort", "--gpu-proof-" + option)
    assert result.ret == 0, "a receipt is not worth the run then"


def test_another_layout_is_named_on_both_sides(repository: Any) -> None:
    repository.write("kernels/k.py", "")
    assert repository.run(GOOD, "--gpu-proof-fingerprint-paths=kernels,tests").ret == 0
    said = repository.verify()
    assert said.returncode == 1 and "hint: sign with that scope, or name another in a policy" in said.stdout
    policy = repository.home / "other-layout.yml"
    command = ["policy", "init", "--signer=ada", "--path=kernels", "--path=tests", f"--out={policy}"]
    subprocess.run([os.environ["GPU_PROOF_BINARY"], *command], check=True)
    assert repository.verify("--policy", str(policy)).returncode == 0


def test_no_repository_stops_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_x="def test_x(gpu_proof_check):\n    pass\n")
    options = ("-p", "pytest_gpu_proof.plugin", "--gpu-proof-enable", f"--rootdir={pytester.path}")
    assert pytester.runpytest_inprocess(*options).ret == pytest.ExitCode.USAGE_ERROR
    result = pytester.runpytest_inprocess(*options, "--gpu-proof-best-effort")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*no receipt will be written (--gpu-proof-best-effort)*"])


def test_build_outputs_are_hashed(repository: Any) -> None:
    repository.write("build/kernel.so", "machine code")
    assert repository.run(GOOD, "--gpu-proof-fingerprint-extra-paths=build/kernel.so").ret == 0
    assert repository.results()["code"]["outputs"] == ["build/kernel.so"]


def test_files_can_be_left_out(repository: Any) -> None:
    repository.write("tests/notes.txt", "one")
    repository.run(GOOD, "--gpu-proof-fingerprint-excluded-paths=tests/notes.txt")
    first = repository.results()["code"]
    repository.write("tests/notes.txt", "two")
    repository.run(GOOD, "--gpu-proof-fingerprint-excluded-paths=tests/notes.txt")
    assert first["exclude"] == ["tests/notes.txt", "gpu-proof.json"] and first == repository.results()["code"]


def test_a_receipt_in_scope_is_left_out(repository: Any) -> None:
    for _ in range(2):  # with the receipt of the first run in the tree
        result = repository.run(GOOD, "--gpu-proof-fingerprint-paths=.", "--gpu-proof-results=results.json")
        assert result.ret == 0, result.stdout.str()
    said = json.loads(repository.path.joinpath("results.json").read_text())
    assert said["code"]["exclude"] == ["gpu-proof.json", "results.json"] and said["code"]["scope"] == ["."]


def test_a_policy_is_tried_at_once(repository: Any) -> None:
    signers = repository.home / "allowed_signers"
    policy = repository.write("../policy.yaml", f"allowed_signers: {signers}\nrequire_gpu: false\n")
    accepted = repository.run(GOOD, f"--gpu-proof-policy={policy}")
    assert accepted.ret == 0, accepted.stdout.str()
    policy.write_text(f"allowed_signers: {signers}\nmode: ci-gpu\n")
    refused = repository.run(GOOD, f"--gpu-proof-policy={policy}")
    assert refused.ret == pytest.ExitCode.TESTS_FAILED and repository.receipt.exists()
    refused.stdout.fnmatch_lines(["*policy.yaml refuses the receipt"])


def test_the_module_is_the_binary(repository: Any) -> None:
    repository.run(GOOD)
    repository.commit()
    command = [sys.executable, "-m", "pytest_gpu_proof", "verify", "--receipt", str(repository.receipt), "--repo",
               str(repository.path), "--allowed-signers", str(repository.home / "allowed_signers")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == repository.verify().stdout
    refused = subprocess.run([*command[:-2]], capture_output=True, text=True, check=False)
    assert refused.returncode == 1, "without an allow-list nothing is accepted"


def test_a_passphrase_is_asked_for_on_the_terminal(repository: Any) -> None:
    key = repository.home / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "open sesame", "-f", str(key)], check=True)
    repository.write("tests/test_kernel.py", "import pytest\n\n" + GOOD)
    repository.commit()
    options = (f"--gpu-proof-key={key}", "--gpu-proof-signer=ada")
    command = [sys.executable, "-m", "pytest", *repository.arguments(options, False)]
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, cwd=repository.path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen, answers = b"", [b"open sesam\n", b"open sesame\n"]
    while chunk := _read(ours):
        seen += chunk
        if b"Passphrase for" in chunk:
            while termios.tcgetattr(ours)[3] & termios.ECHO and process.poll() is None:
                os.sched_yield()  # until what is typed is no longer shown
            os.write(ours, answers.pop(0))
    os.close(ours)
    assert process.wait() == 0, seen.decode()
    assert seen.count(f"Passphrase for {key}: \r\n".encode()) == 2, "mistyped once, asked for again"
    assert b"open sesam" not in seen and repository.receipt.exists()


def _read(terminal: int) -> bytes:
    """What was written next; nothing when the other side is closed, which Linux tells as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_missing_binary_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("GPU_PROOF_BINARY", "GPUEMU_BINARY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binary.sysconfig, "get_path", lambda *_: str(tmp_path))
    with pytest.raises(binary.BinaryFailed, match="there is no gpu-proof binary: install a wheel of gpuemu"):
        binary.find_binary()
    script = tmp_path / "gpu-proof"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    with pytest.raises(binary.BinaryFailed):
        binary.find_binary()  # the script of another package of this name
    script.write_bytes(b"\x7fELF")
    assert binary.find_binary() == str(script)
    monkeypatch.setenv("GPUEMU_BINARY", str(tmp_path / "gpuemu"))
    monkeypatch.setattr(binary.sysconfig, "get_path", lambda *_: os.devnull)
    assert binary.find_binary() == str(script), "beside the engine"
