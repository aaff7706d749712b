"""The figures of the benchmark, in the order they are run. A figure is one function that returns its samples."""

from dataclasses import dataclass

from measure import NESTED_LOOP, NO_OTHER_SCAN

FIGURES = {}


@dataclass
class Figure:
    """How a figure is named, judged and shown; `weight` is about how long it takes, for the progress bar."""

    name: str
    what: str
    measure: object
    unit: str
    target: float | None
    weight: float
    note: str


def figure(name, what, target=None, unit="ms", weight=1.0, note=""):
    """Registers a function from a Bench to {method: samples}."""
    def register(measure):
        FIGURES[name] = Figure(name, what, measure, unit, target, weight, note)
        return measure
    return register


@figure("probe", "nested-loop index-only probe of 1 M random keys", target=0.50, weight=40)
def probe(bench):
    bench.session.query("CREATE TABLE IF NOT EXISTS probes (k int4)")
    bench.session.query("TRUNCATE probes")
    bench.session.query("INSERT INTO probes SELECT hashint4((1 + (hashint8extended(g, 1) & 9223372036854775807)"
                        f" % {bench.rows})::int4) FROM generate_series(1, 1000000) g")
    bench.session.query("VACUUM (FREEZE, ANALYZE) probes")
    statements = {}
    for method in ("fpbtree", "btree"):
        table = bench.indexed("int4", method)
        statements[method] = f"SELECT count(t.k) FROM probes p JOIN {table} t ON t.k = p.k"
    # The outer table must be read by a sequential scan, having no index: switching those off only makes it dear.
    bench.session.set(**NESTED_LOOP)
    for method, statement in statements.items():
        bench.expect_plan(statement, f"int4_{method}_k", "Nested Loop", "Index Only Scan")
    return bench.alternate(lambda method, _: bench.session.time(statements[method]))


@figure("range", "index-only count(*) of all rows", target=0.85, weight=6)
def range_scan(bench):
    tables = {method: bench.indexed("int4", method) for method in ("fpbtree", "btree")}
    bench.session.set(**NO_OTHER_SCAN)
    for table in tables.values():
        bench.expect_plan(f"SELECT count(*) FROM {table}", f"{table}_k", "Index Only Scan")
    return bench.alternate(lambda method, _: bench.session.time(f"SELECT count(*) FROM {tables[method]}"))


@figure("size_int4", "size of an int4 index, built at fill 90", target=0.56, unit="bytes", weight=0.1)
def size_int4(bench):
    return bench.once(lambda method: bench.size(bench.indexed("int4", method)))


@figure("size_int8", "size of an int8 index, built at fill 90", target=0.76, unit="bytes", weight=6)
def size_int8(bench):
    return bench.once(lambda method: bench.size(bench.indexed("int8", method)))


@figure("size_uuid", "size of a uuid index, built at fill 90", target=0.86, unit="bytes", weight=10)
def size_uuid(bench):
    return bench.once(lambda method: bench.size(bench.indexed("uuid", method)))


@figure("size_int4_random", "size of an int4 index grown by random inserts", target=0.62, unit="bytes", weight=14)
def size_int4_random(bench):
    def grow(method):
        table = f"grown_{method}"
        bench.session.query(f"CREATE TABLE {table} (k int4)")
        bench.create_index(table, method)
        bench.insert(table, "int4", 1, bench.rows)
        size = bench.size(table)
        bench.session.query(f"DROP TABLE {table}")
        return size
    return bench.once(grow)


@figure("insert_random", "random inserts, the index's share", target=1.5, weight=40,
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


def time_build(bench, memory):
    """CREATE INDEX on a table that has no other index, alternating."""
    for method in ("fpbtree", "btree"):
        bench.fill(f"build_{method}", "int4", "none")
    bench.session.set(maintenance_work_mem=memory)

    def run(method, _):
        bench.session.query(f"DROP INDEX IF EXISTS build_{method}_k")
        bench.session.query("CHECKPOINT")
        return bench.create_index(f"build_{method}", method)
    return bench.alternate(run)


@figure("build", "CREATE INDEX, serial, maintenance_work_mem 1 GB", target=0.7, weight=30)
def build(bench):
    return time_build(bench, "1GB")


@figure("build_64mb", "CREATE INDEX, serial, maintenance_work_mem 64 MB", weight=30)
def build_64mb(bench):
    return time_build(bench, "64MB")


@figure("vacuum", "VACUUM after deleting 30 % at random, the index's share", target=1.0, weight=60,
        note="time with the index less time without")
def vacuum(bench):
    def run(arm, _):
        table = f"vacuumed_{arm}"
        bench.fill(table, "int4", arm)
        bench.session.query(f"DELETE FROM {table} WHERE k % 10 IN (0, 3, 6, -3, -6)")
        bench.session.query("CHECKPOINT")
        return bench.session.time(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {table}")
    return bench.share(run)
