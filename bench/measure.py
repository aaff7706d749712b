"""What the figures are made of: identical tables, alternating runs, medians."""

import statistics
import sys
import time
from dataclasses import dataclass, field

from server import Failure

METHODS = ("fpbtree", "btree")
# The arms of a figure that is about an index's share: what is left when the work without an index is taken off.
ARMS = ("none", *METHODS)

# The i-th key of each type: random, and the same in every table and run.
KEYS = {
    "int4": "hashint4(i::int4)",
    "int8": "hashint8extended(i, 0)",
    "uuid": "md5(i::text)::uuid",
}

NO_OTHER_SCAN = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
NESTED_LOOP = NO_OTHER_SCAN | {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off",
                               "enable_memoize": "off"}


@dataclass
class Result:
    """One row of the report: the samples of both methods, in one unit."""

    name: str
    what: str
    unit: str
    fpbtree: list
    btree: list
    target: float | None = None
    note: str = ""

    @property
    def ratio(self):
        base = statistics.median(self.btree)
        return statistics.median(self.fpbtree) / base if base > 0 else None

    @property
    def met(self):
        """Whether the target is met; None where there is none, or nothing to compare with."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio <= self.target

    def as_dict(self):
        def side(samples):
            return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}
        return {"figure": self.name, "what": self.what, "unit": self.unit, "fpbtree": side(self.fpbtree),
                "btree": side(self.btree), "ratio": self.ratio, "target": self.target, "met": self.met,
                "note": self.note}


class Progress:
    """Which figure is at work, a bar, and the time left, on the terminal."""

    WIDTH = 24

    def __init__(self, total):
        self.total, self.done, self.started = total, 0.0, time.monotonic()
        self.last = None

    def show(self, name, fraction, weight):
        done = self.done + weight * fraction
        share = done / self.total
        elapsed = time.monotonic() - self.started
        left = f"{elapsed * (1 - share) / share:.0f} s left" if share > 0.02 else "estimating"
        bar = "#" * int(self.WIDTH * share)
        line = f"[{bar:<{self.WIDTH}}] {share:4.0%}  {name:<18} {left}"
        if sys.stderr.isatty():
            print(f"\r{line:<72}", end="", file=sys.stderr, flush=True)
        elif self.last != (name, bar):
            print(line, file=sys.stderr, flush=True)
        self.last = (name, bar)

    def finish(self, weight):
        self.done += weight


@dataclass
class Bench:
    """A running benchmark: what a figure's function gets."""

    server: object
    rows: int
    rounds: int = 5
    tick: object = lambda done, of: None
    ready: set = field(default_factory=set)

    def __post_init__(self):
        self.session = self.server.session()
        self.session.query("CREATE EXTENSION fpbtree")

    def indexed(self, key, method):
        """A table of all rows with one index, vacuumed; made when first asked for. Not to be changed by figures."""
        table = f"{key}_{method}"
        if table not in self.ready:
            self.fill(table, key, method)
            self.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")
            self.ready.add(table)
        return table

    def fill(self, table, key, method):
        """(Re)creates a table k of all rows; method `none` means without an index."""
        self.session.query(f"DROP TABLE IF EXISTS {table}")
        self.session.query(f"CREATE TABLE {table} (k {key})")
        self.insert(table, key, 1, self.rows)
        if method != "none":
            self.create_index(table, method)

    def insert(self, table, key, first, last):
        """Appends keys first..last; returns the milliseconds."""
        return self.session.time(f"INSERT INTO {table} SELECT {KEYS[key]} FROM generate_series({first}, {last}) i")

    def create_index(self, table, method):
        """Builds the index on k at fillfactor 90; returns the milliseconds."""
        return self.session.time(f"CREATE INDEX {table}_k ON {table} USING {method} (k) WITH (fillfactor = 90)")

    def size(self, table):
        return int(self.session.query(f"SELECT pg_relation_size('{table}_k')"))

    def alternate(self, run, arms=METHODS):
        """One warm-up, then `rounds` rounds of run(arm, round), each in the opposite order of the one before."""
        samples = {arm: [] for arm in arms}
        for number in range(self.rounds + 1):
            order = arms if number % 2 == 0 else tuple(reversed(arms))
            for step, arm in enumerate(order):
                sample = run(arm, number)
                if number > 0:
                    samples[arm].append(sample)
                self.tick(number * len(arms) + step + 1, (self.rounds + 1) * len(arms))
        return samples

    def share(self, run):
        """As `alternate`, but an index's share: each round's time less that of the same round without an index."""
        samples = self.alternate(run, ARMS)
        return {method: [with_index - without for with_index, without in zip(samples[method], samples["none"])]
                for method in METHODS}

    def once(self, run):
        """For what has no noise, such as a size."""
        return {method: [run(method)] for method in METHODS}

    def expect_plan(self, statement, index, *node_types):
        """Runs the statement once; fails unless it reads this index, alone, through these nodes and not the heap."""
        nodes = self.session.explain(statement, "ANALYZE", "TIMING OFF")
        types = {node["Node Type"] for node in nodes}
        indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
        fetches = sum(node.get("Heap Fetches", 0) for node in nodes)
        if not types.issuperset(node_types) or indexes != {index} or fetches > 0:
            raise Failure(f"not the plan to be measured ({', '.join(node_types)} on {index}): "
                          f"{', '.join(sorted(types))} on {', '.join(indexes) or 'no index'}, {fetches} heap fetches")
