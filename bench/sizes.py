"""The figure of sizes: indexes of many kinds of keys beside btree's, built and grown. Nothing is timed."""

import json
import os
import time
from dataclasses import dataclass, replace

import texts
from matrix import identity, server_settings
from matrix_kinds import foreign_keys, kinds, row
from measure import Bench, Kind, Result, below
from progress import Progress
from server import Failure, Server

NAME = "sizes"
ROWS = 2_000_000
# A grown index gets so many rows by one statement.
BATCH = 50_000
# How many rows a key of a foreign key has.
FANS = (2, 3, 5, 10, 20, 30, 50, 100, 1000)
FANS_IN_ORDER = (3, 10, 30)
# About how many seconds a million rows take, built and grown.
PACE = {False: 3, True: 15}
TABLE = "sized"
BLOCK = 8192


@dataclass(frozen=True)
class Size:
    """An index of this kind with each method; `target` is the greatest ratio that will do, if any will not."""

    kind: Kind
    target: float | None = None

    @property
    def what(self):
        return f"size, {'grown' if self.kind.grown else 'built'}: {self.kind.title}"

    @property
    def unit(self):
        """Bytes say nothing of an index that is small at any number of rows."""
        return "blocks" if self.kind.rows else "bytes"


def repeated(kind, rows, fan):
    """A kind of texts with so many rows to a text, in no order."""
    numbers = f"SELECT i, 1 + {below(max(rows // fan, 1), 78)} AS number FROM generate_series({{first}}, {{last}}) i"
    source = (f"(SELECT n.i, t FROM ({numbers}) n JOIN texts_{kind.family} texts ON texts.i = number ORDER BY n.i)"
              " repeated")
    return replace(kind, source=source, fan=fan, title=f"{kind.title}, {fan} rows to a text")


def built_texts(of_matrix, rows):
    """Names and e-mail addresses in byte order, and e-mail addresses as the database sorts them."""
    for name in ("emails", "names"):
        kind = of_matrix[f"{name}_c"]
        yield f"{name}_c", Size(kind)
        yield f"{name}5_c", Size(repeated(kind, rows, 5), 0.95)
        yield f"{name}20_c", Size(repeated(kind, rows, 20), 0.90)
    emails = replace(of_matrix["emails_c"], columns={"k": "text"}, title="e-mails, the database's libc collation")
    yield "emails_default", Size(emails)
    yield "emails5_default", Size(repeated(emails, rows, 5))


