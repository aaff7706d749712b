"""The matrix's columns: what is measured of each kind of key.

A task is one function that measures some columns of one kind, (bench, kind) -> {column: samples}; those of
`matrix_restarts` measure all kinds at once. Samples are {"fpbtree": […], "btree": […]}, a number a round."""

import functools
import glob
import math
import os
import re
import statistics
from dataclasses import dataclass

from cold import INDEX_ONLY, PLAIN, count
from figures import ALONE, SHARED, time_build, time_vacuum
from measure import ARMS, METHODS, NESTED_LOOP, WrongPlan, differences
from own_log import log_position

PLAIN_LOOP = NESTED_LOOP | {"enable_indexonlyscan": "off"}
# Small tables are built in parallel, too.
PARALLEL = SHARED | {"min_parallel_table_scan_size": "0"}
# At most so many rows that a lookup returns.
LOOKED_UP = 100
# So many statements are of one file, quick and full, and so many times it is run.
LOOKUPS = (500, 2000)
LOOKED_UP_TIMES = 4
# At the least so many milliseconds a sample of a scan takes, quick and full, by repeating it.
LONG_ENOUGH = (30, 60)


@dataclass(frozen=True)
class Column:
    """What is measured; `applies` tells of a kind whether it makes sense for it."""

    title: str
    unit: str = "ms"
    note: str = ""
    applies: object = lambda kind: True
    root: bool = False


COLUMNS = {
    "size": Column("size, built", "bytes", "at fill 90"),
    "grown": Column("size, grown", "bytes", "by inserts in the order that the kind's name says"),
    "build": Column("build", note="CREATE INDEX, serial, maintenance_work_mem 1 GB"),
    "build_parallel": Column("build, parallel", note="CREATE INDEX, one parallel worker beside, 64 MB"),
    "insert": Column("insert", note="the index's share of time, in the same order as for the size"),
    "wal": Column("WAL", "bytes", "that the same inserts write, the index's share"),
    "probe": Column("probe", note="nested loop of index-only scans, a key in each; no round has the keys of another"),
    "probe_rows": Column("probe, rows", note="the same with the table's rows"),
    "lookup": Column("lookup", note="one a statement, with the rows, by pgbench -M prepared; the keys come four times"),
    "scan": Column("scan", note="all keys, in order, index-only"),
    "count": Column("count", note="count(*) of a fifth, index-only"),
    "range": Column("range", note="the same with the table's rows, in key order"),
    "like": Column("LIKE", note="count(*) of what begins like a twentieth of all, or more; index-only",
                   applies=lambda kind: kind.like),
    "vacuum": Column("VACUUM", note="of half of the rows after deleting 30 % of them, the index's share"),
    "cold": Column("cold", note="the rows of a fiftieth in key order, server restarted, the system's cache emptied, "
                   "effective_io_concurrency 64", root=True),
    "redo": Column("redo", note="of such inserts after a crash, the index's share"),
}


@dataclass(frozen=True)
class Task:
    """`seconds` is about how long it takes of one kind, in a full run."""

    columns: tuple
    measure: object
    seconds: float


def keys(bench, kind):
    return list(bench.kinds[kind].columns)


def check(bench, statement, index, *node_types):
    """As Bench.expect_plan, but says in a word where no index-only scan can be."""
    if "Index Only Scan" in node_types:
        if not bench.session.value(f"SELECT pg_index_column_has_property('{index}', 1, 'returnable')"):
            raise WrongPlan("no index-only scan")
    bench.expect_plan(statement, index, *node_types)


def sizes(bench, kind):
    return {"size": bench.once(lambda method: bench.size(bench.indexed(kind, method)))}


def inserts(bench, kind):
    """A quarter of the rows is there at first; each round appends as many of the others."""
    first = bench.rows // 4
    batch = (bench.rows - first) // (bench.rounds + 1)
    for arm in ARMS:
        bench.create_table(f"inserted_{arm}", kind)
        if arm != "none":
            bench.create_index(f"inserted_{arm}", kind, arm)
        bench.insert(f"inserted_{arm}", kind, 1, first)
    bench.session.query("CHECKPOINT")

    def run(arm, number):
        before, last = log_position(bench), first + number * batch
        return bench.insert(f"inserted_{arm}", kind, last + 1, last + batch), log_position(bench) - before
    samples = bench.alternate(run, ARMS)
    return {"insert": differences({arm: [sample[0] for sample in samples[arm]] for arm in ARMS}),
            "wal": differences({arm: [sample[1] for sample in samples[arm]] for arm in ARMS}),
            "grown": bench.once(lambda method: bench.size(f"inserted_{method}"))}


