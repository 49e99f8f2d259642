"""The pytest plugin, run by pytest's own pytester on files as a user would write them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu import Client
from gpuemu._shared import SharedFile

KERNELS = """
import gpuemu
import numpy as np
import pytest

def softmax(x):
    y = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return (y / y.sum(-1, keepdims=True)).astype(x.dtype)

def relu(x):
    return np.maximum(x, 0)

QUICK = {"dtypes": ["float32"], "shapes": {"B": [1, 2], "S": [7], "H": [8, 65]}, "value_distribution": "normal"}
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs pytest with the plugin on a file with these tests, below the kernels."""
    # Where the package is installed its entry point loads the plugin as well, and pytest refuses it twice.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("CI", "BUILD_NUMBER"):  # with them pytest repeats whole reports in its summary
        monkeypatch.delenv(name, raising=False)

    def run(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_of_a_user=KERNELS + tests)
        return pytester.runpytest_inprocess("-p", "gpuemu.pytest_plugin", "-rA", *options)

    return run


def test_a_right_kernel_passes_case_by_case(run: Any) -> None:
    result = run("""
@gpuemu.op("softmax", iterations=20, **QUICK)
def test_softmax(inputs):
    return softmax(inputs["input"])
""")
    result.assert_outcomes(passed=20)
    result.stdout.fnmatch_lines(["PASSED test_of_a_user.py::test_softmax[[]case19[]]"])


WRONG = """
@gpuemu.op("softmax", iterations=4, **QUICK)
def test_softmax(inputs):
    return softmax(inputs["input"]) * np.float32(2)
"""


def test_a_wrong_kernel_fails_with_diagnosis_simplest_case_and_replay(run: Any, client: Client) -> None:
    result = run(WRONG)
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    assert "softmax: fail (mismatch)" in text
    assert re.search(r'output "output": \d+ of \d+ elements are wrong; worst at \[\d+,\d+,\d+\]: got', text)
    assert re.search(r"diagnosis: .*2\.000", text), "twice as large everywhere, and no diagnosis says so"
    assert "All traceback entries are hidden" not in text
    assert re.search(r"^case: softmax dtype=float32 .*seed=\d+", text, re.M)
    simplest = re.search(r"^simplest case that fails in the same way: (softmax .*)$", text, re.M)
    replay = re.search(r"^replay: pytest test_of_a_user.py::test_softmax --gpuemu-case '(.*)'$", text, re.M)
    assert simplest and replay and simplest[1] == replay[1]
    assert "float32[1,1,1]" in replay[1], "twice 1 is wrong already: one element is the simplest case"
    # The command runs this case alone, and the same kernel fails on it in the same way.
    alone = run(WRONG, "--gpuemu-case", replay[1])
    alone.assert_outcomes(failed=1)
    assert "case: " + replay[1] in alone.stdout.str()
    run(WRONG, "--gpuemu-case", "gelu" + replay[1][len("softmax") :]).assert_outcomes()
    again = client.reproduce(replay[1])
    assert {k: a.shape for k, a in again.inputs.items()} == {"input": (1, 1, 1)}
    verdict = client.validate_op("softmax", again.inputs, np.full((1, 1, 1), 2, np.float32), math="gpu")
    assert (verdict.verdict, verdict.reason) == ("fail", "mismatch")
    assert verdict.max_diff == 1.0 and "got 2, want 1 " in text


def test_minimisation_can_be_switched_off(run: Any) -> None:
    result = run(WRONG, "--gpuemu-minimize=0")
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    assert "simplest case" not in text
    cases, replays = re.findall(r"^case: (.*)$", text, re.M), re.findall(r"^replay: .*'(.*)'$", text, re.M)
    assert len(cases) == 4 and cases == replays


TAIL = """
CALLS = []

