"""The lab's figures: the papers' structures, measured without PostgreSQL by a program of its own."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from server import Failure

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# As scripts/build-lab has it.
PROGRAM = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "release", "fpbtree-lab")
# The sizes of pages, in KB, that it takes other builds to measure.
OTHER_SIZES = (4, 16, 32)


@dataclass
class LabFigure:
    """A figure that the lab has: `seconds` is about how long it takes, quick and full."""

    name: str
    title: str
    source: str
    seconds: list

    def measure(self, full, done, program=PROGRAM):
        """What came of it, for the report; or why nothing did, as its `error`. `done` is told the part that is done."""
        started = time.monotonic()
        try:
            outcome = run(program, self.name, full, done)
        except Failure as failure:
            outcome = {"panels": [], "claims": [], "error": str(failure)}
        return {"name": self.name, "title": self.title, "source": self.source,
                "seconds": round(time.monotonic() - started, 1)} | outcome


def figures(program=PROGRAM):
    """{name: figure}, in the lab's order."""
    if not os.path.exists(program):
        raise Failure(f"no {program}: `scripts/build-lab` builds it, and `make bench` calls that")
    listed = subprocess.run([program, "--json"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise Failure(f"{program} has no list of figures: {listed.stderr}")
    return {figure.name: figure for figure in (LabFigure(**json.loads(line)) for line in listed.stdout.splitlines())}


def environment(program):
    """Tells the program where the builds for other page sizes are, if they are."""
    builds = {f"FPBTREE_LAB_{size}K": f"{program}-{size}k" for size in OTHER_SIZES}
    return os.environ | {name: build for name, build in builds.items() if os.path.exists(build)}


def run(program, name, full, done):
    """Runs one figure to its end; the program, and what it started, is gone whatever happens here."""
    command = [program, "--json", *(["--full"] if full else []), name]
    # A file takes the outcome: a pipe that nobody reads would hold the program up.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        with subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace",
                              env=environment(program), start_new_session=True) as process:
            try:
                said = follow(process.stderr, done)
                status = process.wait()
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        out.seek(0)
        return outcome_of(out.read(), status, said)


def follow(lines, done):
    """Passes on how far the program says it is; returns what else it said."""
    said = []
    for line in lines:
        words = line.split()
        if len(words) == 2 and words[0] == "done":
            done(float(words[1]))
        else:
            said.append(line)
    return "".join(said).strip()


def outcome_of(answer, status, said):
    if status != 0:
        raise Failure(f"it ended with status {status}" + (f": {said[-1000:]}" if said else ""))
    try:
        outcome = json.loads(answer)
        return {"panels": outcome["panels"], "claims": outcome["claims"]}
    except (ValueError, KeyError) as error:
        raise Failure(f"what it printed is no outcome: {error!r}") from error
