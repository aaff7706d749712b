"""Figures of scans that wait for the disk; of what prefetching costs scans that need not; and through slow storage.

Before each cold sample the server is restarted and the system's cache emptied. The session then plans the statement,
and runs its like on a small table, so that catalogs and code are there. Samples of one start read different pages."""

import functools
import os
import statistics
from dataclasses import dataclass

from figures import figure, graph
from measure import METHODS, NO_OTHER_SCAN, below
from server import Failure

INDEX_ONLY = NO_OTHER_SCAN
PLAIN = NO_OTHER_SCAN | {"enable_indexonlyscan": "off"}
DEEP = {"effective_io_concurrency": "64"}
NO_PREFETCH = {"fpbtree.prefetch": "off"}
# What is measured beside one another: a method, and its settings.
ARMS = {"fpbtree": ("fpbtree", DEEP), "btree": ("btree", DEEP), "fpbtree by default": ("fpbtree", {})}
PREFETCH_ARMS = ARMS | {"prefetch off": ("fpbtree", DEEP | NO_PREFETCH)}
WARM_ARMS = ("fpbtree", "prefetch off", "btree")
RANGE_ARMS = ("fpbtree", "prefetch off", "btree")

RANGE_SIZES = tuple(10 ** power for power in range(2, 8))
DEPTHS = tuple(2 ** power for power in range(8))
ARRAY_KEYS = 10_000
SLOW_READ_MS = 1
SLOW_STORAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_storage.c")


def key_at(share):
    """The key below which about that share of all rows is: hashint4 spreads them evenly."""
    return int(share * 2**32) - 2**31


def between(first, last):
    """The condition for the rows from one share of all to another, in key order."""
    return f"k >= {key_at(first)} AND k < {key_at(last)}"


def count(table, condition):
    return f"SELECT count(*) FROM {table} WHERE {condition}"


def half_of_rows(bench, table):
    return [count(table, between(0, 0.5 * bench.rows / bench.rows_of("grown")))]


def upper_half(_, table):
    return [count(table, between(0.5, 1))]


def array(bench, table):
    """Keys of the rows that `half_of_rows` leaves out, at random."""
    numbers = f"SELECT 1 + {below(bench.rows_of('grown'), 71)} AS i FROM generate_series(1, {4 * ARRAY_KEYS}) i"
    distinct = f"SELECT DISTINCT hashint4(i::int4) AS k FROM ({numbers}) numbers"
    chosen = f"SELECT k FROM ({distinct}) keys WHERE k >= {key_at(0.6)} LIMIT {ARRAY_KEYS}"
    keys = bench.session.value(f"SELECT array_agg(k)::text FROM ({chosen}) chosen")
    return [count(table, f"k = ANY ('{keys}'::int4[])")]


def limited(limit, first, last, places, _, table):
    """The first rows, in order, from each of so many places between two shares of all rows."""
    starts = (key_at(first + (last - first) * place / places) for place in range(places))
    return [f"SELECT count(*) FROM (SELECT k FROM {table} WHERE k >= {start} ORDER BY k LIMIT {limit}) first"
            for start in starts]


@dataclass
class Scan:
    """Statements of one kind on the table of a kind; a sample is the mean of their times."""

    what: str
    kind: str
    settings: dict
    statements: object
    target: float
    complete: bool = False

    @property
    def node(self):
        return "Index Only Scan" if self.settings is INDEX_ONLY else "Index Scan"

    def time(self, session, statements, settings):
        session.set(**self.settings, **settings)
        return statistics.mean(session.time(statement) for statement in statements)


# No two scans of a table read the same rows.
SCANS = {
    "grown": Scan("index-only count(*) over an index grown by random inserts", "grown", INDEX_ONLY, half_of_rows, 0.30,
                  complete=True),
    "heap": Scan("index scan of 50,000 rows, each in another heap page", "scattered", PLAIN, upper_half, 0.20,
                 complete=True),
    "any": Scan("index scan, = ANY of 10,000 random keys", "grown", PLAIN, array, 0.20, complete=True),
    "limit_10": Scan("ORDER BY … LIMIT 10, each row in another heap page; mean of 20 places", "scattered", PLAIN,
                     functools.partial(limited, 10, 0, 0.1, 20), 1.05),
    "limit_100": Scan("ORDER BY … LIMIT 100, as before; mean of 10 places", "scattered", PLAIN,
                      functools.partial(limited, 100, 0.1, 0.25, 10), 0.7),
    "limit_1000": Scan("ORDER BY … LIMIT 1000, as before; mean of 5 places", "scattered", PLAIN,
                       functools.partial(limited, 1_000, 0.25, 0.5, 5), 0.4),
}
COMPLETE = [name for name, scan in SCANS.items() if scan.complete]


