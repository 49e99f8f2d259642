"""Runs the corpus (internal/corpus, docs/corpus.md) on a GPU, on the cases that the emulator's study runs.

usage: corpus.py [--budget SECONDS] [--workers N] [--held-out]
       corpus.py --equivalence IDS...    mutant against base kernel, bit by bit
       corpus.py --sanitize IDS...       mutants and their base kernels under compute-sanitizer
       corpus.py --dry ...               any of these in the emulator, where there is no GPU

IDS are files with an id a line, or `missed` (mutants that device.jsonl has without a failure) or `equal` (those that
equivalence.jsonl has without a difference). Records go to $OUT: device.jsonl, equivalence.jsonl, sanitize.jsonl, in the
format of bench/detection/record. They are written as they come, so that a run that is cut off leaves what it has.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pool
import record
import sanitized
from case_session import CaseSession
from corpus_files import ROOT, Corpus, Subject, config_of
from launchers import Backend, Emulator, Gpu, Launcher

import gpuemu

CASES = 100  # of a mutant, up to its first failure
BASE_CASES = 200  # of a base kernel, a number format and a way to draw values
SAMPLES = 1000  # that a mutant and its base are compared on
SAMPLE_SEED = 1 << 32  # added to the seed for those: other cases than the ones that were judged
CONCURRENCY = "concurrency"  # class of mutants whose cases run twice
MESSAGE = 240  # characters of a message that are kept
FORMAT = 1  # of the records
FAILED = ("fail", "error")


def arguments() -> argparse.ArgumentParser:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equivalence", nargs="+", metavar="IDS", help="compare mutants with their base kernels")
    parser.add_argument("--sanitize", nargs="+", metavar="IDS", help="run mutants under compute-sanitizer")
    parser.add_argument("--budget", type=float, default=240, metavar="SECONDS", help="start nothing after this long")
    parser.add_argument("--workers", type=int, default=12, help="processes on the device")
    parser.add_argument("--cases", type=int, default=CASES, help="cases of a mutant")
    parser.add_argument("--base-cases", type=int, default=BASE_CASES, help="cases of a base kernel")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="cases of a comparison")
    parser.add_argument("--seed", type=int, default=1, help="master seed of the cases")
    parser.add_argument("--only", default="", help="only kernels and mutants whose id contains this")
    parser.add_argument("--held-out", action="store_true", help="run the mutants of held-out operators, too")
    parser.add_argument("--dry", action="store_true", help="launch in the emulator")
    parser.add_argument("--checks", default="none", help="with --dry: what the emulator looks for")
    parser.add_argument("--corpus", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def schemas(binary: str) -> dict[str, dict[str, Any]]:
    """What launches need to know of every operator: its inputs, and dimensions that follow from others."""
    reply = subprocess.run([binary, "ops", "--format", "json"], check=True, capture_output=True, text=True, timeout=60)
    found = {}
    for op in json.loads(reply.stdout)["ops"]:
        derived = {d["name"]: d["expr"] for d in op["schema"]["dims"] if "expr" in d}
        found[op["name"]] = {"inputs": [i["name"] for i in op["schema"]["inputs"]], "derived": derived}
    return found


# ---- what a worker does ----------------------------------------------------------------------------------------------


class Worker:
    """Runs jobs in a process of its own."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.corpus = Corpus(args.corpus)
        self.client = gpuemu.Client(timeout_ms=120_000)
        self.gpu = None if args.dry else Gpu()
        self.backend: Backend = self.gpu or Emulator(self.client, args.checks)

    def run(self, job: pool.Job) -> pool.Row:
        """The row of a job."""
        pool.say(f"job {job['name']}")  # the log then says what was begun
        subject = self.corpus.subjects[job["id"]]
        # What is held against a mutant is compiled as it is: the code for another architecture may round otherwise.
        arch = "" if job["run"] == "device" else "sm_80"
        launcher = Launcher(self.backend, self.corpus, subject, job["schema"], arch)
        session = self._session(job, launcher)
        try:
            if job["run"] == "device":
                return check(job, session)
            if job["run"] == "sanitizer":
                return prepare(job, session, launcher)
            base = self.corpus.subjects[subject.kernel]
            other = Launcher(self.backend, self.corpus, base, job["schema"], arch)
            return compare(job, session, launcher, other)
        finally:
            alive = session.alive
            session.close()
            if self.gpu is not None and alive:
                self.gpu.forget()

    def _session(self, job: pool.Job, launcher: Launcher) -> CaseSession:
        folder = Path(tempfile.mkdtemp(dir=os.environ["GPUEMU_HOME"]))
        config = folder / "gpuemu.toml"
        config.write_text(config_of(launcher.subject, contiguous=not launcher.strided))
        options = {"dtypes": job["dtypes"], "value_distribution": job["values"]}
        return CaseSession(
            launcher, options, client=gpuemu.Client(config=str(config), timeout_ms=120_000), seed=job["seed"],
            framework=self.backend.framework, device=self.backend.device, repeat=job.get("repeat", False),
        )  # fmt: skip

    def healthy(self) -> None:
        """Raises where the device does not answer any more."""
        if self.gpu is not None:
            self.gpu.wait()


