# SPDX-License-Identifier: GPL-2.0-only
"""Run stages beside each other, and say what came of each.

A stage is a command. What it says goes to target/check/STAGE.log; lines that show how far it is are
printed at once, and the end of the log when it fails. It has failed if its command did, if
something that it counts did, or if it did nothing at all. A stage that fails keeps those alone from
running that need it. At the end, and after each stage, target/check.json says all.
"""

import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

# Exit status of a stage that cannot be run here, if it may say so (automake's); the last line of
# its log is the reason.
SKIPPED = 77
# How often it is said what runs, seconds.
EVERY = 60
SLOWEST = 10
# Lines of a log, or of a failed test, that are repeated.
TAIL = 40


@dataclass
class Outcome:
    """What a stage's command came to, in numbers of whatever it counts."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why: str = ""
    failures: list = field(default_factory=list)
    skips: list = field(default_factory=list)
    times: list = field(default_factory=list)


def one(status: int, log: str) -> Outcome:
    """A command that does one thing."""
    return Outcome(passed=int(status == 0), failed=int(status != 0))


def counted(pattern: str) -> Callable:
    """A command that says what it did: the pattern's first group counts what passed, its second (if
    any) what failed. Each line that has it must have done something."""

    def judge(status: int, log: str) -> Outcome:
        found = [[int(n) for n in m.groups()] for m in re.finditer(pattern, log, re.MULTILINE)]
        done = Outcome(sum(n[0] for n in found), sum(sum(n[1:]) for n in found))
        if any(sum(n) == 0 for n in found):
            done.why = "a part of it ran nothing"
            done.failed += 1
        if status != 0 and not done.failed:
            done.failed = 1
        return done

    return judge


def junit(report: Path, skips: Callable[[], list] = list) -> Callable:
    """nextest's report of one run; `skips` says what was left out, and why."""

    def judge(status: int, log: str) -> Outcome:
        done = Outcome()
        try:
            cases = list(xml.parse(report).getroot().iter("testcase"))
        except (OSError, xml.ParseError) as error:
            done.why = f"no report of the tests: {error}"
            cases = []
        for case in cases:
            name = f"{case.get('classname')} {case.get('name')}"
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            done.times.append((name, float(case.get("time", 0))))
            if bad is None:
                done.passed += 1
                continue
            done.failed += 1
            said = "\n".join(part.text or "" for part in case.iter("system-err"))
            done.failures.append({"test": name, "said": panics(said or bad.text or "")})
        try:
            done.skips = skips()
        except Exception as error:
            done.why = f"what is left out is not known: {error}"
            done.failed += 1
        done.skipped = sum(skip.get("tests", 1) for skip in done.skips)
        if status != 0 and not done.failed:
            done.failed = 1
        return done

    return judge


def panics(said: str) -> str:
    """What a test, and the same test in its guest, said when they panicked, without the stack."""
    told, inside = [], False
    for line in said.splitlines():
        if " panicked at " in line:
            inside = True
        elif line.startswith(("stack backtrace:", "note: ")):
            inside = False
        if inside and line:
            told.append(line[:800])
    return "\n".join((told or said.splitlines())[-TAIL:])


@dataclass
class Stage:
    name: str
    command: list
    # It means nothing unless these have passed.
    needs: tuple = ()
    # Better not beside these.
    after: tuple = ()
    judge: Callable = one
    # Lines that are printed at once; of those with two numbers the last ones say how far it is.
    live: str = ""
    progress: str = ""
    may_skip: bool = False
    env: dict = field(default_factory=dict)


@dataclass
class Result:
    name: str
    result: str
    seconds: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why: str = ""


