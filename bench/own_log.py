"""Figures of a server that preloads fpbtree: what its own log costs, and lookups beside a cache of hot keys."""

import contextlib
import os
import re

from figures import MANY, figure, many, time_probes
from measure import ARMS, METHODS, differences

OWN = "the index has fpbtree's own log"
SHARE = "with the index less without"


@contextlib.contextmanager
def own_log(bench, **settings):
    """Indexes that are made here have our own log. The server has these settings besides."""
    settings["shared_preload_libraries"] = "fpbtree"
    for name, value in settings.items():
        bench.session.query(f"ALTER SYSTEM SET {name} = '{value}'")
    bench.restart(cold=False)
    try:
        yield
    finally:
        for name in settings:
            bench.session.query(f"ALTER SYSTEM RESET {name}")
        bench.restart(cold=False)


def log_position(bench):
    return int(bench.session.value("SELECT pg_current_wal_insert_lsn() - '0/0'"))


def appended(bench, arm, number, table, row):
    """Appends a tenth of the rows; returns the milliseconds."""
    batch = bench.rows // 10
    first = bench.rows + number * batch + 1
    rows = f"SELECT {row} FROM generate_series({first}, {first + batch - 1}) i"
    return bench.session.time(f"INSERT INTO {table}_{arm} {rows}")


def insert_samples(bench):
    """{"ms" or "bytes": {method: an index's share, each round}} of random inserts."""
    def run(arm, number):
        before = log_position(bench)
        return appended(bench, arm, number, "own", "hashint4(i::int4)"), log_position(bench) - before
    with own_log(bench):
        for arm in ARMS:
            bench.fill(f"own_{arm}", "int4", arm)
        bench.session.query("CHECKPOINT")
        samples = bench.alternate(run, ARMS)
    return {unit: differences({arm: [sample[at] for sample in samples[arm]] for arm in ARMS})
            for at, unit in enumerate(("ms", "bytes"))}


@figure("insert_random_own", "random inserts, the index's share", target=0.70, weight=22,
        note=f"{OWN}; each run appends a tenth of the rows; time {SHARE}")
def insert_random_own(bench):
    return bench.keep("own", lambda: insert_samples(bench))["ms"]


@figure("wal_random_own", "log written by random inserts, the index's share", target=0.90, unit="bytes", weight=0.1,
        note=f"{OWN}; the same inserts, {SHARE}")
def wal_random_own(bench):
    return bench.keep("own", lambda: insert_samples(bench))["bytes"]


@figure("insert_sequential_own", "inserts in ascending order, the index's share", target=1.0, weight=22,
        note=f"{OWN}; each run appends a tenth of the rows; time {SHARE}")
def insert_sequential_own(bench):
    with own_log(bench):
        for arm in ARMS:
            bench.create_table(f"ascending_{arm}", "int4")
            bench.session.query(f"INSERT INTO ascending_{arm} SELECT i FROM generate_series(1, {bench.rows}) i")
            if arm != "none":
                bench.create_index(f"ascending_{arm}", "int4", arm)
        return bench.share(lambda arm, number: appended(bench, arm, number, "ascending", "i"))


def copied(bench, row):
    """COPY of half of the rows into tables that have the other half: an index's share, each round."""
    half = bench.rows // 2
    path = os.path.join(bench.server.directory, "copied.txt")
    rows = "SELECT {} FROM generate_series({}, {}) i"
    def run(arm, _):
        bench.create_table(f"copied_{arm}", "int8")
        bench.session.query(f"INSERT INTO copied_{arm} {rows.format(row, 1, half)}")
        if arm != "none":
            bench.create_index(f"copied_{arm}", "int8", arm)
        bench.session.query("CHECKPOINT")
        return bench.session.time(f"COPY copied_{arm} FROM '{path}'")
    with own_log(bench):
        bench.session.query(f"COPY ({rows.format(row, half + 1, bench.rows)}) TO '{path}'")
        return bench.share(run)


@figure("copy_ascending_own", "COPY of ascending int8, the index's share", target=0.80, weight=40,
        note=f"{OWN}; half of the rows into the other half; time {SHARE}")
def copy_ascending_own(bench):
    return copied(bench, "i::int8")


@figure("copy_random_own", "COPY of random int8, the index's share", target=0.60, weight=40,
        note=f"{OWN}; half of the rows into the other half; time {SHARE}")
def copy_random_own(bench):
    return copied(bench, "hashint8extended(i, 1)")


@figure("probe_own", "nested-loop index-only probe of random keys", target=0.25, weight=40,
        note=f"{MANY}; fpbtree is preloaded; the keys of one run are those of the next")
def probe_own(bench):
    with own_log(bench):
        return time_probes(bench, "int4", many(bench))