def statements(bench, name, method):
    """A scan's statements: those to be measured, and those for the small table. Checked to be planned as meant."""
    def make():
        scan = SCANS[name]
        table, spare = bench.indexed(scan.kind, method), bench.indexed("spare", method)
        measured = scan.statements(bench, table)
        bench.session.set(**scan.settings)
        bench.expect_plan(measured[0], f"{table}_k", scan.node)
        return measured, scan.statements(bench, spare)
    return bench.keep((name, method), make)


def start(bench, method, settings, **how):
    """Restarts, cold unless told otherwise, and runs the like of what is to be measured on a small table."""
    bench.restart(**how)
    for name, scan in SCANS.items():
        _, on_spare = statements(bench, name, method)
        scan.time(bench.session, on_spare, settings)


def time_scan(bench, name, arm):
    method, settings = PREFETCH_ARMS[arm]
    measured, _ = statements(bench, name, method)
    bench.session.explain(measured[0])
    return SCANS[name].time(bench.session, measured, settings)


def prepare(bench):
    for name in SCANS:
        for method in METHODS:
            statements(bench, name, method)


def prefetched(bench):
    """How many blocks this session's scans of fpbtree's indexes asked for ahead, and how many of them nobody read."""
    tables = sorted({SCANS[name].kind for name in COMPLETE})
    indexes = ", ".join(f"('{bench.indexed(kind, 'fpbtree')}_k'::regclass)" for kind in tables)
    [sums] = bench.session.query(f"SELECT sum(requested), sum(wasted) FROM (VALUES {indexes}) i (index),"
                                 " fpbtree_stat_prefetch(index)")
    return map(float, sums)


def cold_samples(bench):
    """{arm: one {scan: milliseconds} a start}; fpbtree's also tell about the blocks prefetched by complete scans."""
    prepare(bench)

    def run(arm, _):
        method, settings = ARMS[arm]
        start(bench, method, settings)
        sample = {name: time_scan(bench, name, arm) for name in COMPLETE}
        if method == "fpbtree":
            sample["requested"], sample["wasted"] = prefetched(bench)
        return sample | {name: time_scan(bench, name, arm) for name in SCANS if name not in COMPLETE}
    return bench.alternate(run, ARMS, warm_ups=0)


def column(samples, name):
    return [sample[name] for sample in samples]


def cold(name, arm, bench):
    samples = bench.keep("cold", lambda: cold_samples(bench))
    return {"fpbtree": column(samples[arm], name), "btree": column(samples["btree"], name)}


for _name, _scan in SCANS.items():
    figure(f"cold_{_name}", f"cold: {_scan.what}", target=_scan.target, cold=True,
           weight=70 if _name == "grown" else 0.1, note="effective_io_concurrency 64"
           )(functools.partial(cold, _name, "fpbtree"))
for _name, _scan in SCANS.items():
    figure(f"cold_{_name}_default", f"cold: {_scan.what}", cold=True, weight=0.1,
           note="the server's own effective_io_concurrency; btree's index scans do not depend on it"
           )(functools.partial(cold, _name, "fpbtree by default"))


@figure("cold_wasted", "blocks prefetched by complete cold scans (the first three), and never read", target=0.01,
        unit="blocks", against="requested", cold=True, weight=0.1)
def cold_wasted(bench):
    samples = bench.keep("cold", lambda: cold_samples(bench))["fpbtree"]
    return {"fpbtree": column(samples, "wasted"), "requested": column(samples, "requested")}


WARM_NOTE = "all in shared buffers, effective_io_concurrency 64"


def warm_samples(bench):
    """{(scan, arm): samples}: short ones, so more of them."""
    prepare(bench)
    pairs = [(name, arm) for name in SCANS for arm in WARM_ARMS]
    return bench.alternate(lambda pair, _: time_scan(bench, *pair), pairs, times=4)


def warm(name, bench):
    samples = bench.keep("warm", lambda: warm_samples(bench))
    return {arm: samples[name, arm] for arm in WARM_ARMS}


for _name, _scan in SCANS.items():
    figure(f"warm_{_name}", f"warm: {_scan.what}", target=1.03, against="prefetch off",
           weight=15 if _name == "grown" else 0.1, note=f"{WARM_NOTE}; the target is 1, and noise"
           )(functools.partial(warm, _name))
