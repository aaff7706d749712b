"""The matrix: fpbtree beside btree, for each kind of key and each thing that people do. Goes on where it stopped."""

import hashlib
import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass, field

import texts
from machine import cpu_model, machine, memory_mb
from matrix_columns import COLUMNS, TASKS, clean
from matrix_kinds import TYPES, kinds
from matrix_restarts import RESTARTS, SETTINGS
from measure import KINDS, METHODS, Bench, WrongPlan
from progress import Progress
from server import Failure, Server, can_forget

NAME = "matrix"
ROWS = {"quick": 100_000, "full": 800_000}
ROUNDS = 5
# How long a quick run takes of what a full one does.
QUICK = 0.2
# Where a ratio is red.
LIMIT = 1.02
# What becomes of a cell. Those of the last two are tried again by the next run.
MEASURED, IMPOSSIBLE, LEFT_OUT, BROKEN = "measured", "impossible", "left out", "broken"


def server_settings():
    """Everything fits in memory, the disk is not waited for, fpbtree has its own log, and nothing happens behind."""
    return {
        "shared_preload_libraries": "fpbtree",
        "shared_buffers": f"{min(4096, memory_mb() // 4)}MB",
        "max_wal_size": "16GB",
        "checkpoint_timeout": "1h",
        "maintenance_work_mem": "1GB",
        "fsync": "off",
        "autovacuum": "off",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "max_parallel_maintenance_workers": "0",
        **SETTINGS,
    }


def git(*arguments):
    """What git says of this repository; nothing where there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def identity(mode, rows, pg_config):
    """What all cells of one matrix have in common. `dirty` tells one set of changes that are not committed from another."""
    changes = git("diff", "HEAD", "--", ":/", ":(top,exclude)docs", ":(top,exclude)*.md")
    version = subprocess.run([pg_config, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": git("rev-parse", "HEAD"), "dirty": hashlib.md5(changes.encode()).hexdigest() if changes else "",
            "mode": mode, "rows": rows, "postgresql": version.removeprefix("PostgreSQL "), "cpu": cpu_model()}


def cell(samples, unit):
    """A cell of the samples: the median of the rounds' ratios, and the lowest and the highest of them. A round does not
    count where noise has left nothing of either method's share."""
    ratios = [ours / theirs for ours, theirs in zip(samples["fpbtree"], samples["btree"]) if min(ours, theirs) > 0]
    if 2 * len(ratios) <= len(samples["btree"]):
        return {"state": IMPOSSIBLE, "why": "too short to be told from noise"}
    return {"state": MEASURED, "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios),
            "unit": unit, **{method: statistics.median(samples[method]) for method in METHODS}, "samples": samples}


def failed_cell(failure):
    words = str(failure).strip()
    state = IMPOSSIBLE if isinstance(failure, WrongPlan) else BROKEN
    return {"state": state, "why": words if len(words) < 300 else f"{words[:300]}…"}