@figure("rows_own", "nested-loop index scan of random keys and their rows", target=0.60, weight=40,
        note=f"{MANY}; fpbtree is preloaded; the keys of one run are those of the next")
def rows_own(bench):
    with own_log(bench):
        return time_probes(bench, "int4", many(bench), "Index Scan")


@figure("hot_rows_own", "nested-loop index scan of hot keys (Zipf, 0.99) and their rows", target=0.55, weight=40,
        note=f"{MANY}; fpbtree is preloaded")
def hot_rows_own(bench):
    with own_log(bench):
        return time_probes(bench, "int4", many(bench), "Index Scan", zipf=True)


@figure("redo_own", "redo of random inserts of half of the rows, after a crash, the index's share", target=1.0, weight=30,
        note=f"{OWN}; as the server's log says, {SHARE}")
def redo_own(bench):
    def run(arm, number):
        table = f"redone_{arm}"
        bench.create_table(table, "int4")
        if arm != "none":
            bench.create_index(table, "int4", arm)
        bench.insert(table, "int4", 1, bench.rows // 2)
        bench.session.query("CHECKPOINT")
        bench.insert(table, "int4", bench.rows // 2 + 1, bench.rows)
        bench.session.query("SELECT pg_switch_wal()")
        return redo_time(bench)
    with own_log(bench):
        return bench.share(run)


def crash(bench):
    """Crashes the server; what it logged when it started again."""
    bench.session.close()
    before = len(bench.server.log())
    bench.server.crash()
    bench.session = bench.server.session()
    return bench.server.log()[before:]


def redo_time(bench):
    """Crashes the server; the milliseconds that redo took then."""
    return float(re.search(r"redo done at .* elapsed: ([\d.]+) s", crash(bench)).group(1)) * 1000


MIXED_SECONDS = {"quick": 2, "full": 5}
# What clients of pgbench do. Mixed, it is a hundred rows at a time: it is not the protocol that is measured.
SCRIPTS = {
    "write": "INSERT INTO mixed_{method} SELECT hashint4((random() * 1000000000)::int) FROM generate_series(1, 100)",
    "read": "\\set first random(1, 1000000)\n"
            "SELECT count(t.k) FROM generate_series(1, 100) i JOIN mixed_{method} t ON t.k = hashint4(:first + i)",
    "update": "\\set id random(1, 200000)\n"
              "UPDATE updated_{method} SET k = hashint4(k) WHERE id = :id",
}


@figure("mixed_own", "writers and readers at once: time a transaction", target=0.91, weight=70,
        note=f"{OWN}; pgbench, 4 clients, commits do not wait for the disk; half of the transactions insert 100 rows, half"
             " look 100 up; all in memory")
def mixed_own(bench):
    seconds = str(MIXED_SECONDS["full" if bench.full else "quick"])

    def run(method, _):
        files = [argument for name in ("write", "read") for argument in ("-f", script(bench, name, method))]
        report = bench.server.run("pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "2", "-T", seconds, *files)
        return 1000 / float(re.search(r"tps = ([\d.]+)", report).group(1))
    with own_log(bench, synchronous_commit="off"):
        for method in METHODS:
            bench.fill(f"mixed_{method}", "int4", method)
            bench.session.query(f"VACUUM (FREEZE, ANALYZE) mixed_{method}")
        return bench.alternate(run)


@figure("growth_own", "growth of the indexes of a table that is updated", target=1.0, unit="times", weight=120, quick=False,
        note=f"{OWN}; 200,000 rows, 300,000 updates; a unique index finds the row, another has the column that changes;"
             " pages after / before")
def growth_own(bench):
    def pages(table):
        return bench.session.value(f"SELECT pg_indexes_size('{table}') / 8192")
    def run(method, _):
        table = f"updated_{method}"
        bench.session.query(f"DROP TABLE IF EXISTS {table}")
        rows = "SELECT i AS id, hashint4(i) AS k, repeat('x', 80) AS filler FROM generate_series(1, 200000) i"
        bench.session.query(f"CREATE TABLE {table} AS {rows}")
        bench.session.query(f"CREATE UNIQUE INDEX ON {table} USING {method} (id)")
        bench.session.query(f"CREATE INDEX ON {table} USING {method} (k)")
        bench.session.query(f"VACUUM ANALYZE {table}")
        before = pages(table)
        bench.server.run("pgbench", "-n", "-M", "prepared", "-c", "2", "-t", "150000", "-f", script(bench, "update", method))
        return pages(table) / before
    with own_log(bench, synchronous_commit="off"):
        return bench.alternate(run)


def script(bench, name, method):
    return bench.server.script(f"{name}_{method}.sql", [SCRIPTS[name].format(method=method)])