def check(job: pool.Job, session: CaseSession) -> pool.Row:
    """Cases in order, of a mutant up to the first that fails."""
    row: pool.Row = {"cases": 0, "failed": 0, "not_run": 0, "undecided": 0, "first": 0}
    start = time.monotonic()
    seconds = None
    for index in range(job["cases"]):
        case, result = session.run(index, job["cases"])
        row["cases"] += 1
        row["not_run"] += result.verdict == "not_run"
        row["undecided"] += result.verdict == "undecided"
        if result.verdict in FAILED:
            row["failed"] += 1
            if not row["first"]:
                seconds = time.monotonic() - start
                row.update(first=index + 1, fail_dtype=case.dtype, case=case.text, **_reason(result))
        elif result.verdict == "not_run" and "message" not in row:
            row["message"] = short(result.message)
        if row["failed"] and (job["stop"] or not session.alive):
            break
    row["seconds"] = round(time.monotonic() - start if seconds is None else seconds, 3)
    return row


def _reason(result: Any) -> dict[str, Any]:
    return {"reason": result.reason, "message": short(result.message),
            "findings": list(dict.fromkeys(f["kind"] for f in result.findings))}  # fmt: skip


def compare(job: pool.Job, session: CaseSession, mutant: Launcher, base: Launcher) -> pool.Row:
    """Both kernels on the same cases, up to the first whose outputs differ in a bit.

    Where the base kernel itself gives other bits when it runs again, the case says nothing; it counts as undecided.
    """
    row: pool.Row = {"cases": 0, "undecided": 0, "not_run": 0, "first": 0}
    start = time.monotonic()
    for case in session.cases(job["cases"]):
        want, got = session.outputs(base, case), session.outputs(mutant, case)
        row["cases"] += 1
        if want.outputs is None or got.outputs is None:
            row["not_run"] += want.outputs is None
            if want.outputs is not None:  # the mutant alone has none
                assert got.failure is not None  # outputs or a failure, never both
                row.update(first=row["cases"], reason=got.failure.reason, message=short(got.failure.message))
        elif (where := difference(want.outputs, got.outputs)) is not None:
            if difference(want.outputs, (session.outputs(base, case).outputs or {})) is not None:
                row["undecided"] += 1
                continue
            row.update(first=row["cases"], reason="differs", message=where)
        if new := sorted({f.kind for f in got.findings} - {f.kind for f in want.findings}):
            row["findings"] = sorted({*row.get("findings", []), *new})
        if row["first"]:
            row.update(fail_dtype=case.dtype, case=case.text)
        if row["first"] or not session.alive:
            break
    row["failed"] = int(row["first"] > 0)
    row["seconds"] = round(time.monotonic() - start, 3)
    return row


def difference(want: dict[str, Any], got: dict[str, Any]) -> str | None:
    """Where outputs differ first, as bits; None where they do not."""
    for name, array in want.items():
        other = got.get(name)
        if other is None:
            return f"there is no {name}"
        if array.tobytes() != other.tobytes():
            size = array.dtype.itemsize
            ours, theirs = array.reshape(-1).view(f"u{size}"), other.reshape(-1).view(f"u{size}")
            places = (ours != theirs).nonzero()[0]
            at = int(places[0])
            return (f"{places.size} of {ours.size} elements of {name}, the first is element {at}: "
                    f"{int(theirs[at]):#x}, the base has {int(ours[at]):#x}")  # fmt: skip
    return None