@gpuemu.op("softmax", iterations=3, dtypes=["float32"], shapes={"B": [4], "S": [7], "H": [65]})
def test_tail(inputs):
    CALLS.append(inputs["input"].shape)
    y = softmax(inputs["input"])
    y[..., 5:] *= 2
    return y

def test_calls():
    print("calls", len(CALLS))
"""


@pytest.mark.parametrize(("budget", "calls"), [(0, 3), (3, 6)])
def test_minimisation_tries_as_many_cases_as_allowed_and_once(run: Any, budget: int, calls: int) -> None:
    result = run(TAIL, f"--gpuemu-minimize={budget}")
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines([f"calls {calls}"])  # of three failures of one kind the first is minimised


def test_minimisation_ends_at_the_first_shape_that_fails(run: Any) -> None:
    result = run(TAIL)
    assert "float32[1,1,6]" in result.stdout.str(), "columns from the sixth on are wrong"


def test_a_schema_of_the_callers(run: Any) -> None:
    result = run("""
SCHEMA = {"name": "matmul", "dims": [{"name": d, "candidates": [2, 9]} for d in "MKN"],
          "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
          "output": {"name": "c", "dims": ["M", "N"]}}

@gpuemu.op("matmul", iterations=6, op_schema=SCHEMA, dtypes=["float32"], value_distribution="normal")
def test_right(inputs):
    return inputs["a"] @ inputs["b"]

@gpuemu.op("matmul", iterations=2, op_schema=SCHEMA, dtypes=["float32"], value_distribution="normal")
def test_wrong(inputs):
    return inputs["a"] @ inputs["b"] + 1
""")
    result.assert_outcomes(passed=6, failed=2)
    result.stdout.fnmatch_lines(["matmul: fail (mismatch)"])


def test_what_was_opened_is_closed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SharedFile] = []  # kept alive, so that no garbage collection removes their files

    def make() -> SharedFile:
        made.append(SharedFile())
        return made[-1]

    monkeypatch.setattr("gpuemu.session.SharedFile", make)
    run(WRONG).assert_outcomes(failed=4)
    assert len(made) == 4, "one file for inputs and one for outputs, for the tests and before them for their first case"
    assert not [file.path for file in made if os.path.exists(file.path)]


def test_a_kernel_that_raises_shows_its_traceback(run: Any) -> None:
    result = run("""
@gpuemu.op("relu", iterations=1, **QUICK)
def test_relu(inputs):
    return inputs["x"]
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["relu: error (raised)", "  test_relu raised KeyError: 'x'", '*return inputs[[]"x"[]]'])
    assert result.stdout.str().count('return inputs["x"]') == 1, "the simplest case repeats the same words"


def test_an_unknown_operator_is_named_without_a_traceback(run: Any) -> None:
    result = run("""
@gpuemu.op("sotfmax", iterations=1)
def test_softmax(inputs):
    return softmax(inputs["input"])
""")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["gpuemu: *sotfmax*"])
    assert "session.py" not in result.stdout.str()


def test_attributes_are_passed_by_name(run: Any) -> None:
    result = run("""
@gpuemu.op("leaky_relu", iterations=8, attrs={"alpha": 0.25}, **QUICK)
def test_leaky(inputs, alpha):
    assert alpha == 0.25
    x = inputs["input"]
    return np.where(x >= 0, x, x * x.dtype.type(alpha))

@gpuemu.op("leaky_relu", iterations=8, **QUICK)
def test_all(inputs, **attrs):
    x = inputs["input"]
    return np.where(x >= 0, x, x * x.dtype.type(attrs["alpha"]))
""")
    result.assert_outcomes(passed=16)


