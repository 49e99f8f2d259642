"""The examples of receipts, run as a user would: in a repository of their own, with a key of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gpu_proof import settings

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
CUDA = ["cuda_ctypes_matmul", "cuda_pybind11_matmul", "cuda_nanobind_matmul", "jax_ffi_cuda_matmul"]
PURE = ["minimal_python_only", "wrapped_cuda_ctypes"]
WORKFLOWS = ["local_receipt_verify", "github_gpu_runner"]


def take(repository: Any, name: str) -> None:
    """Makes the repository one of an example."""
    shutil.rmtree(repository.path / "src")
    shutil.copytree(EXAMPLES / name, repository.path, dirs_exist_ok=True)


@pytest.mark.parametrize("name", PURE)
def test_an_example_without_a_gpu_gets_a_receipt(repository: Any, name: str) -> None:
    take(repository, name)
    result = repository.run_apart(None)
    assert result.ret == 0, result.stdout.str()
    repository.commit()
    said = repository.verify()
    assert said.returncode == 0, said.stdout + said.stderr
    outcomes = set(repository.outcomes().values())
    assert outcomes == {("passed", "call")} and len(repository.results()["tests"]) >= 4
    [source] = (repository.path / "src").glob("*.py")
    source.write_text(source.read_text().replace("rounded(v), 0.0)", "rounded(v), 0.5)").replace("x[i] + y[i]", "x[i]"))
    repository.commit()
    assert repository.verify().returncode == 1, "the receipt is of other code"
    broken = repository.run_apart(None)
    assert broken.ret == pytest.ExitCode.TESTS_FAILED and not repository.receipt.exists()


@pytest.mark.parametrize("name", PURE)
def test_a_receipt_is_verified_as_the_workflow_does_it(repository: Any, name: str) -> None:
    take(repository, name)
    shutil.copytree(EXAMPLES / "local_receipt_verify" / ".github", repository.path / ".github")
    folder = repository.path / ".github"
    public = (repository.home / "key.pub").read_text()
    folder.joinpath("allowed_signers").write_text(f'ada namespaces="gpu-proof@gpuemu" {public}')
    policy = folder.joinpath("gpu-proof.yml")
    text = policy.read_text().replace("require_gpu: true", "require_gpu: false")
    challenged = "gpu_proof_challenge" in "".join(p.read_text() for p in (repository.path / "tests").glob("*.py"))
    policy.write_text(text.replace("#require_challenge", "require_challenge") if challenged else text)
    repository.commit()
    repository.git("checkout", "-q", "-b", "change")
    assert repository.run_apart(None).ret == 0
    policy.write_text(policy.read_text() + "signers: [somebody]\n")  # the policy of the branch under test is not read
    repository.commit()
    workflow = folder.joinpath("workflows", "gpu-proof.yml").read_text()
    [line] = re.findall(r"run: (gpu-proof verify .*)", workflow)
    command = f"{sys.executable} -m pytest_gpu_proof " + line.replace("origin/$BASE", "main").partition(" ")[2]
    done = subprocess.run(command, shell=True, cwd=repository.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("right by the reference" in done.stdout) == challenged
    other = subprocess.run(command.replace("main:", "change:"), shell=True, cwd=repository.path, capture_output=True,
                           text=True, check=False)  # fmt: skip
    assert other.returncode == 1, other.stdout + other.stderr


def test_the_gpu_runner_signs_in_a_step_of_its_own(repository: Any) -> None:
    take(repository, "minimal_python_only")
    repository.commit()
    text = (EXAMPLES / "github_gpu_runner" / ".github" / "workflows" / "gpu-tests.yml").read_text()
    test = re.search(r"- name: Test\n        run: \|\n((?: {10}.*\n)+)", text)
    sign = re.search(r"- name: Sign\n.*?        run: \|\n((?: {10}[^\n]*\n)+)", text, re.S)
    assert test and sign
    script = test[1].replace("pytest --gpu", f"{sys.executable} -m pytest -p pytest_gpu_proof.plugin --gpu") + sign[1]
    script = script.replace("gpu-proof sign", f"{sys.executable} -m pytest_gpu_proof sign")
    temporary = repository.home / "runner"
    temporary.mkdir(exist_ok=True)
    env = {"RUNNER_TEMP": str(temporary), "GPU_PROOF_SIGNING_KEY": (repository.home / "key").read_text().rstrip("\n")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        done = subprocess.run(["bash", "-e", "-c", script], cwd=repository.path, capture_output=True, text=True,
                              check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    repository.commit()
    signers = repository.home / "allowed_signers"
    signers.write_text(signers.read_text() + "ci-gpu " + (repository.home / "key.pub").read_text())
    said = repository.verify("--signer", "ci-gpu")
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize("name", CUDA + PURE)
def test_settings_of_the_examples_are_known(name: str) -> None:
    table = settings.read_table(EXAMPLES / name / "pyproject.toml")
    assert table["fingerprint_paths"] == ["src", "tests"]
    if name in CUDA:
        [built] = table["fingerprint_extra_paths"]
        made = (EXAMPLES / name / "build.sh").read_text() + (EXAMPLES / name / "src" / "matmul.py").read_text()
        assert Path(built).stem in made and built.startswith("build/")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_options_in_workflows_are_known(name: str) -> None:
    known = {"enable", *(option.name for option in settings.OPTIONS)}
    for file in (EXAMPLES / name).rglob("*.yml"):
        for option in re.findall(r"--gpu-proof-([a-z-]+)", file.read_text()):
            assert option in known, f"{file}: --gpu-proof-{option}"


def test_the_table_names_all_examples() -> None:
    text = (EXAMPLES / "README.md").read_text()
    folders = sorted(p.name for p in EXAMPLES.iterdir() if p.is_dir())
    assert sorted(re.findall(r"\[(\w+)\]\(\1\)", text)) == folders