def prepare(job: pool.Job, session: CaseSession, launcher: Launcher) -> pool.Row:
    """Writes launches on some small cases to a folder, for a process without the client and without PyTorch."""
    folder = Path(job["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    kept = 0
    for case in session.cases(sanitized.LOOKED_AT):
        launch, dense = launcher.plan(case)
        size = sum(v.storage.nbytes for v in case.inputs)
        if launch.empty or size > sanitized.LARGEST:
            continue
        args = launcher.filled(case, launch)
        values = [arg if isinstance(arg, bytes) else sanitized.contents(case, arg, dense) for arg in args]
        sanitized.save(folder, kept, launcher.subject, launcher.ptx(case.dtype), case, launch, values)
        kept += 1
        if kept == sanitized.LAUNCHES:
            break
    return {"cases": kept, "first": 0, "failed": 0, "seconds": 0.0}


def short(text: str) -> str:
    """The first line of a message, cut."""
    lines = text.strip().splitlines()
    return lines[0][:MESSAGE] if lines else ""


# ---- jobs and records ------------------------------------------------------------------------------------------------


def check_jobs(corpus: Corpus, args: argparse.Namespace) -> list[pool.Job]:
    """What is judged, the most important first: a run that is cut off leaves the rest out."""
    jobs: list[pool.Job] = []
    chosen = [s for s in corpus.subjects.values() if args.only in s.id and (args.held_out or not s.held_out)]
    for subject in chosen:
        if subject.mutant:
            jobs.append(job_of(subject, "device", args.cases, args.seed, stop=True,
                               repeat=subject.group == CONCURRENCY))  # fmt: skip
    for values in ("mixed", "adversarial"):
        for subject in chosen:
            for dtype in () if subject.mutant else subject.dtypes:
                jobs.append(job_of(subject, "device", args.base_cases, args.seed, stop=False, setting=values,
                                   dtype=dtype, dtypes=[dtype], values=values))  # fmt: skip
    return jobs


def job_of(subject: Subject, run: str, cases: int, seed: int, **more: Any) -> pool.Job:
    """A job; what its record has in the end, and what the worker needs beside that."""
    job: pool.Job = {"run": run, "id": subject.id, "op": subject.op, "cases": cases, "seed": seed, "values": "mixed",
                     "dtypes": list(subject.dtypes), **more}  # fmt: skip
    words = (job["run"], job["id"], job.get("setting"), job.get("dtype"))
    return {"name": " ".join(w for w in words if w), **job}


def listed(words: list[str], corpus: Corpus, held_out: bool) -> list[Subject]:
    """The mutants that files and names of records give, each once."""
    ids: list[str] = []
    for word in words:
        if word in ("missed", "equal"):
            path = pool.out_dir() / ("device.jsonl" if word == "missed" else "equivalence.jsonl")
            ran = [r for r in read_records(path) if r["cases"] > 0 and not r.get("not_run")]
            ids += [r["id"] for r in ran if not r.get("first")]
        else:
            ids += [line.strip() for line in Path(word).read_text().splitlines() if line.strip()]
    unknown = [i for i in ids if i not in corpus.subjects]
    if unknown:
        raise SystemExit(f"{unknown[0]} is not in the corpus: an id a line is expected, as mutants.json has them")
    subjects = [corpus.subjects[i] for i in dict.fromkeys(ids)]
    return [s for s in subjects if s.mutant and (held_out or not s.held_out)]


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, without its header."""
    if not path.exists():
        raise SystemExit(f"there is no {path}: run the mode that writes it first")
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


FIELDS = (
    "run", "id", "setting", "dtype", "seed", "cases", "failed", "not_run", "undecided", "first", "fail_dtype", "case",
    "reason", "findings", "message", "seconds",
)  # fmt: skip


def record_of(row: pool.Row) -> dict[str, Any]:
    """A row of the pool as a record; its fields are those of bench/detection/record."""
    row = dict(row, seed=str(row["seed"]))
    if "error" in row:
        row.update(failed_worker(row))
    row["cases"] = row["cases"] if "seconds" in row else 0
    row.setdefault("seconds", 0.0)
    kept = {k: row[k] for k in FIELDS if row.get(k) not in (None, "", [])}
    return {k: v for k, v in kept.items() if v != 0 or k in ("cases", "seconds")}


def failed_worker(row: pool.Row) -> dict[str, Any]:
    """What a row without a result says. A kernel that hangs or ends its process has failed in the case that was begun;
    everything else is a fault of the run, and nothing is known of the kernel.
    """
    lines = row.get("last", [])
    marks = [i for i, line in enumerate(lines) if line.startswith("job ")]
    if marks:
        lines = lines[marks[-1] + 1 :] if lines[marks[-1]] == f"job {row['name']}" else []
    begun = next((line for line in reversed(lines) if line.startswith("case ")), "")
    hung = next((line for line in reversed(lines) if line.startswith("hang: ")), "")
    if row["run"] == "device" and begun and (hung or "ended with status -" in row["error"]):
        _, number, dtype, text = begun.split(" ", 3)
        return {"cases": int(number) + 1, "failed": 1, "first": int(number) + 1, "fail_dtype": dtype, "case": text,
                "reason": "timed_out" if hung else "crashed", "message": short(hung or row["error"]),
                "seconds": 0.0}  # fmt: skip
    return {"message": short(row["error"])}


class Records:
    """Records in the order of their jobs, written every few seconds and at the end."""

    def __init__(self, name: str, jobs: list[pool.Job], args: argparse.Namespace) -> None:
        self._path = pool.out_dir() / name
        self._order = {job["name"]: i for i, job in enumerate(jobs)}
        self._rows: dict[int, dict[str, Any]] = {}
        self._written = 0.0
        words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
        self._header = {
            "format": FORMAT, "command": " ".join(["bench/device/corpus.py", *words]), "commit": commit(),
            "machine": record.machine("cpu" if args.dry else "cuda"), "budget": args.cases, "held_out": args.held_out,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        }  # fmt: skip

    def take(self, row: pool.Row) -> None:
        """Adds a row and says so."""
        made = record_of(row)
        self._rows[self._order[row["name"]]] = made
        first = f", case {made['first']}: {made.get('reason', '')}" if made.get("first") else ""
        why = f": {made['message']}" if made["cases"] == 0 else ""
        pool.say(f"[{len(self._rows)}/{len(self._order)}] {row['name']}: {made['cases']} cases{first}{why}")
        if time.monotonic() - self._written > record.WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """Writes the file."""
        self._written = time.monotonic()
        left = len(self._order) - sum(r["cases"] > 0 for r in self._rows.values())
        header = dict(self._header, note=f"{left} of {len(self._order)} were not run") if left else self._header
        lines = [header, *(self._rows[i] for i in sorted(self._rows))]
        record.write(self._path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))

    def summary(self) -> str:
        """How many ran, and how many failed."""
        rows = list(self._rows.values())
        ran = [r for r in rows if r["cases"] > 0]
        return (f"{self._path.name}: {len(ran)} of {len(self._order)} ran, {sum(r.get('failed', 0) > 0 for r in ran)} "
                f"with failures, {sum(r.get('not_run', 0) > 0 for r in ran)} with cases that were not run")  # fmt: skip


def commit() -> str:
    """The commit of the checkout; "" where git does not know."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pool.ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def main() -> None:
    args = arguments().parse_args()
    if args.worker:
        pool.say("job none")
        worker = Worker(args)
        pool.work(worker.run, worker.healthy)
        return
    deadline = time.monotonic() + args.budget
    corpus = Corpus(args.corpus)
    with pool.Home() as home:
        ops = schemas(home.binary)
        run = pool.Pool(os.path.abspath(__file__), sys.argv[1:], home, deadline, lambda row: None)
        if args.sanitize:
            subjects = listed(args.sanitize, corpus, args.held_out)
            # What a tool says of the base kernel, too, is no fault of the mutant.
            subjects += [corpus.subjects[name] for name in dict.fromkeys(s.kernel for s in subjects)]
            jobs = [job_of(s, "sanitizer", sanitized.LAUNCHES, args.seed, folder=f"{home.path}/launches/{s.id}",
                           dtypes=[s.dtypes[0]], dtype=s.dtypes[0]) for s in subjects]  # fmt: skip
        elif args.equivalence:
            subjects = listed(args.equivalence, corpus, args.held_out)
            jobs = [job_of(s, "device-equivalence", args.samples, args.seed + SAMPLE_SEED) for s in subjects]
        else:
            jobs = check_jobs(corpus, args)
        if not jobs and not args.sanitize and not args.equivalence:  # those may have nothing left to do
            raise SystemExit(f"no kernel of the corpus has {args.only!r} in its id")
        jobs = [dict(job, schema=ops[job["op"]]) for job in jobs]
        if args.sanitize:
            prepared: list[pool.Row] = []
            run.take = prepared.append
            run.run(jobs, args.workers)
            jobs = sanitized.jobs_of(prepared)
            records = Records("sanitize.jsonl", jobs, args)
            sanitized.run_all(jobs, records.take, home, deadline, args.dry)
        else:
            records = Records("equivalence.jsonl" if args.equivalence else "device.jsonl", jobs, args)
            run.take = records.take
            run.run(jobs, args.workers)
    records.write()
    print(records.summary())


if __name__ == "__main__":
    main()