class Running:
    """A stage's command, its log, and how much of that was looked at."""

    def __init__(self, stage: Stage, tree: Path, logs: Path):
        self.stage, self.began, self.seen, self.far = stage, time.monotonic(), 0, ""
        self.log = logs / (re.sub(r"\W+", "-", stage.name) + ".log")
        with self.log.open("wb") as out:
            # In a session of its own: what it started ends with it when the gate is interrupted.
            self.process = subprocess.Popen(
                stage.command,
                cwd=tree,
                env=os.environ | stage.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.log.read_bytes().decode(errors="replace")

    def news(self) -> list[str]:
        """Lines to print, of those that are new."""
        with self.log.open("rb") as log:
            log.seek(self.seen)
            new = log.read()
        # A line that is being written comes next time.
        new = new[: new.rfind(b"\n") + 1]
        self.seen += len(new)
        lines = new.decode(errors="replace").splitlines()
        for line in lines:
            if self.stage.progress and (found := re.search(self.stage.progress, line)):
                self.far = "/".join(found.groups())
        return [line for line in lines if self.stage.live and re.search(self.stage.live, line)]

    def seconds(self) -> int:
        return round(time.monotonic() - self.began)


class Gate:
    def __init__(self, stages: list, tree: Path, jobs: int, facts: dict, say: Callable = print):
        names = [stage.name for stage in stages]
        assert len(set(names)) == len(names), names
        self.stages, self.tree, self.jobs, self.say = stages, tree, max(jobs, 1), say
        self.logs, self.json = tree / "target/check", tree / "target/check.json"
        self.skipped_by_tests = tree / "target/skipped"
        self.facts, self.began = facts, time.monotonic()
        self.results: dict[str, Result] = {}
        self.failures, self.skips, self.times = [], [], []

    def run(self) -> bool:
        """Did nothing fail?"""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.skipped_by_tests.unlink(missing_ok=True)
        self.write(ended=False)
        pending, running, told = list(self.stages), [], time.monotonic()
        # Only noted, wherever it comes: no stage is lost between its start and its end.
        interrupted = []
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, lambda *_: interrupted.append(True))
        while (pending or running) and not interrupted:
            self.start(pending, running)
            time.sleep(0.1)
            for one in list(running):
                ended = one.process.poll() is not None
                for line in one.news():
                    self.say(f"  {one.stage.name}: {line.strip()}")
                if ended:
                    running.remove(one)
                    self.end(one)
            if running and time.monotonic() - told >= EVERY:
                told = time.monotonic()
                far = [f"{one.stage.name} {one.seconds()} s {one.far}".strip() for one in running]
                self.say(f"  … {', '.join(far)}")
        for one in running:
            os.killpg(one.process.pid, signal.SIGTERM)
        for one in running:
            one.process.wait()
            self.interrupt(one.stage, "interrupted", one.seconds())
        for stage in pending:
            self.interrupt(stage, "interrupted before it began")
        # What tests themselves left out.
        if self.skipped_by_tests.exists():
            for line in self.skipped_by_tests.read_text().splitlines():
                what, _, why = line.partition(": ")
                self.skips.append({"what": what, "why": why, "tests": 0})
        self.write(ended=True)
        self.say(self.table())
        return self.passed()

    def interrupt(self, stage: Stage, why: str, seconds: int = 0):
        self.settle(stage, Result(stage.name, "failed", seconds, failed=1, why=why))

    def passed(self) -> bool:
        results = self.results.values()
        ran = any(r.result == "passed" for r in results)
        return (
            ran
            and len(results) == len(self.stages)
            and not any(r.result == "failed" for r in results)
        )

    def start(self, pending: list, running: list):
        """Begins those whose turn it is, and gives up those that have lost what they need."""
        for stage in list(pending):
            known = {s.name for s in self.stages}
            waits_for = [
                n for n in (*stage.needs, *stage.after) if n in known and n not in self.results
            ]
            lost = [
                n for n in stage.needs if n in self.results and self.results[n].result != "passed"
            ]
            if lost:
                pending.remove(stage)
                why = f"it needs what has not passed: {', '.join(lost)}"
                self.settle(stage, Result(stage.name, "skipped", skipped=1, why=why))
            elif not waits_for and len(running) < self.jobs:
                pending.remove(stage)
                self.say(f"{now()}  {stage.name}")
                try:
                    running.append(Running(stage, self.tree, self.logs))
                except OSError as error:
                    self.settle(
                        stage,
                        Result(stage.name, "failed", failed=1, why=f"it cannot be run: {error}"),
                    )

    def end(self, one: Running):
        stage, status, log = one.stage, one.process.returncode, one.text()
        if status == SKIPPED and stage.may_skip:
            why = (log.splitlines() or ["it does not say why"])[-1]
            return self.settle(
                stage, Result(stage.name, "skipped", one.seconds(), skipped=1, why=why)
            )
        done = stage.judge(status, log)
        if done.passed == 0 and done.failed == 0:
            done.failed, done.why = 1, done.why or "it ran nothing"
        result = "failed" if status != 0 or done.failed else "passed"
        why = done.why or (f"exit status {status}" if status else "")
        self.failures += [failure | {"stage": stage.name} for failure in done.failures]
        self.skips += [skip | {"stage": stage.name} for skip in done.skips]
        self.times += done.times
        self.settle(
            stage,
            Result(stage.name, result, one.seconds(), done.passed, done.failed, done.skipped, why),
        )
        if result == "failed" and not done.failures:
            self.say("\n".join(f"    {line}" for line in log.splitlines()[-TAIL:]))
            self.say(f"    all of it is in {one.log.relative_to(self.tree)}")

    def settle(self, stage: Stage, result: Result):
        self.results[stage.name] = result
        if result.result == "skipped":
            self.skips.append(
                {"what": stage.name, "why": result.why, "stage": stage.name, "tests": 0}
            )
        if result.result == "failed" and not any(f["stage"] == stage.name for f in self.failures):
            self.failures.append({"stage": stage.name, "test": "", "said": result.why})
        word = result.result.upper() if result.result == "failed" else result.result
        why = f": {result.why}" if result.why else ""
        self.say(f"{now()}  {stage.name}: {word}, {result.seconds} s{why}")
        self.write(ended=False)

    def leave_out(self, stage: Stage, why: str):
        self.skips.append({"what": stage.name, "why": why, "stage": stage.name, "tests": 0})

    def slowest(self) -> list:
        return sorted(self.times, key=lambda t: -t[1])[:SLOWEST]

    def write(self, ended: bool):
        told = self.facts | {
            "ended": ended,
            "passed": ended and self.passed(),
            "seconds": round(time.monotonic() - self.began),
            "stages": [asdict(self.results[s.name]) for s in self.stages if s.name in self.results],
            "not_yet": [s.name for s in self.stages if s.name not in self.results],
            "slowest": [
                {"test": name, "seconds": round(seconds, 3)} for name, seconds in self.slowest()
            ],
            "failures": self.failures,
            "skips": self.skips,
        }
        # Whole, or as it was.
        new = self.json.with_suffix(".new")
        new.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
        new.rename(self.json)

    def table(self) -> str:
        results = [self.results[s.name] for s in self.stages if s.name in self.results]
        wide = max(len(r.name) for r in results)
        lines = ["", f"{'stage':{wide}}  result   passed  failed  skipped  seconds"]
        for r in results:
            word = r.result.upper() if r.result == "failed" else r.result
            lines.append(
                f"{r.name:{wide}}  {word:7}{r.passed:8}{r.failed:8}{r.skipped:9}{r.seconds:9}"
            )
        if self.times:
            lines += ["", "slowest tests"]
            lines += [f"{seconds:9.1f} s  {name}" for name, seconds in self.slowest()]
        if self.skips:
            lines += ["", "skipped"]
            lines += [f"  {skip['what']}: {skip['why']}" for skip in self.skips]
        for failure in self.failures:
            lines += ["", f"FAILED  {failure['stage']}  {failure['test']}".rstrip()]
            lines += [f"    {line}" for line in failure["said"].splitlines()]
        count = {
            word: sum(r.result == word for r in results) for word in ("passed", "failed", "skipped")
        }
        stages = ", ".join(f"{n} {word}" for word, n in count.items())
        verdict = "passed" if self.passed() else "FAILED"
        took = round(time.monotonic() - self.began)
        left_out = len(self.skips)
        lines += ["", f"{verdict} after {took} s; stages: {stages}; left out: {left_out}"]
        return "\n".join(lines)


def now() -> str:
    return datetime.now(timezone.utc).strftime("%H:%M:%S")
