"""Records launches of public kernels in the emulator: a row per launch and a row per case, as lines of JSON.

A case is a function that calls a public library, or launches compiled kernels, on small inputs. What the emulator finds
is collected, not raised: the case goes on, so that later kernels are seen, too. A case ends early where a kernel is not
executed, as what follows would work on memory that was never written.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
import traceback
from collections.abc import Callable
from typing import Any

Case = Callable[["Recorder"], None]
MAX_FINDINGS = 20  # kept per launch; one per class and instruction is enough to classify


class NotExecuted(Exception):
    """A kernel that the emulator refused, or did not run to its end."""


class Recorder:
    """Writes rows of one project to OUT/PROJECT.jsonl, and the PTX of kernels with findings to OUT/ptx."""

    def __init__(self, project: str, version: str, out: str) -> None:
        self.project = project
        self.version = version
        self.out = pathlib.Path(out)
        (self.out / "ptx").mkdir(parents=True, exist_ok=True)
        self.case = ""
        self._compared: list[dict[str, Any]] = []
        self._file = self.out / f"{project}.jsonl"

    def run(self, name: str, case: Case) -> None:
        """Runs a case and records how it ended."""
        self.case, self._compared = name, []
        begin = time.monotonic()
        ended = "ok"
        try:
            case(self)
        except NotExecuted as exc:
            ended = f"not executed: {exc}"
        except Exception as exc:  # of the library or of the harness: shown, and the other cases go on
            ended = f"{type(exc).__name__}: {exc}"
            with open(self.out / "tracebacks.txt", "a", encoding="utf-8") as file:
                file.write(f"== {self.project} {name}\n{traceback.format_exc()}\n")
        wrong = [c for c in self._compared if not c["ok"]]
        self._write({"row": "case", "case": name, "ended": ended[:400], "compared": self._compared,
                     "seconds": round(time.monotonic() - begin, 2)})  # fmt: skip
        text = f"{len(self._compared) - len(wrong)} of {len(self._compared)} right"
        print(f"{self.project} {name}: {ended[:160]}, {text}, {time.monotonic() - begin:.1f} s", flush=True)

    def launch(self, kernel: str, module: str, spec: str, grid: Any, block: Any, result: Any, ptx: str) -> None:
        """Records one launch. spec tells specializations of a kernel apart."""
        findings = [
            {"kind": f.kind, "message": f.message, "line": f.line, "source": os.path.basename(f.source),
             "ptx_line": f.ptx_line, "block": f.block, "thread": f.thread, "count": f.count,
             "instruction": f.instruction, "inlined": [(os.path.basename(s), n) for s, n in f.inlined_at]}
            for f in result.findings[:MAX_FINDINGS]
        ]  # fmt: skip
        error = None if result.error is None else str(result.error)
        if findings or error:
            (self.out / "ptx" / f"{self.project}-{kernel}-{spec}.ptx").write_text(ptx, encoding="utf-8")
            kinds = ", ".join(sorted({f["kind"] for f in findings})) or error
            print(f"  {self.project} {self.case}: {kernel}: {str(kinds)[:200]}", flush=True)
        self._write({"row": "launch", "case": self.case, "kernel": kernel, "module": module, "spec": spec,
                     "grid": list(grid), "block": list(block), "status": result.status, "findings": findings,
                     "more": len(result.findings) + result.dropped - len(findings), "error": error,
                     "instructions": result.instructions, "seconds": round(result.seconds, 3)})  # fmt: skip
        if error is not None:
            raise NotExecuted(f"{kernel}: {error}")

    def skipped(self, kernel: str, module: str, why: str) -> None:
        """Records a kernel that is not launched, with the reason."""
        self._write({"row": "skipped", "kernel": kernel, "module": module, "why": why})

    def compare(self, name: str, got: Any, want: Any, tol: float = 1e-2) -> None:
        """Compares with a reference: root mean square of the difference by that of the reference at most tol."""
        import torch

        got, want = torch.as_tensor(got).detach().double(), torch.as_tensor(want).detach().double()
        if got.shape != want.shape or not torch.equal(got.isfinite(), want.isfinite()):
            error = float("inf")
        else:
            finite = want.isfinite()
            got, want = got[finite], want[finite]
            scale = float(want.square().mean().sqrt()) if want.numel() else 1.0
            error = float((got - want).square().mean().sqrt()) / (scale or 1.0) if want.numel() else 0.0
        self._compared.append({"name": name, "error": error if error != float("inf") else "inf", "ok": error <= tol})
        if error > tol:
            print(f"  {self.project} {self.case}: {name} differs: {error:.3g}", flush=True)

    def verdict(self, name: str, right: bool) -> None:
        """Records what a program says of its own results."""
        self._write({"row": "case", "case": name, "ended": "ok", "seconds": 0.0,
                     "compared": [{"name": "the program's own check", "error": None, "ok": right}]})  # fmt: skip

    def _write(self, row: dict[str, Any]) -> None:
        row = {"project": self.project, "version": self.version, **row}
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
