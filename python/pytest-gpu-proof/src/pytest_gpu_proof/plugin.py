"""The pytest plugin: options, markers and fixtures. What is done with them is in the other modules.

    @pytest.mark.gpu_proof
    def test_relu(gpu_proof_check):
        gpu_proof_check(name="relu", reference=python_relu, candidate=cuda_relu, args=([1.0, -2.0],))

    pytest --gpu-proof-enable
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from . import settings as options
from .devices import gpu_present
from .recorder import Recorder
from .tester import FINDINGS, Collected, Findings, Tester, write_collected

if TYPE_CHECKING:
    from gpuemu import Client

Compare = Callable[[Any, Any], Any]

# Options with which pytest runs no test, and a receipt is neither made nor moved.
LOOKING_ON = ("collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow")

CLIENT = pytest.StashKey["Client"]()
CODE = pytest.StashKey[Callable[[], str]]()
NONCE = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Adds the markers, and, where a receipt is wanted, what writes it."""
    config.addinivalue_line("markers", "gpu_proof: the test belongs to the proof: its outcome is in the receipt")
    config.addinivalue_line("markers", "gpu_equivalence: another name of gpu_proof")
    config.addinivalue_line("markers", "gpu_required: the test is skipped where there is no GPU")
    if not config.getoption("gpu_proof_enable") or any(config.getoption(name, None) for name in LOOKING_ON):
        return
    settings = options.load(config)
    if settings.required_marker not in ("gpu_proof", "gpu_equivalence"):
        config.addinivalue_line("markers", f"{settings.required_marker}: the test belongs to the proof")
    config.stash[NONCE] = settings.nonce
    worker = getattr(config, "workerinput", None)
    deliver: Callable[[Collected], None]
    if worker is None:
        recorder = Recorder(config, settings)
        config.pluginmanager.register(recorder, "gpu-proof-recorder")
        config.stash[CODE] = lambda: recorder.code
        deliver = recorder.add_collected
    else:
        given = worker["gpu_proof"]
        config.stash[CODE] = lambda: str(given["code"])

        def deliver(found: Collected) -> None:
            write_collected(given["directory"], str(worker["workerid"]), found)

    config.pluginmanager.register(Tester(settings.required_marker, deliver), "gpu-proof-tester")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need a GPU where there is none, whether a receipt is wanted or not."""
    needing = [item for item in items if item.get_closest_marker("gpu_required")]
    if needing and not gpu_present():
        for item in needing:
            item.add_marker(pytest.mark.skip(reason="no GPU is available (gpu_required)"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begins anew: a test that is run again must not keep what its last execution found."""
    item.stash[FINDINGS] = Findings()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes whether a test ended with an error of its own: if not, a check that failed was swallowed."""
    if call.when == "call" and FINDINGS in item.stash:
        skipped = call.excinfo is not None and isinstance(call.excinfo.value, pytest.skip.Exception)
        item.stash[FINDINGS].raised = call.excinfo is not None and not skipped


def pytest_unconfigure(config: pytest.Config) -> None:
    """Closes the connection to the engine."""
    client = config.stash.get(CLIENT, None)
    if client is not None:
        client.close()


def _client(config: pytest.Config) -> Client:
    """The connection of this process to the engine, made when it is first needed."""
    if CLIENT not in config.stash:
        from gpuemu import Client

        config.stash[CLIENT] = Client()
    return config.stash[CLIENT]


class Check:
    """The fixture gpu_proof_check."""

    def __init__(self, client: Callable[[], Client], findings: Findings) -> None:
        self._client = client
        self._findings = findings

    def __call__(
        self, name: str, reference: Callable[..., Any], candidate: Callable[..., Any], args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None, compare: Compare | None = None,
        metadata: Mapping[str, Any] | None = None, *, atol: float | None = None, rtol: float | None = None,
    ) -> None:  # fmt: skip
        """Fails the test if the candidate returns something else than the reference.

        Args:
            name: name of the check in the receipt.
            reference: computes what is right.
            candidate: what is tested.
            args, kwargs: arguments of both.
            compare: called with both results instead of the engine: it raises AssertionError or returns False where
                they differ, and returns None or True where they do not.
            metadata: what else the receipt should say: JSON with texts as keys.
            atol, rtol: tolerances instead of those of the data type.
        """
        __tracebackhide__ = True
        from .comparison import metadata_text

        if not isinstance(name, str) or not name:
            raise TypeError(f"gpu_proof_check: name is {name!r}, want a text")
        if compare is not None and (atol is not None or rtol is not None):
            raise TypeError(f"gpu_proof_check {name!r}: atol and rtol have no meaning beside compare")
        entry: dict[str, Any] = {"name": name, "outcome": "error", "metadata": metadata_text(metadata)}
        self._findings.checks.append(entry)
        both = (reference, candidate)
        entry["outcome"], message = self._run(both, tuple(args), dict(kwargs or {}), compare, (atol, rtol))
        if entry["outcome"] != "passed":
            pytest.fail(f"gpu_proof_check {name!r}: {message}")

    def _run(
        self, both: tuple[Callable[..., Any], Callable[..., Any]], args: tuple[Any, ...], kwargs: dict[str, Any],
        compare: Compare | None, tolerance: tuple[float | None, float | None],
    ) -> tuple[str, str]:  # fmt: skip
        """Outcome and message."""
        from . import comparison

        who = "the reference"
        try:
            want = both[0](*args, **kwargs)
            if compare is None:
                # Before the candidate runs: one that returns the same memory would be compared with itself.
                want = comparison.frozen(want)
            who = "the candidate"
            got = both[1](*args, **kwargs)
            if compare is None:
                got = comparison.frozen(got)
        except comparison.CheckError as exc:
            return "error", f"what {who} returned: {exc}"
        except Exception as exc:
            return "error", f"{who} raised {type(exc).__name__}: {exc}"
        try:
            if compare is None:
                comparison.compare(self._client, want, got, tolerance)
                return "passed", ""
            said = compare(want, got)
        except (AssertionError, comparison.CheckFailed) as exc:
            return "failed", str(exc) or "compare raised AssertionError"
        except comparison.CheckError as exc:
            return "error", str(exc)
        except Exception as exc:
            return "error", f"compare raised {type(exc).__name__}: {exc}"
        if said is None or (type(said).__name__ in ("bool", "bool_") and bool(said)):
            return "passed", ""
        if type(said).__name__ in ("bool", "bool_"):
            return "failed", "compare returned False"
        return "error", f"compare returned a {type(said).__name__}, want None, a bool, or an AssertionError raised"


@pytest.fixture
def gpu_proof_check(request: pytest.FixtureRequest) -> Iterator[Check]:
    """gpu_proof_check(name, reference, candidate, args=(), kwargs=None, compare=None, metadata=None)

    Calls both with the same arguments, fails the test if the results differ, and writes the check into the receipt.
    """
    findings: Findings = request.node.stash[FINDINGS]
    yield Check(lambda: _client(request.config), findings)
    _nothing_swallowed(findings)


@pytest.fixture
def gpu_proof_challenge(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """gpu_proof_challenge(op, kernel, *, dtype="float32", count=8, attributes=None, compiled=None, …)

    Runs the kernel on cases of an operator of the catalogue that follow from the digest of the code, and writes what
    comes out into the receipt, where gpu-proof verify --recheck holds it against the reference.
    """
    findings: Findings = request.node.stash[FINDINGS]

    def run(
        op: str, kernel: Callable[..., Any], *, dtype: str = "float32", count: int = 8,
        attributes: Mapping[str, Any] | None = None, compiled: Mapping[str, Any] | None = None,
        framework: str | None = None, device: str | None = None, outputs: str | None = None,
    ) -> None:  # fmt: skip
        """Fails the test if the kernel is wrong on a case.

        Args:
            op: operator of the catalogue (gpuemu ops).
            kernel: takes a dict of inputs (and attributes that it has parameters for), returns the outputs.
            dtype: data type of the cases.
            count: number of cases, at most 1000.
            attributes: attributes of the operator that are not to be drawn.
            compiled: the PTX file of the kernel and its launch, in the words of [ops.kernel] of gpuemu.toml, so that a
                verifier can run it as well: {"ptx", "entry", "grid", "block", "shared", "args"}.
            framework, device, outputs: as of gpuemu.Client.fuzz_op_client_side.
        """
        __tracebackhide__ = True
        from gpuemu.results import ClientError

        from . import binary, challenge

        code = request.config.stash[CODE]() if CODE in request.config.stash else ""
        nonce = request.config.stash.get(NONCE, "")
        entry = {"name": f"challenge {op} {dtype}", "outcome": "error", "metadata": {}}
        findings.checks.append(entry)
        place = {"framework": framework, "device": device, "outputs": outputs}
        message = ""
        try:
            record = challenge.challenge(
                _client(request.config), code, nonce, op, kernel, dtype=dtype, count=count, attributes=attributes,
                compiled=compiled, place=place,
            )  # fmt: skip
            findings.challenges.append(record)
            entry["outcome"] = "passed"
        except challenge.ChallengeFailed as exc:
            entry["outcome"], message = "failed", str(exc)
        except (ClientError, binary.BinaryFailed) as exc:
            message = str(exc)
        if message:
            pytest.fail(f"gpu_proof_challenge {op}: {message}", pytrace=False)

    yield run
    _nothing_swallowed(findings)


def _nothing_swallowed(findings: Findings) -> None:
    """Fails a test that went on after a check had failed. With both fixtures in use, once."""
    bad = [check["name"] for check in findings.checks if check["outcome"] != "passed"]
    if bad and not findings.raised:
        findings.raised = True
        pytest.fail(f"the checks {', '.join(map(repr, bad))} did not pass, and the test went on", pytrace=False)
