"""A day of a table with five indexes: pgbench inserts, updates, deletes and looks up in fpbtree's table and in btree's at
once, autovacuum works as it does by default, and each minute is told apart."""

import glob
import math
import time
from collections import defaultdict

from figures import graph
from measure import EMAIL, METHODS, below
from own_log import own_log
from server import Failure

MINUTES = {"quick": 3, "full": 60}
CLIENTS = 2
# As the server has them by default; the benchmark's own keep the background quiet.
BACKGROUND = {"autovacuum": "on", "checkpoint_timeout": "5min", "max_wal_size": "1GB"}
NOTE = ("a table with five indexes, on id (unique), (customer, placed), email, (status, changed) and amount, for each method;"
        f" pgbench with {CLIENTS} clients on each at the same time: of 20 transactions 2 insert, 4 update and 2 delete a row,"
        " 6 look up a customer's rows, 4 an e-mail address, 2 count some customers' rows; autovacuum and checkpoints as by"
        " default; commits do not wait for the disk")

COLUMNS = """id bigint GENERATED ALWAYS AS IDENTITY, customer int, placed timestamptz, email text, status int2,
    changed timestamptz, amount numeric"""
INDEXES = ("id", "customer, placed", "email", "status, changed", "amount")
ROW = (f"{below('{customers}', 81)}, now() - make_interval(secs => {below(10_000_000, 82)}), {EMAIL}, 0::int2, now(),"
       f" {below(1_000_000, 83)} * 0.01")
# A row that is likely to be there, whatever has been deleted.
SOME_ID = "(SELECT id FROM {table} WHERE id >= (SELECT (random() * last_value)::bigint FROM {table}_id_seq) ORDER BY id LIMIT 1)"
NEW = "\\set i random(1, 1000000000)\n"
CUSTOMER = "\\set customer random(1, {customers})\n"
# What a client does, and how often.
SCRIPTS = {
    "insert": (2, NEW + "INSERT INTO {table} (customer, placed, email, status, changed, amount)"
                        f" SELECT {ROW} FROM (VALUES (:i)) rows (i)"),
    "update": (4, f"UPDATE {{table}} SET status = (status + 1) % 5, changed = now() WHERE id = {SOME_ID}"),
    "delete": (2, f"DELETE FROM {{table}} WHERE id = {SOME_ID}"),
    "customer": (6, CUSTOMER + "SELECT count(*), max(placed) FROM {table} WHERE customer = :customer"),
    "email": (4, "\\set i random(1, {rows})\n"
                 f"SELECT id, amount FROM {{table}}, (VALUES (:i)) rows (i) WHERE email = {EMAIL}"),
    "range": (2, CUSTOMER + "SELECT count(*) FROM {table} WHERE customer BETWEEN :customer AND :customer + 100"),
}


def filled(text, **words):
    """A text with these words in the place of their names in braces; it may have other braces."""
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", str(word))
    return text


def create(bench, method, rows):
    """The table of a method, with its indexes."""
    table, query = f"day_{method}", bench.session.query
    query(f"DROP TABLE IF EXISTS {table}")
    query(f"CREATE TABLE {table} ({COLUMNS})")
    query(f"INSERT INTO {table} (customer, placed, email, status, changed, amount)"
          f" SELECT {filled(ROW, customers=rows // 20)} FROM generate_series(1, {rows}) i")
    for columns in INDEXES:
        unique = "UNIQUE" if columns == "id" else ""
        query(f"CREATE {unique} INDEX ON {table} USING {method} ({columns})")
    query(f"VACUUM ANALYZE {table}")
    return table


def start(bench, method, table, rows, minutes):
    """(pgbench at work on a table, the beginning of its log's name)."""
    files, log = [], f"{bench.server.directory}/day_{method}"
    for name, (weight, script) in SCRIPTS.items():
        text = filled(script, table=table, rows=rows, customers=rows // 20)
        files += ["-f", f"{bench.server.script(f'day_{name}_{method}.sql', [text])}@{weight}"]
    return bench.server.start("pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-T", str(60 * minutes), "-l",
                              f"--log-prefix={log}", *files), log


def by_minute(log, began, minutes):
    """[milliseconds of its transactions, in order, for each minute], as pgbench has logged them."""
    taken = defaultdict(list)
    for path in glob.glob(f"{glob.escape(log)}.*"):
        with open(path, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                taken[int((int(words[4]) - began) // 60)].append(int(words[2]) / 1000)
    return [sorted(taken[minute]) for minute in range(minutes)]


def percentile(ordered, share):
    """The least of some values that so large a share of them do not exceed."""
    return ordered[max(math.ceil(len(ordered) * share) - 1, 0)]


def measured(bench):
    """{"MB", "tps" or "ms": {method: {minute: [what was measured]}}}."""
    minutes, rows = MINUTES["full" if bench.full else "quick"], bench.rows // 10
    found = {unit: {method: {} for method in METHODS} for unit in ("MB", "tps", "ms")}
    with own_log(bench, synchronous_commit="off", **BACKGROUND):
        tables = {method: create(bench, method, rows) for method in METHODS}
        began = time.time()
        at_work = {method: start(bench, method, table, rows, minutes) for method, table in tables.items()}
        for minute in range(1, minutes + 1):
            time.sleep(max(began + 60 * minute - time.time(), 0))
            for method, table in tables.items():
                found["MB"][method][minute] = [bench.session.value(f"SELECT pg_indexes_size('{table}') / 1e6")]
            bench.tick(minute, minutes)
        for method, (process, log) in at_work.items():
            told, _ = process.communicate()
            if process.returncode != 0:
                raise Failure(f"pgbench failed:\n{told}")
            for minute, taken in enumerate(by_minute(log, began, minutes), 1):
                if taken:
                    found["tps"][method][minute] = [len(taken) / 60]
                    found["ms"][method][minute] = [percentile(taken, 0.99)]
    return found


for name, unit, what in (("day_size", "MB", "size of five indexes"), ("day_tps", "tps", "transactions a second"),
                         ("day_p99", "ms", "99th percentile of a transaction's time")):
    graph(name, f"a day of a table: {what}", "minute", weight=2000, note=NOTE, cold=False, quick=False, unit=unit, log=False)(
        lambda bench, unit=unit: {method: {minute: [float(value) for value in values] for minute, values in points.items()}
                                  for method, points in bench.keep("day", lambda: measured(bench))[unit].items()})