def test_seed_and_iterations_of_the_command_line(run: Any) -> None:
    tests = """
SEEN = {}

@gpuemu.op("relu", dtypes=["float32"])
def test_free(inputs):
    SEEN.setdefault("free", []).append(inputs["input"].tobytes())
    return relu(inputs["input"])

@gpuemu.op("relu", iterations=3, seed=5, dtypes=["float32"])
def test_fixed(inputs):
    SEEN.setdefault("fixed", []).append(inputs["input"].tobytes())
    return relu(inputs["input"])

def test_seen():
    import zlib
    print("seen", {k: (len(v), zlib.crc32(b"".join(v))) for k, v in SEEN.items()})
"""
    seen = []
    for iterations, seed in ((4, []), (4, ["--gpuemu-seed=1"]), (4, ["--gpuemu-seed=0"]), (3, ["--gpuemu-seed=5"])):
        result = run(tests, f"--gpuemu-iterations={iterations}", *seed)
        found = re.search(r"^seen (.*)$", result.stdout.str(), re.M)
        assert found
        seen.append(eval(found[1]))
    default, one, zero, five = seen
    assert (default["free"][0], default["fixed"][0]) == (4, 3)
    assert default == one, "the default seed is 1"
    assert zero["free"] != one["free"], "0 is a seed like any other"
    assert zero["fixed"] == one["fixed"] == five["free"], "a test with a seed keeps it"