@dataclass
class State:
    """The cells there are, of one identity; every change is on disk at once."""

    path: str
    identity: dict
    cells: dict = field(default_factory=dict)
    about: dict = field(default_factory=dict)

    @classmethod
    def open(cls, directory, wanted):
        """The state in matrix.json, if it is of this identity; if not, that is put aside, and what was put aside of this
        identity goes on."""
        path = os.path.join(directory, f"{NAME}.json")
        found = cls.read(path)
        if found and found.identity != wanted:
            os.replace(path, aside(directory, found.identity))
            found = None
        if not found and os.path.exists(aside(directory, wanted)):
            os.replace(aside(directory, wanted), path)
            found = cls.read(path)
        return found if found and found.identity == wanted else cls(path, wanted)

    @classmethod
    def read(cls, path):
        try:
            with open(path, encoding="utf-8") as content:
                return cls(path, **json.load(content))
        except (OSError, ValueError, TypeError):
            return None

    def as_dict(self):
        return {"identity": self.identity, "cells": self.cells, "about": self.about}

    def save(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(f"{self.path}.new", "w", encoding="utf-8") as out:
            json.dump(self.as_dict(), out, indent=1)
        os.replace(f"{self.path}.new", self.path)

    def put(self, kind, column, content):
        self.cells.setdefault(kind, {})[column] = content
        self.save()

    def forget(self, names, columns):
        for kind in names:
            for column in columns:
                self.cells.get(kind, {}).pop(column, None)

    def missing(self, kind, columns):
        """Those of the columns whose cells are to be measured yet."""
        done = self.cells.get(kind, {})
        return [column for column in columns if column not in done or done[column]["state"] in (LEFT_OUT, BROKEN)]


def aside(directory, of):
    """Where a matrix waits while matrix.json is another one."""
    told = hashlib.md5(json.dumps(of, sort_keys=True).encode()).hexdigest()[:6]
    return os.path.join(directory, f"{NAME}-{of['mode']}-{of['commit'][:8]}-{told}.json")


def chosen(names, there_are, what):
    """The names that are asked for, in their order; all if none is."""
    unknown = [name for name in names if name not in there_are]
    if unknown:
        raise Failure(f"no {what} named {', '.join(unknown)}; there are {', '.join(there_are)}")
    return [name for name in there_are if not names or name in names]


def applicable(kind, columns):
    return [column for column in columns if COLUMNS[column].applies(kind)]


class Run:
    """Measures what is missing of a state."""

    def __init__(self, state, names, columns):
        self.state, self.mode = state, state.identity["mode"]
        self.kinds = kinds(state.identity["rows"])
        self.todo = {name: state.missing(name, applicable(self.kinds[name], columns)) for name in names}

    def pace(self):
        return (1 if self.mode == "full" else QUICK) * self.state.identity["rows"] / ROWS[self.mode]

    def seconds(self, name):
        """About how long the tasks of a kind take."""
        return self.pace() * sum(task.seconds for task in TASKS if set(task.columns) & set(self.todo[name]))

    def without_rights(self):
        for name in self.todo:
            for column in [] if can_forget() else [column for column in self.todo[name] if COLUMNS[column].root]:
                self.leave_out(name, column, "only root can empty the system's cache")

    def without_collation(self, bench):
        there = {name for name, in bench.session.query("SELECT collname FROM pg_collation")}
        for name in self.todo:
            for lacking in sorted(self.kinds[name].collations - there):
                for column in list(self.todo[name]):
                    self.leave_out(name, column, f"PostgreSQL has no collation {lacking} here")

    def leave_out(self, name, column, why):
        self.todo[name].remove(column)
        self.state.put(name, column, {"state": LEFT_OUT, "why": why})

    def restarted(self, task):
        return [name for name in self.todo if task.column in self.todo[name]]

    def measure(self, server):
        self.without_rights()
        self.progress = Progress({"tasks": sum(map(self.seconds, self.todo)), "restarts": self.pace() * sum(
            task.seconds * len(self.restarted(task)) for task in RESTARTS)})
        try:
            if any(self.todo.values()):
                with server:
                    self.measure_in(server)
        finally:
            self.progress.end()

    def measure_in(self, server):
        rows = self.state.identity["rows"]
        bench = Bench(server, rows, ROUNDS, self.mode == "full", kinds=self.kinds | {"spare": KINDS["spare"]})
        bench.session.query(TYPES)
        self.without_collation(bench)
        for name in self.todo:
            self.measure_kind(bench, name)
        for task in RESTARTS:
            self.measure_restarts(bench, task)

    def measure_kind(self, bench, name):
        """All cells of a kind but those that take restarts."""
        tasks = [task for task in TASKS if set(task.columns) & set(self.todo[name])]
        if not tasks:
            return
        self.progress.begin("tasks", name, self.seconds(name))
        texts.need_table(bench, self.kinds[name].family)
        done, whole = 0, sum(task.seconds for task in tasks)
        for task in tasks:
            bench.tick = lambda part, of, done=done, task=task: self.progress.tick((done + task.seconds * part / of) / whole)
            wanted = [column for column in task.columns if column in self.todo[name]]
            self.attempt(bench, [name], wanted, lambda task=task: {name: task.measure(bench, name)})
            done += task.seconds
        clean(bench, name, any(name in self.restarted(task) for task in RESTARTS if task.reuses))
        self.progress.tick(1)

    def measure_restarts(self, bench, task):
        """A column of all kinds. A kind whose data cannot be made is left to the others."""
        names = self.restarted(task)
        if not names:
            return
        self.progress.begin("restarts", task.column, self.pace() * task.seconds * len(names))
        bench.tick = lambda part, of: None
        prepared = {}
        for done, name in enumerate(names):
            def prepare(name=name):
                texts.need_table(bench, self.kinds[name].family)
                prepared[name] = task.prepare(bench, name)
            self.attempt(bench, [name], [task.column], prepare)
            self.progress.tick(0.5 * (done + 1) / len(names))
        bench.tick = lambda part, of: self.progress.tick(0.5 + 0.5 * part / of)
        if prepared:
            self.attempt(bench, list(prepared), [task.column], lambda: {
                name: {task.column: samples} for name, samples in task.measure(bench, prepared).items()})
        for name in names:
            task.clean(bench, name)

    def attempt(self, bench, names, columns, measure):
        """Keeps the cells of what measure() returns, or why there are none."""
        try:
            measured = measure() or {}
        except (Failure, OSError) as failure:
            measured = {name: dict.fromkeys(columns, failed_cell(failure)) for name in names}
            bench.recover()
        for name, of_columns in measured.items():
            for column in columns:
                found = of_columns[column]
                self.state.put(name, column, found if "state" in found else cell(found, COLUMNS[column].unit))


def run(directory, options, mode):
    """Measures what is missing, of what is asked for; returns the state."""
    rows = options.rows or ROWS[mode]
    names, columns = chosen(options.kind, kinds(rows), "kind"), chosen(options.column, COLUMNS, "column")
    state = State.open(directory, identity(mode, rows, options.pg_config))
    if options.fresh:
        state.forget(names, columns)
    started = time.time()
    Run(state, names, columns).measure(Server(options.pg_config, server_settings()))
    state.about = {"date": time.strftime("%Y-%m-%d", time.localtime(started)), "machine": machine(), "rounds": ROUNDS,
                   "settings": server_settings(),
                   "seconds": round(time.time() - started) + state.about.get("seconds", 0)}
    state.save()
    return state
