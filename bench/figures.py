"""The figures of the benchmark, in the order they are run. A figure is one function that returns its samples."""

import re
from dataclasses import dataclass

from measure import KINDS, METHODS, NESTED_LOOP, NO_OTHER_SCAN, Graph, Result, WrongPlan

FIGURES = {}
HALF = "half of the rows"
MANY = "1 M probes, or as many as there are rows"
PROBE_NOTE = f"{HALF}, a tenth as many probes"


@dataclass
class Figure:
    """How a figure is named, judged and shown.

    `against` is what fpbtree is held against; `weight` about how long it takes, for the progress bar; `until` the last
    major version its target is for; `cold`, whether it needs the system's cache emptied; `quick`, whether a quick run has
    time for it unasked."""

    name: str
    what: str
    measure: object
    unit: str
    target: float | None
    weight: float
    note: str
    until: int | None
    against: str
    cold: bool
    quick: bool

    def result(self, bench):
        samples = self.measure(bench)
        target = None if self.until and bench.version > self.until else self.target
        return Result(self.name, self.what, self.unit, samples["fpbtree"], samples[self.against], self.against, target,
                      self.note)


@dataclass
class GraphFigure:
    """A figure that is drawn: what is measured at several values of x."""

    name: str
    what: str
    measure: object
    x: str
    weight: float
    note: str
    cold: bool
    quick: bool
    unit: str
    log: bool

    def result(self, bench):
        return Graph(self.name, self.what, self.x, self.measure(bench), self.note, self.unit, self.log)


def figure(name, what, target=None, unit="ms", weight=1.0, note="", until=None, against="btree", cold=False, quick=True):
    """Registers a function from a Bench to {"fpbtree": samples, against: samples}."""
    def register(measure):
        FIGURES[name] = Figure(name, what, measure, unit, target, weight, note, until, against, cold, quick)
        return measure
    return register


def graph(name, what, x, weight=1.0, note="", cold=True, quick=True, unit="ms", log=True):
    """Registers a function from a Bench to {series: {x: samples}}, which is drawn with logarithmic axes or linear ones."""
    def register(measure):
        FIGURES[name] = GraphFigure(name, what, measure, x, weight, note, cold, quick, unit, log)
        return measure
    return register


def time_probes(bench, kind, count, scan="Index Only Scan", **sampled):
    """A nested loop that looks up that many random rows, each by an index scan."""
    bench.sample("probes", kind, count, **sampled)
    condition = " AND ".join(f"t.{column} = p.{column}" for column in KINDS[kind].columns)
    tables = {method: bench.indexed(kind, method) for method in METHODS}
    statements = {method: f"SELECT count(t.k) FROM probes p JOIN {table} t ON {condition}"
                  for method, table in tables.items()}
    # The outer table must be read by a sequential scan, having no index: switching those off only makes it dear.
    bench.session.set(**NESTED_LOOP | ({} if scan == "Index Only Scan" else {"enable_indexonlyscan": "off"}))
    for method, statement in statements.items():
        bench.expect_plan(statement, f"{tables[method]}_k", "Nested Loop", scan)
    return bench.alternate(lambda method, _: bench.session.time(statements[method]))


def many(bench):
    """So many probes as MANY says."""
    return min(1_000_000, bench.rows)


@figure("probe", "nested-loop index-only probe of random keys", target=0.50, weight=40, note=MANY)
def probe(bench):
    return time_probes(bench, "int4", many(bench))


@figure("probe_text", "nested-loop index-only probe of random e-mail addresses, text C", target=0.60, weight=20,
        note=PROBE_NOTE)
