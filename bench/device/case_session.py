"""A session of the client whose kernel is launched by a Launcher, case by case."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from launchers import Launcher

from gpuemu import Client
from gpuemu._case import Case, Execution
from gpuemu.results import ValidationResult
from gpuemu.session import AHEAD, KernelSession


class CaseSession(KernelSession):
    """Cases of one subject. Case i is case i of `gpuemu fuzz --op ID --seed SEED` with the same configuration."""

    def __init__(self, launcher: Launcher, options: dict[str, Any], *, client: Client, seed: int, framework: str,
                 device: str, repeat: bool) -> None:  # fmt: skip
        super().__init__(launcher.subject.id, print, options, framework=framework, device=device, client=client,
                         outputs="allocated", repeat=repeat)  # fmt: skip
        self.seed = seed
        self._launcher = launcher
        self._own = client

    def close(self) -> None:
        super().close()
        self._own.close()

    @property
    def alive(self) -> bool:
        """Whether the device still takes launches."""
        return self._open is None or self._open.guard.broken is None

    def judge(self, case: Case, store: str = "none") -> ValidationResult:
        # What was begun is in the log: a kernel that hangs takes the process with it.
        print("case", case.index, case.dtype, case.text, file=sys.stderr, flush=True)
        self.kernel = self._launcher.kernel(case)
        return super().judge(case, store)

    def cases(self, count: int) -> Iterator[Case]:
        """So many cases, with their inputs, from the first on; each until the next is asked for."""
        at = 0
        while at < count:
            for case in self._fetch(min(AHEAD, count - at), start=at):
                yield case
                at += 1

    def outputs(self, launcher: Launcher, case: Case) -> Execution:
        """What a kernel gives on a case, not judged."""
        done: Execution = self._ready().guard.run(launcher.kernel(case), case)
        return done