@pytest.mark.parametrize(
    ("option", "message"),
    [("--gpuemu-iterations=0", "--gpuemu-iterations is 0, want at least 1"),
     ("--gpuemu-minimize=-1", "--gpuemu-minimize is -1, want 0 or more"),
     ("--gpuemu-seed=-1", "--gpuemu-seed is -1, want 0 to 2[*][*]64-1")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(run: Any, option: str, message: str) -> None:
    result = run(WRONG, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}"])


def test_undecided_cases_are_skipped_with_the_reason(run: Any) -> None:
    result = run("""
@gpuemu.op("attention", iterations=2, dtypes=["float32"], shapes={"N": [0]})
def test_no_keys(inputs):
    return np.zeros_like(inputs["q"])
""")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*undecided: the contract of the operator decides on none of the elements"])


def test_what_did_not_run_fails(run: Any) -> None:
    result = run("""
@gpuemu.op("relu", iterations=1, **QUICK)
def test_relu(inputs):
    import a_package_that_is_nowhere
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["not run: relu: not_run: *needs the package a_package_that_is_nowhere*"])


def test_an_unwritten_tail_is_found(run: Any) -> None:
    result = run("""
@gpuemu.op("relu", iterations=4, outputs="allocated", **QUICK)
def test_whole(inputs, outputs):
    outputs["output"][...] = relu(inputs["input"])

@gpuemu.op("relu", iterations=4, outputs="allocated", **QUICK)
def test_tail(inputs, outputs):
    outputs["output"][..., :-1] = relu(inputs["input"])[..., :-1]
""")
    result.assert_outcomes(passed=4, failed=4)
    result.stdout.fnmatch_lines(["relu: fail (not_fully_written)", "  not_fully_written: output: * were not written *"])


def test_methods_and_static_methods(run: Any) -> None:
    result = run("""
class TestKernels:
    def setup_method(self):
        self.calls = 0

    @gpuemu.op("relu", iterations=2, **QUICK)
    def test_method(self, inputs):
        self.calls += 1
        return relu(inputs["input"]) * np.float32(self.calls)  # right in the first call of an instance

    @staticmethod
    @gpuemu.op("relu", iterations=2, **QUICK)
    def test_static(inputs):
        return relu(inputs["input"])

    @gpuemu.op("relu", iterations=1, **QUICK)
    def test_wrong(self, inputs):
        return inputs["input"] - 1
""")
    result.assert_outcomes(passed=4, failed=1)


def test_a_decorator_above_staticmethod_is_refused() -> None:
    with pytest.raises(TypeError, match="stands above @staticmethod: write @staticmethod first"):

        class _Kernels:
            @gpuemu.op("relu")
            @staticmethod
            def test_static(inputs: Any) -> Any:
                return inputs


def test_iterations_of_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="iterations is 0, want at least 1"):
        gpuemu.op("relu", iterations=0)


def test_marks_and_fixtures_of_the_user_stay(run: Any) -> None:
    result = run("""
LOG = []

@pytest.fixture
def logged():
    LOG.append("in")
    yield
    LOG.append("out")

@pytest.mark.xfail(reason="known", strict=True)
@gpuemu.op("relu", iterations=2, **QUICK)
def test_known(inputs):
    return inputs["input"] - 1

@gpuemu.op("relu", iterations=2, **QUICK)
@pytest.mark.skip(reason="not here")
def test_skipped(inputs):
    raise AssertionError

@pytest.mark.usefixtures("logged")
@gpuemu.op("relu", iterations=2, **QUICK)
def test_with_fixture(inputs):
    return relu(inputs["input"])

def test_log():
    assert LOG == ["in", "out", "in", "out"]
""")
    result.assert_outcomes(passed=3, xfailed=2, skipped=2)


def test_parametrize_and_fixtures(run: Any) -> None:
    result = run("""
@pytest.fixture
def half():
    return np.float32(0.5)

@pytest.mark.parametrize("factor", [2, 3], ids=["two", "three"])
@gpuemu.op("relu", iterations=3, **QUICK)
def test_relu(inputs, factor, half, tmp_path):
    assert tmp_path.is_dir()
    return relu(inputs["input"]) * half * np.float32(factor)

@pytest.mark.parametrize(("m", "k"), [(1, 1)])
class TestProducts:
    @gpuemu.op("matmul", iterations=2, dtypes=["float32"], value_distribution="normal")
    def test_matmul(self, a, b, m, half, k):
        return (a.astype(np.float64) @ b * m * k).astype(np.float32)
""")
    result.assert_outcomes(passed=3 + 2, failed=3)
    text = result.stdout.str()
    assert re.search(r"^PASSED test_of_a_user.py::test_relu\[two-case2\]", text, re.M)
    found = re.search(r"^replay: pytest '.*::test_relu\[three-case0\]' --gpuemu-case '(.*)'$", text, re.M)
    assert found and "float32[1,1," in found[1], text


def test_the_replay_of_a_variant_runs_it_alone(run: Any) -> None:
    tests = """
@pytest.mark.parametrize("factor", [1, 3])
@gpuemu.op("relu", iterations=3, **QUICK)
def test_relu(inputs, factor):
    return relu(inputs["input"]) * np.float32(factor)
"""
    text = run(tests).stdout.str()
    found = re.search(r"^replay: pytest '(.*)' --gpuemu-case '(.*)'$", text, re.M)
    assert found
    alone = run(tests, found[1], "--gpuemu-case", found[2])
    alone.assert_outcomes(failed=1)


def test_an_op_of_the_file_alone(run: Any) -> None:
    tests = """
SCHEMA = {"dims": [{"name": "N", "candidates": [1, 5, 8]}], "inputs": [{"name": "x", "dims": ["N"]}],
          "output": {"name": "y", "dims": ["N"]}}
OWN = {"op_schema": SCHEMA, "iterations": 4, "dtypes": ["float32"], "reference": lambda x: x * 2,
       "value_distribution": "normal"}

@gpuemu.op("twice", **OWN)
def test_right(x):
    return x + x

@gpuemu.op("twice", **OWN)
def test_wrong(inputs):
    return inputs["x"]

@gpuemu.op("twice", tolerance={"rtol": 1e-2}, **OWN)
def test_tolerance(x):
    return x * np.float32(2.002)

@gpuemu.op("twice", **OWN)
def test_no_tolerance(x):
    return x * np.float32(2.002)
"""
    result = run(tests)
    result.assert_outcomes(passed=8, failed=8)
    text = result.stdout.str()
    assert "twice: fail (mismatch)" in text
    replay = re.search(r"^replay: pytest (.*::test_wrong) --gpuemu-case '(.*)'$", text, re.M)
    assert replay and ":normal seed=" in replay[2], "a case that makes its inputs again"
    run(tests, replay[1], "--gpuemu-case", replay[2]).assert_outcomes(failed=1)


def test_gradients(run: Any) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    result = run("""
import jax

@jax.custom_vjp
def wrong(x):
    return jax.nn.relu(x)

wrong.defvjp(lambda x: (jax.nn.relu(x), x), lambda x, g: (2 * g,))

@gpuemu.op("relu", iterations=3, grad=True, framework="jax", **QUICK)
def test_right(inputs):
    return jax.nn.relu(inputs["input"])

@gpuemu.op("relu", iterations=3, grad=True, framework="jax", **QUICK)
def test_wrong(inputs):
    return wrong(inputs["input"])

@gpuemu.op("relu", iterations=1, grad=True, **QUICK)
def test_numpy(inputs):
    return relu(inputs["input"])
""")
    result.assert_outcomes(passed=3, failed=4)
    text = result.stdout.str()
    assert "relu: fail (gradient)" in text
    assert re.search(r"grad/input\[\d+,\d+,\d+\]: got [-0-9.e+]+, want [-0-9.e+]+ within", text), text
    assert re.search(r"simplest case that fails in the same way: relu .*float32\[1,1,1\]", text)
    assert "gpuemu: grad=True: functions of numpy have no gradients" in text
    with pytest.raises(ValueError, match="grad=True needs a function of torch, jax or tensorflow"):
        gpuemu.op("relu", grad=True, framework="numpy")


def test_nothing_is_stored_where_that_is_asked_for(run: Any, client: Client) -> None:
    run("""
@gpuemu.op("silu", iterations=3, seed=9231, store="none", **QUICK)
def test_it(inputs):
    return inputs["input"]
""", "--gpuemu-minimize=0").assert_outcomes(failed=3)
    assert not any(result.op_name == "silu" for result in client.list_failures(1000))


def test_a_decorated_function_is_called_as_ever() -> None:
    @gpuemu.op("relu", iterations=3)
    def kernel(inputs: Any, shift: int = 0) -> Any:
        """Its documentation."""
        return np.maximum(inputs["input"], 0) + shift

    assert kernel({"input": np.array([-1.0, 2.0])}, shift=1).tolist() == [1.0, 3.0]
    assert (kernel.__name__, kernel.__doc__) == ("kernel", "Its documentation.")


def test_a_project_is_found_from_the_directory_of_the_test(run: Any, pytester: pytest.Pytester) -> None:
    project = pytester.mkdir("project")
    (project / "gpuemu.toml").write_text("""
[[ops]]
name = "twice"
reference = "ref.py:twice"
schema = { dims = [{ name = "N", candidates = [1, 5] }], inputs = [{ name = "x", dims = ["N"] }],
           output = { name = "y", dims = ["N"] } }
""")
    (project / "ref.py").write_text("def twice(inputs):\n    return inputs['x'] * 2\n")
    (project / "test_twice.py").write_text(
        'import gpuemu\n\n@gpuemu.op("twice", iterations=3, dtypes=["float32"])\n'
        'def test_twice(inputs):\n    return inputs["x"] + inputs["x"]\n'
    )
    run("", "project/test_twice.py").assert_outcomes(passed=3)


def test_a_planted_configuration_decides_nothing(
    run: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gpuemu.toml above the directory of the test, outside of a repository, accepts no wrong kernel."""
    monkeypatch.setenv("HOME", str(pytester.mkdir("home")))  # pytester's own is the directory above, where one applies
    (pytester.path / "gpuemu.toml").write_text(
        "[validation]\ntolerances = { float32 = 1e9 }\n\n"
        '[[ops]]\nname = "relu"\ntolerances = { float32 = { atol = 1e9, rtol = 1e9 } }\n'
    )
    project = pytester.mkdir("project")
    (project / "test_zero.py").write_text(
        'import gpuemu\n\n@gpuemu.op("relu", iterations=4, dtypes=["float32"], value_distribution="normal")\n'
        'def test_zero(inputs):\n    return inputs["input"] * 0\n'
    )
    run("", "project/test_zero.py", "--gpuemu-minimize", "0").assert_outcomes(failed=4)


def test_without_such_tests_nothing_is_started(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUEMU_HOME", str(tmp_path / "unused"))
    result = run("""
@gpuemu.op("relu", iterations=3)
def test_relu(inputs):
    return relu(inputs["input"])

def test_plain():
    pass
""", "-k", "plain")
    result.assert_outcomes(passed=1, deselected=3)
    assert not os.path.exists(tmp_path / "unused"), "collecting tests has started a daemon"


WRONG_USES = {
    "mistyped": ('@gpuemu.op("sotfmax")\ndef test_it(inputs):\n    pass\n', 'gpuemu: * "sotfmax"*'),
    "dtype": ('@gpuemu.op("softmax", dtypes=["flaot32"])\ndef test_it(inputs):\n    pass\n', 'gpuemu: *"flaot32"*'),
    "attribute": ('@gpuemu.op("leaky_relu", attrs={"alhpa": 1.0})\ndef test_it(inputs):\n    pass\n',
                  "gpuemu: *alhpa*"),
    "no name": ("@gpuemu.op\ndef test_it(inputs):\n    pass\n", "*TypeError: @gpuemu.op needs the name of an op*"),
    "no argument": ("@gpuemu.op()\ndef test_it(inputs):\n    pass\n", "*missing 1 required positional*'name'*"),
    "option": ('@gpuemu.op("relu", iteratons=3)\ndef test_it(inputs):\n    pass\n', "*unexpected keyword*'iteratons'*"),
    "no inputs": ('@gpuemu.op("relu")\ndef test_it():\n    pass\n',
                  "*test_it: @gpuemu.op('relu') calls it as test_it(inputs), *write def test_it(inputs)"),
    "no outputs": ('@gpuemu.op("relu", outputs="allocated")\ndef test_it(inputs):\n    pass\n',
                   "*calls it as test_it(inputs, outputs), *write def test_it(inputs, outputs)"),
    "unknown argument": ('@gpuemu.op("leaky_relu")\ndef test_it(inputs, alhpa):\n    pass\n',
                         "*the parameter alhpa is no fixture, *no attribute of leaky_relu"),
    "unknown argument by name": ('@gpuemu.op("relu")\ndef test_it(input, aplha):\n    pass\n',
                                 "*the parameter aplha is no fixture, *no attribute of relu"),
    "two values": ('@pytest.fixture\ndef alpha():\n    return 1\n@gpuemu.op("leaky_relu")\n'
                   'def test_it(inputs, alpha):\n    pass\n',
                   "*alpha is an argument of leaky_relu as well as a fixture*"),
    "no self": ('class TestIt:\n    @gpuemu.op("relu")\n    def test_it(inputs):\n        pass\n',
                "*calls it as test_it(inputs), *write def test_it(self, inputs)"),
}  # fmt: skip


@pytest.mark.parametrize("use", WRONG_USES)
def test_a_wrong_use_is_one_error_of_collection(run: Any, use: str) -> None:
    text, message = WRONG_USES[use]
    result = run(text + "\ndef test_other():\n    pass\n")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*session.py*")


def test_errors_of_collection_do_not_hide_other_tests(run: Any) -> None:
    result = run(WRONG_USES["mistyped"][0] + """
@gpuemu.op("relu", iterations=2, **QUICK)
def test_relu(inputs):
    return relu(inputs["input"])

@pytest.mark.skip(reason="not here")
@gpuemu.op("nowhere", iterations=2)
def test_skipped(inputs):
    raise AssertionError
""", "--continue-on-collection-errors")
    result.assert_outcomes(errors=1, passed=2, skipped=2)