def build(column, settings, bench, kind):
    return {column: time_build(bench, kind, settings)}


def make_probes(bench, kind):
    """Tables probes_0, probes_1, …, of keys to be looked up: for two tasks, and all their rounds, each of other rows."""
    def make():
        tables = 2 * (bench.rounds + 1)
        rows = max(1, int(bench.rows / tables / bench.kinds[kind].fan))
        columns = ", ".join(f"{name} {definition}" for name, definition in bench.kinds[kind].columns.items())
        bench.session.query("DROP TABLE IF EXISTS probes")
        bench.session.query(f"CREATE TABLE probes (turn int8, {columns}) PARTITION BY LIST (turn)")
        for turn in range(tables):
            bench.session.query(f"CREATE TABLE probes_{turn} PARTITION OF probes FOR VALUES IN ({turn})")
        shuffled = (f"SELECT {', '.join(keys(bench, kind))} FROM {bench.indexed(kind, 'btree')}"
                    f" ORDER BY hashint8extended(payload, 91) LIMIT {rows * tables}")
        bench.session.query(f"INSERT INTO probes SELECT row_number() OVER () % {tables}, * FROM ({shuffled}) shuffled")
        bench.session.query("VACUUM (FREEZE, ANALYZE) probes")
        return True
    return bench.keep(f"probes_{kind}", make)


def probe(bench, kind, column, scan, settings, counted):
    """A nested loop that looks keys up, other ones in each round; `counted` is a column of the rows."""
    tables = {method: bench.indexed(kind, method) for method in METHODS}
    make_probes(bench, kind)
    first = 0 if column == "probe" else bench.rounds + 1
    condition = " AND ".join(f"t.{key} = p.{key}" for key in keys(bench, kind))

    def statement(method, number):
        return f"SELECT count(t.{counted}) FROM probes_{first + number} p JOIN {tables[method]} t ON {condition}"
    bench.session.set(**settings)
    for method in METHODS:
        check(bench, statement(method, 0), f"{tables[method]}_k", "Nested Loop", scan)
    return {column: bench.alternate(lambda method, number: bench.session.time(statement(method, number)))}


def probe_keys(bench, kind):
    return probe(bench, kind, "probe", "Index Only Scan", NESTED_LOOP, keys(bench, kind)[0])


def probe_rows(bench, kind):
    return probe(bench, kind, "probe_rows", "Index Scan", PLAIN_LOOP, "payload")


def literals(bench, kind, query):
    """The rows of a query, each a list of literals of the key's columns."""
    parts = ", ".join(f"quote_literal({key}::text)" for key in keys(bench, kind))
    types = [definition.split()[0] for definition in bench.kinds[kind].columns.values()]
    rows = bench.session.query(f"SELECT {parts} FROM ({query}) chosen")
    return [[f"{value}::{kind}" for value, kind in zip(row, types)] for row in rows]


def lookup(bench, kind):
    """One statement for each of many keys, in a file for pgbench, which prepares each when it first comes to it."""
    fan = bench.kinds[kind].fan
    many = max(20, int(LOOKUPS[bench.full] / min(fan, LOOKED_UP)))
    chosen = literals(bench, kind, f"SELECT * FROM {bench.indexed(kind, 'btree')}"
                      f" ORDER BY hashint8extended(payload, 92) LIMIT {many}")
    limit = f" LIMIT {LOOKED_UP}" if fan > LOOKED_UP else ""
    scripts = {}
    for method in METHODS:
        table = bench.indexed(kind, method)
        statements = [f"SELECT payload FROM {table} WHERE {equal(bench, kind, values)}{limit}" for values in chosen]
        bench.session.set(**PLAIN)
        check(bench, statements[0], f"{table}_k", "Index Scan")
        scripts[method] = bench.server.script(f"lookup_{method}.sql", statements)
    return {"lookup": bench.alternate(lambda method, _: run_script(bench, scripts[method]) / many)}


def equal(bench, kind, values):
    return " AND ".join(f"{key} = {value}" for key, value in zip(keys(bench, kind), values))


def run_script(bench, path):
    """Runs a file of statements some times; how many milliseconds that took at the median, but for the first time."""
    logs = f"{path}.log"
    bench.server.run("pgbench", "-n", "-M", "prepared", "-t", str(LOOKED_UP_TIMES + 1), "-f", path, "-l",
                     f"--log-prefix={logs}", settings=PLAIN)
    [log] = glob.glob(f"{logs}.*")
    with open(log, encoding="ascii") as lines:
        taken = [int(line.split()[2]) / 1000 for line in lines]
    os.remove(log)
    return statistics.median(taken[1:])