def built(rows):
    """{name: size} of what CREATE INDEX makes."""
    of_matrix, references = kinds(rows), dict(foreign_keys(rows, FANS))
    pairs = max(rows // 28, 1)
    return {
        "int4": Size(of_matrix["int4"], 0.36),
        "int8_random": Size(row("int8, random", {"k": "int8"}, "hashint8extended(i, 0)"), 0.58),
        "uuid4": Size(of_matrix["uuid4"], 0.72),
        "int8": Size(of_matrix["int8"], 0.19),
        "timestamptz": Size(row("timestamptz, 1 ms apart", {"k": "timestamptz"},
                                "timestamptz '2024-01-01' + i * interval '1 ms'"), 0.29),
        **{f"fk{fan}_random": Size(references[f"fk{fan}_random"], 0.85) for fan in FANS},
        **{f"fk{fan}_order": Size(references[f"fk{fan}_order"], 0.55) for fan in FANS_IN_ORDER},
        "int4_int4": Size(row("(int4, int4), both random", {"a": "int4", "b": "int4"},
                              "hashint4(i::int4), hashint4(-i::int4)"), 0.65),
        "int4_timestamptz": Size(row("(int4, timestamptz), random and ascending", {"a": "int4", "b": "timestamptz"},
                                     "hashint4(i::int4), timestamptz '2024-01-01' + i * interval '250 ms'"), 0.70),
        "int2_int4": Size(row("(int2, int4), 28 rows to a pair", {"a": "int2", "b": "int4"},
                              f"({below(pairs, 79)} % 300)::int2, {below(pairs, 79)} / 300", fan=28), 0.85),
        "date": Size(of_matrix["date"], 0.85),
        "bool": Size(of_matrix["bool"], 0.85),
        **dict(built_texts(of_matrix, rows)),
        "numeric": Size(of_matrix["numeric"]),
        "one_row": Size(replace(of_matrix["int4"], rows=1, title="one row, in pages")),
    }


def grown(rows):
    """{name: size} of what inserts into an empty table make."""
    of_matrix = kinds(rows)
    tenants = replace(of_matrix["tenant_seq"], columns={"a": "int4", "b": "int8"},
                      title="(tenant int4, seq int8), ascending within 200 tenants")
    sizes = {
        "int4": Size(of_matrix["int4"], 0.45),
        "fk10_random": Size(of_matrix["fk10_random"], 0.90),
        "int8": Size(of_matrix["int8"]),
        "emails_c": Size(of_matrix["emails_c"]),
        "tenant_seq": Size(tenants, 0.75),
        "uuid7": Size(of_matrix["uuid7"], 0.80),
        "timestamptz": Size(of_matrix["timestamptz"]),
    }
    return {name: replace(size, kind=replace(size.kind, grown=True)) for name, size in sizes.items()}


def sizes_of(rows):
    """{name: size}, in the order they are measured and shown, of tables of so many rows."""
    return ({f"built_{name}": size for name, size in built(rows).items()}
            | {f"grown_{name}": size for name, size in grown(rows).items()})


def build(bench, name):
    """The bytes of both methods' indexes, one after the other on one table."""
    bench.fill(TABLE, name, "none")

    def size(method):
        bench.session.query(f"DROP INDEX IF EXISTS {TABLE}_k")
        bench.create_index(TABLE, name, method)
        return bench.size(TABLE)
    return bench.once(size)


def grow(bench, name):
    """The bytes of both methods' indexes, each on an empty table that then gets its rows."""
    rows = bench.rows_of(name)

    def size(method):
        bench.create_table(TABLE, name)
        bench.create_index(TABLE, name, method)
        for first in range(1, rows + 1, BATCH):
            bench.insert(TABLE, name, first, min(first + BATCH - 1, rows))
        return bench.size(TABLE)
    return bench.once(size)


def result(name, size, samples):
    """A row of the table, of what `build` or `grow` has returned."""
    if size.unit == "blocks":
        samples = {method: [one // BLOCK for one in found] for method, found in samples.items()}
    return Result(name, size.what, size.unit, samples["fpbtree"], samples["btree"], target=size.target)


def measure(bench, sizes, progress):
    """(the rows, {name: why} of those that broke off)."""
    rows, broken = [], {}
    for name, size in sizes.items():
        progress.begin(NAME, name, seconds(bench.rows, size))
        try:
            texts.need_table(bench, size.kind.family, texts.distinct)
            rows.append(result(name, size, (grow if size.kind.grown else build)(bench, name)).as_dict())
        except (Failure, OSError) as failure:
            broken[name] = str(failure)
            bench.recover()
        progress.tick(1)
    return rows, broken


def seconds(rows, size):
    """About how long a size takes."""
    return PACE[size.kind.grown] * (size.kind.rows or rows) / 1e6


def run(directory, options, mode):
    """Measures all sizes, and writes sizes.json; returns what that has."""
    rows = options.rows or ROWS
    sizes = sizes_of(rows)
    date = time.strftime("%Y-%m-%d")
    progress = Progress({NAME: sum(seconds(rows, size) for size in sizes.values())})
    try:
        with Server(options.pg_config, server_settings()) as server:
            bench = Bench(server, rows, kinds={name: size.kind for name, size in sizes.items()})
            measured, broken = measure(bench, sizes, progress)
    finally:
        progress.end()
    found = {"identity": identity(mode, rows, options.pg_config), "date": date, "rows": measured, "broken": broken}
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{NAME}.json"), "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)
    return found
