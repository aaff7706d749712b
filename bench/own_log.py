"""Figures of what writes cost when indexes have fpbtree's own log: its size, inserts, and redo."""

import contextlib
import os
import re

from figures import figure
from measure import ARMS, METHODS

OWN = "the index has fpbtree's own log"
SHARE = "with the index less without"


@contextlib.contextmanager
def own_log(bench):
    """Indexes that are made here have our own log."""
    def preload(change):
        bench.session.query(f"ALTER SYSTEM {change}")
        bench.restart(cold=False)
    preload("SET shared_preload_libraries = 'fpbtree'")
    try:
        yield
    finally:
        preload("RESET shared_preload_libraries")


def log_position(bench):
    return int(bench.session.query("SELECT pg_current_wal_insert_lsn() - '0/0'"))


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
    shares = {method: [[a - b for a, b in zip(with_index, without)]
                       for with_index, without in zip(samples[method], samples["none"])] for method in METHODS}
    return {unit: {method: [share[at] for share in shares[method]] for method in METHODS}
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


def redo_time(bench):
    """Crashes the server; the milliseconds that redo took then."""
    bench.session.close()
    before = len(bench.server.log())
    bench.server.crash()
    bench.session = bench.server.session()
    done = re.search(r"redo done at .* elapsed: ([\d.]+) s", bench.server.log()[before:])
    return float(done.group(1)) * 1000


MIXED_SECONDS = 5
# What each of the clients does: half of the transactions write.
MIXED = {
    "write": "INSERT INTO {table} VALUES (hashint4((random() * 1000000000)::int))",
    "read": "SELECT count(*) FROM {table} WHERE k BETWEEN :first AND :first + 40000",
}


@figure("mixed_own", "writers and readers at once: time a transaction", target=0.91, weight=70,
        note=f"{OWN}; pgbench, 4 clients, half of the transactions insert a row, half count about 20, all in memory")
def mixed_own(bench):
    def run(method, _):
        report = bench.server.run("pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "2", "-T", str(MIXED_SECONDS),
                                  *(argument for name in MIXED for argument in ("-f", script(bench, name, method))))
        return 1000 / float(re.search(r"tps = ([\d.]+)", report).group(1))
    with own_log(bench):
        for method in METHODS:
            bench.fill(f"mixed_{method}", "int4", method)
            bench.session.query(f"VACUUM (FREEZE, ANALYZE) mixed_{method}")
        return bench.alternate(run)


def script(bench, name, method):
    """A file that pgbench may read."""
    path = os.path.join(bench.server.directory, f"{name}_{method}.sql")
    with open(path, "w", encoding="ascii") as out:
        out.write("\\set first random(-2000000000, 2000000000)\n" + MIXED[name].format(table=f"mixed_{method}") + ";\n")
    os.chmod(path, 0o644)
    return path