for _name, _scan in SCANS.items():
    figure(f"warm_{_name}_btree", f"warm: {_scan.what}", weight=0.1, note=WARM_NOTE)(functools.partial(warm, _name))


@figure("slow_heap", "index scan of rows that are each in another heap page, through simulated storage", target=0.05,
        weight=35, note="a read takes 1 ms, one asked for ahead what is left of it; 64 at a time")
def slow_heap(bench):
    prepare(bench)
    library = bench.server.compile(SLOW_STORAGE)
    rows = min(50_000, bench.rows // 400)
    condition = between(0.5, 0.5 + rows / bench.rows_of("scattered"))

    def run(method, _):
        # The storage is simulated, so the real one must not be waited for: the warm-up fills the system's cache.
        start(bench, method, DEEP, cold=False, preload=library)
        bench.session.set(**PLAIN, **DEEP)
        statement = count(f"scattered_{method}", condition)
        bench.session.explain(statement)
        return bench.session.time(statement)
    try:
        samples = bench.alternate(run)
    finally:
        bench.restart(cold=False)
    if min(samples["btree"]) < 0.9 * rows * SLOW_READ_MS:
        raise Failure(f"{SLOW_STORAGE} had no effect: {rows} reads took {min(samples['btree'])} ms")
    return samples


def disjoint_ranges(sizes, rows):
    """{size: conditions for about that many rows each}, no leaf in two of them; small ranges at several places."""
    conditions, first = {}, 0
    gap = rows // 1_000
    for size in sizes:
        conditions[size] = []
        for _ in range(10 if size <= 1_000 else 3 if size <= 10_000 else 1):
            conditions[size].append(between(first / rows, (first + size) / rows))
            first += size + gap
    if first > rows:
        raise Failure(f"{rows} rows are too few for ranges of {first}")
    return conditions


def by_x(samples, xs):
    """{arm: {x: samples}} of {arm: [{x: sample}]}."""
    return {arm: {x: column(of_arm, x) for x in xs} for arm, of_arm in samples.items()}


@graph("cold_by_range", "cold index-only scans of a grown index, by the number of rows", "rows", weight=30,
       note="effective_io_concurrency 64; small ranges are means of several places")
def cold_by_range(bench):
    prepare(bench)
    rows = bench.rows_of("grown")
    conditions = disjoint_ranges([size for size in RANGE_SIZES if size <= bench.rows // 2 or size == bench.rows], rows)

    def run(arm, _):
        method, settings = PREFETCH_ARMS[arm]
        start(bench, method, settings)
        bench.session.set(**INDEX_ONLY, **settings)
        bench.session.explain(count(f"grown_{method}", conditions[100][0]))
        return {size: statistics.mean(bench.session.time(count(f"grown_{method}", condition)) for condition in ranges)
                for size, ranges in conditions.items()}
    return by_x(bench.alternate(run, RANGE_ARMS, warm_ups=0), conditions)


def depth_samples(bench):
    """{method: one {(scan, depth): milliseconds} a start}: at each depth another range, in each round yet another."""
    prepare(bench)
    scans = {"grown": (INDEX_ONLY, 0.05 * bench.rows / bench.rows_of("grown")), "heap": (PLAIN, 0.05)}

    def run(method, number):
        start(bench, method, {})
        sample = {}
        for name, (settings, share) in scans.items():
            table = bench.indexed(SCANS[name].kind, method)
            for place, depth in enumerate(DEPTHS):
                first = share * ((place + number) % len(DEPTHS))
                bench.session.set(**settings, **{"fpbtree.prefetch_distance": depth})
                statement = count(table, between(first, first + share))
                bench.session.explain(statement)
                sample[name, depth] = bench.session.time(statement)
        return sample
    return bench.alternate(run, warm_ups=0)


def cold_by_depth(name, bench):
    samples = bench.keep("depth", lambda: depth_samples(bench))
    return {method: {depth: column(samples[method], (name, depth)) for depth in DEPTHS} for method in METHODS}


graph("cold_by_depth_grown", "cold index-only scans of a twentieth of the rows in a grown index, by depth",
      "fpbtree.prefetch_distance", weight=35, quick=False, note="btree has no such setting: it scans the same ranges"
      )(functools.partial(cold_by_depth, "grown"))
graph("cold_by_depth_heap", "cold index scans of 5,000 rows, each in another heap page, by depth",
      "fpbtree.prefetch_distance", weight=0.1, quick=False, note="btree has no such setting: it scans the same ranges"
      )(functools.partial(cold_by_depth, "heap"))