def timed(bench, kind, column, settings, scan, statement):
    """Samples of statement(table), each long enough."""
    statements = {method: statement(bench.indexed(kind, method)) for method in METHODS}
    bench.session.set(**settings)
    for method in METHODS:
        check(bench, statements[method], f"{kind}_{method}_k", scan)
    times = min(20, math.ceil(LONG_ENOUGH[bench.full] / max(bench.session.time(statements["btree"]), 0.1)))
    return {column: bench.alternate(
        lambda method, _: sum(bench.session.time(statements[method]) for _ in range(times)) / times)}


def scan(bench, kind):
    """OFFSET 0 keeps the subquery, and with it the order, from being planned away."""
    first, columns = keys(bench, kind)[0], ", ".join(keys(bench, kind))

    def statement(table):
        return f"SELECT count({first}) FROM (SELECT {columns} FROM {table} ORDER BY {columns} OFFSET 0) ordered"
    return timed(bench, kind, "scan", INDEX_ONLY | {"enable_sort": "off"}, "Index Only Scan", statement)


def between(bench, kind, first, last):
    """The condition for the rows from one share of all to another, by the first column."""
    def make():
        table, rows = bench.indexed(kind, "btree"), bench.rows
        columns = ", ".join(keys(bench, kind))
        bench.session.set()
        ends = [literals(bench, kind, f"SELECT {columns} FROM {table} ORDER BY {columns} OFFSET {int(rows * share)} LIMIT 1")
                for share in (first, last)]
        column = keys(bench, kind)[0]
        return f"{column} >= {ends[0][0][0]} AND {column} <= {ends[1][0][0]}"
    return bench.keep((kind, first, last), make)


def count_range(bench, kind):
    condition = between(bench, kind, 0.4, 0.6)
    return timed(bench, kind, "count", INDEX_ONLY, "Index Only Scan", lambda table: count(table, condition))


def rows_of_range(table, condition):
    return f"SELECT count(payload) FROM {table} WHERE {condition}"


def range_rows(bench, kind):
    condition = between(bench, kind, 0.4, 0.6)
    return timed(bench, kind, "range", PLAIN, "Index Scan", lambda table: rows_of_range(table, condition))


def like(bench, kind):
    """A beginning of the middle key, as long as so many others have it."""
    table = bench.indexed(kind, "btree")
    bench.session.set()
    middle = f"SELECT k FROM {table} ORDER BY k OFFSET {bench.rows // 2} LIMIT 1"
    prefixes = f"SELECT left(k, n) AS prefix FROM ({middle}) middle, generate_series(1, length(k)) n"
    some = min(bench.rows, 10_000)
    counted = f"SELECT prefix FROM ({prefixes}) p, {table} t WHERE payload <= {some} AND starts_with(t.k, prefix) GROUP BY 1"
    prefix = bench.session.value(f"{counted} HAVING count(*) >= {some // 20} ORDER BY length(prefix) DESC LIMIT 1")
    pattern = re.sub(r"([\\%_])", r"\\\1", prefix or "") + "%"
    return timed(bench, kind, "like", INDEX_ONLY, "Index Only Scan", lambda table: count(table, f"k LIKE '{pattern}'"))


def vacuum(bench, kind):
    return {"vacuum": time_vacuum(bench, kind, "hashint8extended(payload, 93) & 1023 < 307", bench.rows // 2)}


# Of one kind after another.
TASKS = [
    Task(("size",), sizes, 4),
    Task(("probe",), probe_keys, 4),
    Task(("probe_rows",), probe_rows, 3),
    Task(("lookup",), lookup, 7),
    Task(("scan",), scan, 2),
    Task(("count",), count_range, 2),
    Task(("range",), range_rows, 3),
    Task(("like",), like, 1),
    Task(("build",), functools.partial(build, "build", ALONE), 10),
    Task(("build_parallel",), functools.partial(build, "build_parallel", PARALLEL), 9),
    Task(("grown", "insert", "wal"), inserts, 8),
    Task(("vacuum",), vacuum, 10),
]


def clean(bench, kind, keep_indexed=False):
    """Drops what the tasks made of a kind, but for its indexed tables if those are wanted yet."""
    tables = ["probes", f"build_{kind}", *(f"{name}_{arm}" for name in ("inserted", "vacuumed") for arm in ARMS)]
    if not keep_indexed:
        tables += [f"{kind}_{method}" for method in METHODS]
        bench.ready -= set(tables)
    bench.session.query(f"DROP TABLE IF EXISTS {', '.join(tables)}")
    bench.kept.clear()
