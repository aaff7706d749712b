"""The matrix's columns that take restarts: one a round, for all kinds at once, whose data are in different files."""

import re
from bisect import bisect_left
from dataclasses import dataclass

from cold import DEEP, PLAIN, count
from matrix_columns import between, check, clean, rows_of_range
from measure import ARMS, METHODS, differences
from own_log import crash, log_position
from server import Failure

# The server writes these lines while it recovers, with log_startup_progress_interval one every so often.
REDO = re.compile(r"([\d.]+) LOG:  redo (?:starts at|in progress.*current LSN:|done at) ([0-9A-F]+)/([0-9A-F]+)")
# So many rows of each table in a round: more would take gigabytes of log.
MOST_REDONE = 40_000
SETTINGS = {"log_startup_progress_interval": "1ms", "log_line_prefix": "%n "}


@dataclass(frozen=True)
class Restarts:
    """A task of all kinds: `prepare(bench, kind)` makes what `measure(bench, prepared)` is given of it, by kind;
    `clean(bench, kind)` drops it. `seconds` is about how long it takes for a kind, in a full run; `reuses`, whether it is
    of the indexed tables."""

    column: str
    prepare: object
    measure: object
    clean: object
    seconds: float
    reuses: bool = False


def turns(kinds, arms, number):
    """All kinds with all arms, the order of each being the opposite in every other round."""
    pairs = [(kind, arm) for kind in kinds for arm in (arms if number % 2 == 0 else arms[::-1])]
    return pairs if number % 4 < 2 else pairs[::-1]


def prepare_cold(bench, kind):
    """The statements on the kind's tables."""
    condition = between(bench, kind, 0.6, 0.62)
    statements = {method: rows_of_range(bench.indexed(kind, method), condition) for method in METHODS}
    bench.session.set(**PLAIN)
    for method in METHODS:
        check(bench, statements[method], f"{kind}_{method}_k", "Index Scan")
    return statements


def measure_cold(bench, statements):
    """Each start runs each statement once; planned before, with code and catalogs read by a scan of a small table."""
    samples = {kind: {method: [] for method in METHODS} for kind in statements}
    spare = [count(bench.indexed("spare", method), "k > 0") for method in METHODS]
    for number in range(bench.rounds):
        bench.restart()
        bench.session.set(**PLAIN | DEEP)
        for statement in spare:
            bench.session.query(statement)
        for kind, method in turns(statements, METHODS, number):
            bench.session.explain(statements[kind][method])
            samples[kind][method].append(bench.session.time(statements[kind][method]))
        bench.tick(number + 1, bench.rounds)
    return samples


def prepare_redo(bench, kind):
    """Tables of half of the rows."""
    for arm in ARMS:
        bench.fill(f"redone_{kind}_{arm}", kind, arm, bench.rows // 2)


def measure_redo(bench, kinds):
    """In each round every table gets some of the other rows, then one recovery inserts them all again. How long each
    table's took, follows from how far the server says that it is."""
    samples = {kind: {arm: [] for arm in ARMS} for kind in kinds}
    batch = min(bench.rows // 2 // bench.rounds, MOST_REDONE)
    for number in range(bench.rounds):
        bench.session.query("CHECKPOINT")
        spans, first = {}, bench.rows // 2 + number * batch
        for kind, arm in turns(kinds, ARMS, number):
            before = log_position(bench)
            bench.insert(f"redone_{kind}_{arm}", kind, first + 1, first + batch)
            spans[kind, arm] = before, log_position(bench)
        bench.session.query("SELECT pg_switch_wal()")
        points = redo_points(crash(bench))
        if points[0][0] > min(before for before, _ in spans.values()):
            raise Failure("a checkpoint came between: what was inserted before it was not redone")
        for (kind, arm), (before, after) in spans.items():
            samples[kind][arm].append(at(points, after) - at(points, before))
        bench.tick(number + 1, bench.rounds)
    return {kind: differences(samples[kind]) for kind in kinds}


def redo_points(log):
    """How far a recovery was at which time: (log position, milliseconds), ascending."""
    return [((int(high, 16) << 32) + int(low, 16), float(seconds) * 1000) for seconds, high, low in REDO.findall(log)]


def at(points, position):
    """When the recovery was at a log position, in milliseconds, as between the two points beside it."""
    next_one = min(max(bisect_left(points, (position, 0)), 1), len(points) - 1)
    (low, began), (high, ended) = points[next_one - 1], points[next_one]
    share = (position - low) / (high - low) if high > low else 1
    return began + min(max(share, 0), 1) * (ended - began)


def clean_redo(bench, kind):
    bench.session.query(f"DROP TABLE IF EXISTS {', '.join(f'redone_{kind}_{arm}' for arm in ARMS)}")


# Of all kinds, when everything else is done.
RESTARTS = [
    Restarts("cold", prepare_cold, measure_cold, clean, 3, reuses=True),
    Restarts("redo", prepare_redo, measure_redo, clean_redo, 5),
]