def probe_text(bench):
    return time_probes(bench, "email", bench.rows // 10)


@figure("probe_icu", "nested-loop index-only probe of random e-mail addresses, text en-x-icu", target=0.85, weight=32,
        note=PROBE_NOTE)
def probe_icu(bench):
    return time_probes(bench, "email_icu", bench.rows // 10)


@figure("probe_numeric", "nested-loop index-only probe of random numeric keys", target=0.60, weight=24, note=PROBE_NOTE)
def probe_numeric(bench):
    return time_probes(bench, "numeric", bench.rows // 10)


@figure("probe_pair", "nested-loop index-only probe of random (int4, text C) keys", target=0.60, weight=24,
        note=PROBE_NOTE)
def probe_pair(bench):
    return time_probes(bench, "int4_text", bench.rows // 10)


@figure("range", "index-only count(*) of all rows", target=0.85, weight=6)
def range_scan(bench):
    tables = {method: bench.indexed("int4", method) for method in METHODS}
    bench.session.set(**NO_OTHER_SCAN)
    for table in tables.values():
        bench.expect_plan(f"SELECT count(*) FROM {table}", f"{table}_k", "Index Only Scan")
    return bench.alternate(lambda method, _: bench.session.time(f"SELECT count(*) FROM {tables[method]}"))


def expect_node(bench, statement, index):
    """Fails unless fpbtree's node answers the statement, by this index."""
    nodes = bench.session.explain(statement, "ANALYZE", "TIMING OFF")
    if not any(node["Node Type"] == "Custom Scan" for node in nodes) \
            or not any(node.get("Index Name") == index for node in nodes):
        raise WrongPlan(f"no Custom Scan over {index}: {', '.join(node['Node Type'] for node in nodes)}")


def stale(bench, kind, method, every):
    """A table of all rows with one index; of every so manieth block one row has been deleted since VACUUM."""
    def make():
        table = f"{kind}_{method}_{every}"
        bench.fill(table, kind, method)
        bench.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")
        bench.session.query(f"""DELETE FROM {table} WHERE ctid = ANY (ARRAY(
            SELECT format('(%s,1)', block)::tid
              FROM generate_series(0, pg_relation_size('{table}') / 8192 - 1, {every}) block))""")
        bench.session.query(f"ANALYZE {table}")
        return table
    return bench.keep(("stale", kind, method, every), make)


def aggregate(bench, kind, statement, every=None, workers=0):
    """A query of one table that fpbtree makes of its pages, beside the plan that is best with a btree index."""
    make = (lambda method: stale(bench, kind, method, every)) if every else (lambda method: bench.indexed(kind, method))
    tables = {method: make(method) for method in METHODS}
    bench.session.set(max_parallel_workers_per_gather=workers)
    # Where no block is all-visible, the planner may well take the table.
    if every != 1:
        expect_node(bench, statement(tables["fpbtree"]), f"{tables['fpbtree']}_k")
    return bench.alternate(lambda method, _: bench.session.time(statement(tables[method])))


def half(table):
    return f"SELECT k FROM {table} ORDER BY k LIMIT 10 OFFSET (SELECT reltuples::bigint / 2 FROM pg_class WHERE oid = '{table}'::regclass)"


ALL = "SELECT count(*) FROM {}".format
EIGHTH = f"SELECT count(*) FROM {{}} WHERE k BETWEEN 0 AND {2 ** 29}".format
SUMS = "SELECT sum(k), avg(k), min(k), max(k), count(k) FROM {} WHERE k > 0".format
GROUPS = "SELECT a, count(*), min(b), max(b) FROM {} GROUP BY a".format
DISTINCT = "SELECT DISTINCT a FROM {}".format
LAST = "SELECT a, max(b) FROM {} GROUP BY a".format
FIRST = "SELECT DISTINCT ON (a) a, b, ctid FROM {} ORDER BY a, b".format
GROUPS_OF_TEXT = "SELECT k, count(*) FROM {} GROUP BY k".format
DISTINCT_TEXT = "SELECT DISTINCT k FROM {}".format
SUMS_OF_GROUPS = "SELECT a, count(*), sum(k), avg(k) FROM {} GROUP BY a".format
DIFFERENT = "SELECT count(DISTINCT a) FROM {}".format
DIFFERENT_OF_GROUPS = "SELECT a, count(DISTINCT b) FROM {} GROUP BY a".format
DIFFERENT_TEXTS = "SELECT count(DISTINCT k), count(*) FROM {}".format
TEXT = ": k text of 20 values, ICU en"
AMOUNTS = "; index on (a int4 of 100 values, k numeric)"
PAIR = "; index on (a int4 of 100 values, b int4)"

# Name, kind of key, statement, what it is, and targets: where all blocks are all-visible, but a hundredth, and none.
AGGREGATES = (
    ("count_all", "int4", ALL, "count(*)", (0.10, 0.15, 1.0)),
    ("count_range", "int4", EIGHTH, "count(*) of an eighth of all rows", (0.10, 0.15, 1.0)),
    ("sum_range", "int8", SUMS, "sum, avg, min, max and count of half of all rows, int8", (0.15, 0.20, 1.0)),
    ("group_by", "int4_int4", GROUPS, "GROUP BY a: count(*), min(b), max(b)" + PAIR, (0.12, 0.20, 1.0)),
    ("distinct", "int4_int4", DISTINCT, "DISTINCT a" + PAIR, (0.01, 0.01, 0.05)),
    ("last_of_group", "int4_int4", LAST, "GROUP BY a: max(b)" + PAIR, (0.01, 0.01, 0.05)),
    ("group_text", "status", GROUPS_OF_TEXT, "GROUP BY k, count(*)" + TEXT, (0.12, 0.20, 1.0)),
    ("distinct_text", "status", DISTINCT_TEXT, "DISTINCT k" + TEXT, (0.01, 0.01, 0.05)),
    ("first_of_group", "int4_int4", FIRST, "DISTINCT ON (a), rows of the table" + PAIR, (0.01, 0.01, 0.05)),
    ("sum_numeric", "amounts", SUMS_OF_GROUPS, "GROUP BY a: count(*), sum(k), avg(k)" + AMOUNTS, (None, None, 1.0)),
    ("different", "int4_int4", DIFFERENT, "count(DISTINCT a)" + PAIR, (0.01, 0.01, 0.05)),
    ("different_of_group", "int4_int4", DIFFERENT_OF_GROUPS, "GROUP BY a: count(DISTINCT b)" + PAIR, (None, None, 1.0)),
    ("offset", "int4", half, "OFFSET of half of all rows, LIMIT 10", (0.10, 0.20, 1.0)),
    ("different_text", "status", DIFFERENT_TEXTS, "count(DISTINCT k), count(*)" + TEXT, (None, None, 1.0)),
)
for stem, kind, statement, what, targets in AGGREGATES:
    visibilities = (("", "", None), ("_some", ", a hundredth of the blocks not all-visible", 100),
                    ("_none", ", no block all-visible", 1))
    for (suffix, which, every), target in zip(visibilities, targets):
        figure(stem + suffix, what + which, target=target, weight=8, quick=every is None)(
            lambda bench, kind=kind, statement=statement, every=every: aggregate(bench, kind, statement, every))


@figure("count_workers", "count(*), two parallel workers", target=0.15, weight=4)
def count_workers(bench):
    return aggregate(bench, "int4", ALL, workers=2)


def time_sums(bench, rows):
    """pgbench: count and sum of about so many rows, a statement of its own each time; the milliseconds of one."""
    width = 2 ** 64 // bench.rows * rows
    tables = {method: bench.indexed("int8", method) for method in METHODS}
    expect_node(bench, f"SELECT count(*), sum(k) FROM {tables['fpbtree']} WHERE k BETWEEN 0 AND {width}", f"{tables['fpbtree']}_k")

    def run(method, _):
        path = bench.server.script(f"sums_{method}.sql", [
            f"\\set low random({-2 ** 62}, {2 ** 62 - width})\n"
            f"SELECT count(*), sum(k) FROM {tables[method]} WHERE k BETWEEN :low AND :low + {width}::bigint"])
        report = bench.server.run("pgbench", "-n", "-M", "prepared", "-T", "5", "-f", path)
        return 1000 / float(re.search(r"tps = ([\d.]+)", report).group(1))
    return bench.alternate(run)


for rows, target in ((1_000, 1 / 1.6), (100_000, 1 / 6)):
    figure(f"sums_{rows}", f"pgbench: count(*), sum(k) of {rows:,} rows, int8; time a statement", target=round(target, 2),
           weight=60, quick=False)(lambda bench, rows=rows: time_sums(bench, rows))


# What applications send that prepare nothing: each statement is parsed and planned, too.
PLANNED = {
    "lookup": ("SELECT * FROM {} WHERE id = :id", "a row by a unique index"),
    "count": ("SELECT count(*) FROM {} WHERE id = :id", "count(*) of one row"),
    "update": ("UPDATE {} SET k = hashint4(k) WHERE id = :id", "a row found by a unique index, of which another indexed column changes"),
}


def two_indexes(bench, method):
    """A table with a unique index on id and another one on k."""
    table = f"planned_{method}"
    bench.session.query(f"DROP TABLE IF EXISTS {table}")
    bench.session.query(f"CREATE TABLE {table} AS SELECT i AS id, hashint4(i) AS k, repeat('x', 80) AS filler"
                        f" FROM generate_series(1, {bench.rows}) i")
    bench.session.query(f"CREATE UNIQUE INDEX ON {table} USING {method} (id)")
    bench.session.query(f"CREATE INDEX ON {table} USING {method} (k)")
    bench.session.query(f"VACUUM ANALYZE {table}")
    return table


def time_planned(bench, statement):
    """pgbench, by the simple protocol; the milliseconds of a statement."""
    tables = {method: bench.keep(("planned", method), lambda: two_indexes(bench, method)) for method in METHODS}

    def run(method, _):
        path = bench.server.script(f"planned_{method}.sql",
                                   [f"\\set id random(1, {bench.rows})\n{statement.format(tables[method])}"])
        report = bench.server.run("pgbench", "-n", "-M", "simple", "-T", "5", "-f", path)
        return 1000 / float(re.search(r"tps = ([\d.]+)", report).group(1))
    return bench.alternate(run)


for name, (statement, what) in PLANNED.items():
    figure(f"planned_{name}", f"pgbench, statements that are not prepared: {what}; time a statement", target=1.0, weight=60,
           quick=False)(lambda bench, statement=statement: time_planned(bench, statement))


@figure("skip_scan", "count(*) where b = $1, index on (a int4 of 100 values, b int4)", target=0.05, weight=10, until=17,
        note="btree skips too from 18 on, so no target there")
def skip_scan(bench):
    tables = {method: bench.indexed("int4_int4", method) for method in METHODS}
    bench.session.set(**NO_OTHER_SCAN)

    def statement(method, number):
        return f"SELECT count(*) FROM {tables[method]} WHERE b = hashint4({number + 1})"
    for method, table in tables.items():
        bench.expect_plan(statement(method, 0), f"{table}_k", "Index Only Scan")
    return bench.alternate(lambda method, number: bench.session.time(statement(method, number)))


def measure_size(bench, kind):
    return bench.once(lambda method: bench.size(bench.indexed(kind, method)))


@figure("size_int4", "size of an int4 index, built at fill 90", target=0.56, unit="bytes", weight=0.1)
def size_int4(bench):
    return measure_size(bench, "int4")


@figure("size_int8", "size of an int8 index, built at fill 90", target=0.76, unit="bytes", weight=6)
def size_int8(bench):
    return measure_size(bench, "int8")


@figure("size_uuid", "size of a uuid index, built at fill 90", target=0.86, unit="bytes", weight=10)
def size_uuid(bench):
    return measure_size(bench, "uuid")


@figure("size_email", "size of an index on e-mail addresses, text C, built at fill 90", target=0.90, unit="bytes",
        weight=0.1, note=HALF)
def size_email(bench):
    return measure_size(bench, "email")


@figure("size_url", "size of an index on URLs with long common prefixes, text C, built at fill 90", target=0.60,
        unit="bytes", weight=12, note=HALF)
def size_url(bench):
    return measure_size(bench, "url")


@figure("size_md5", "size of an index on md5 in hex, text C, built at fill 90", target=0.90, unit="bytes", weight=8,
        note=HALF)
def size_md5(bench):
    return measure_size(bench, "md5")


@figure("size_duplicates", "size of an index on 1,000 distinct int4, built at fill 90", target=1.0, unit="bytes",
        weight=3, note="three tenths of the rows")
def size_duplicates(bench):
    return measure_size(bench, "duplicates")


@figure("size_int4_random", "size of an int4 index grown by random inserts", target=0.62, unit="bytes", weight=20)
def size_int4_random(bench):
    def grow(method):
        table = f"grown_{method}"
        bench.create_table(table, "int4")
        bench.create_index(table, "int4", method)
        bench.insert(table, "int4", 1, bench.rows)
        size = bench.size(table)
        bench.session.query(f"DROP TABLE {table}")
        return size
    return bench.once(grow)


@figure("insert_random", "random inserts, the index's share", target=1.5, weight=22,
        note="each run appends a tenth of the rows; time with the index less time without")
def insert_random(bench):
    for arm in ("none", "fpbtree", "btree"):
        bench.fill(f"inserted_{arm}", "int4", arm)
    batch = bench.rows // 10

    def run(arm, number):
        bench.session.query("CHECKPOINT")
        first = bench.rows + number * batch + 1
        return bench.insert(f"inserted_{arm}", "int4", first, first + batch - 1)
    return bench.share(run)


ALONE = {"maintenance_work_mem": "1GB"}
LITTLE = {"maintenance_work_mem": "16MB"}
SHARED = {"maintenance_work_mem": "64MB", "max_parallel_maintenance_workers": "2"}


def to_be_indexed(bench, kind, in_order):
    """A table of all rows without an index, as they come or in the index's order."""
    def make():
        table = f"ordered_{kind}" if in_order else f"build_{kind}"
        bench.fill(table, kind, "none")
        if in_order:
            bench.session.query(f"CREATE TABLE in_order AS SELECT * FROM {table} ORDER BY {', '.join(bench.kinds[kind].columns)}")
            bench.session.query(f"DROP TABLE {table}")
            bench.session.query(f"ALTER TABLE in_order RENAME TO {table}")
        return table
    return bench.keep(("build", kind, in_order), make)


def time_build(bench, kind, settings, in_order=False):
    """CREATE INDEX on a table that has no other index, alternating."""
    table = to_be_indexed(bench, kind, in_order)
    bench.session.set(**settings)

    def run(method, _):
        bench.session.query(f"DROP INDEX IF EXISTS {table}_k")
        bench.session.query("CHECKPOINT")
        return bench.create_index(table, kind, method)
    return bench.alternate(run)


def build_figure(name, kind, what, settings, how, target, **options):
    figure(name, f"CREATE INDEX on {what}, {how}", target=target, weight=30, **options)(
        lambda bench: time_build(bench, kind, settings))


for lanes, ending in (("int4", ""), ("int8", "_int8"), ("uuid", "_uuid"), ("timestamptz", "_timestamptz")):
    quick = lanes == "int4"
    build_figure(f"build{ending}", lanes, lanes, ALONE, "serial, maintenance_work_mem 1 GB", 0.30)
    build_figure(f"build_parallel{ending}", lanes, lanes, SHARED, "in parallel, as the server's own settings have it", 0.35,
                 quick=quick)
    build_figure(f"build_16mb{ending}", lanes, lanes, LITTLE, "serial, maintenance_work_mem 16 MB", 0.50, quick=quick)
for name, kind, what in (("text", "email", "e-mail addresses, text C"), ("numeric", "numeric", "numeric"),
                         ("pair", "int4_text", "(int4, text C)")):
    build_figure(f"build_{name}", kind, what, ALONE, "serial, maintenance_work_mem 1 GB", 0.70, note=HALF)
    build_figure(f"build_parallel_{name}", kind, what, SHARED, "in parallel, as the server's own settings have it", None,
                 note=HALF, quick=False)


for name, kind, what in (("text", "email", "e-mail addresses, text C"), ("text_en", "email_en", "the same, en_US.UTF-8"),
                         ("text_icu", "email_icu", "the same, ICU en"), ("numeric", "numeric", "numeric"), ("int4", "int4", "int4")):
    figure(f"build_ordered_{name}", f"CREATE INDEX on {what}, rows in the index's order, serial, maintenance_work_mem 1 GB",
           target=1.0, weight=30, quick=False)(lambda bench, kind=kind: time_build(bench, kind, ALONE, in_order=True))


def time_vacuum(bench, kind, condition, rows=None):
    """VACUUM after deleting the rows of the condition, the index's share."""
    def run(arm, _):
        table = f"vacuumed_{arm}"
        bench.fill(table, kind, arm, rows)
        bench.session.query(f"DELETE FROM {table} WHERE {condition}")
        bench.session.query("CHECKPOINT")
        return bench.session.time(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {table}")
    return bench.share(run)


@figure("vacuum", "VACUUM after deleting 30 % at random, the index's share", target=0.50, weight=60,
        note="time with the index less time without")
def vacuum(bench):
    return time_vacuum(bench, "int4", "k % 10 IN (0, 3, 6, -3, -6)")
