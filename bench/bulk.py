"""Figures of statements that insert many rows, or a few, into tables that are large already: what an index has in their time
and in their log. The index has fpbtree's own log."""

import functools

from figures import figure
from measure import ARMS, differences
from own_log import OWN, log_position, own_log

# Kinds, and targets for an index's share of time and of log; they are for versions that collect a statement's entries.
KINDS = {"int8": (0.12, 0.30), "uuid": (0.15, None), "email": (0.25, None)}
# Rows a statement, and the target.
FEW_ROWS = {10: 0.40, 100: 0.30}
NOTE = f"{OWN}; into tables that have all rows"


def large(bench, kind):
    """A table of all rows for each arm, with its index."""
    for arm in ARMS:
        bench.fill(f"bulk_{arm}", kind, arm)
    bench.session.query("CHECKPOINT")


def inserted(bench, kind, arm, number, count):
    """Inserts so many rows that are not there yet; returns the milliseconds."""
    first = bench.rows_of(kind) + number * count + 1
    return bench.insert(f"bulk_{arm}", kind, first, first + count - 1)


def samples(bench, kind, cold):
    """{"ms" or "bytes": {method: an index's share, each round}} of a tenth as many rows as there are."""
    def run(arm, number):
        if cold:
            bench.restart(cold=True)
            bench.session.set(effective_io_concurrency=64)
        before = log_position(bench)
        return inserted(bench, kind, arm, number, bench.rows_of(kind) // 10), log_position(bench) - before
    with own_log(bench):
        large(bench, kind)
        found = bench.alternate(run, ARMS, warm_ups=0 if cold else 1)
    return {unit: differences({arm: [sample[at] for sample in found[arm]] for arm in ARMS})
            for at, unit in enumerate(("ms", "bytes"))}


for kind, (time_target, log_target) in KINDS.items():
    for cold in (False, True):
        make = functools.partial(lambda bench, kind, cold: bench.keep(("bulk", kind, cold), lambda: samples(bench, kind, cold)),
                                 kind=kind, cold=cold)
        name, how = f"bulk_{kind}" + "_cold" * cold, ", cold, effective_io_concurrency 64" if cold else ""
        figure(name, f"INSERT … SELECT of random {kind}, a tenth as many rows, the index's share{how}",
               target=0.15 if cold else time_target, weight=120, note=NOTE, cold=cold, quick=False)(
            lambda bench, make=make: make(bench)["ms"])
        if not cold:
            figure(f"{name}_wal", f"log of the same, {kind}, the index's share", target=log_target, unit="bytes", weight=0.1,
                   note=NOTE, quick=False)(lambda bench, make=make: make(bench)["bytes"])


@figure("page_images", "full-page images after a checkpoint, random int8, a hundredth as many rows, the index's share",
        target=0.60, unit="bytes", weight=60, note=NOTE, quick=False)
def page_images(bench):
    def run(arm, number):
        bench.session.query("CHECKPOINT")
        first = bench.session.value("SELECT pg_current_wal_insert_lsn()")
        inserted(bench, "int8", arm, number, bench.rows // 100)
        # Until now it may not be flushed, and what is not is not read.
        bench.session.query("SELECT pg_switch_wal()")
        images = f"SELECT sum(fpi_size) FROM pg_get_wal_stats('{first}', pg_current_wal_flush_lsn())"
        return float(bench.session.value(images))
    with own_log(bench):
        large(bench, "int8")
        bench.session.query("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        return bench.share(run)


def few_rows(bench, rows):
    """Statements of a few rows each, in one transaction; an index's share of their time."""
    count = bench.rows // 20 // rows

    def run(arm, number):
        first = bench.rows + number * count * rows
        return bench.session.time(f"""DO $$ BEGIN
            FOR i IN 0..{count - 1} LOOP
                INSERT INTO bulk_{arm} SELECT hashint8extended({first} + i * {rows} + j, 0) FROM generate_series(1, {rows}) j;
            END LOOP;
        END $$""")
    with own_log(bench):
        large(bench, "int8")
        return bench.share(run)


for rows, target in FEW_ROWS.items():
    figure(f"insert_{rows}_rows", f"INSERT … SELECT of {rows} random int8 a statement, the index's share", target=target,
           weight=60, note=NOTE, quick=False)(lambda bench, rows=rows: few_rows(bench, rows))
