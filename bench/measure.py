"""What the figures are made of: identical tables, alternating runs, medians."""

import statistics
import time
from dataclasses import dataclass, field

from server import Failure

METHODS = ("fpbtree", "btree")
# The arms of a figure that is about an index's share: what is left when the work without an index is taken off.
ARMS = ("none", *METHODS)

# What e-mail addresses and URLs are made of.
FIRST_NAMES = """alice amelia andrew anna arthur ben carla charles chloe chris claire daniel david diana edward elena
    emily emma eric eva felix frank george grace hannah harry helen henry ian irene jack jacob james jane jason john
    julia karen kevin laura leo linda lucas maria mark martin mary michael nina noah oliver oscar paul peter rachel
    robert rose samuel sarah simon sofia thomas victor william""".split()
SURNAME_STARTS = """ald ash beck black brad brook burn carl clay crow dal el fair good green hal hart hill hol king
    lang law mar mill nor ox red rock stan thorn wal whit""".split()
SURNAME_ENDS = """bank bell berg bourne bridge brook bury by cott dale den don field ford gate ham hurst ley low man
    mere more ridge shaw smith son stead ton well wick wood worth""".split()
DOMAINS = """example.com example.net example.org mail.example.com post.example.net students.example.edu
    inbox.example.org consulting.example.co.uk""".split()
SHOPS = """www.example.com/en/store www.example.com/de/store www.example.com/fr/store shop.example.org/catalogue
    shop.example.net/products market.example.com/offers outlet.example.org/items www.example.co.uk/all""".split()
SECTIONS = """baby-and-toddler beauty-and-care bicycles books-and-magazines camping cars-and-parts computers
    do-it-yourself fashion garden-and-patio home-and-living kitchen-and-dining music office-supplies pets
    toys-and-games""".split()
ADJECTIVES = """adjustable basic black blue classic compact cordless deluxe digital double electric extra-large
    folding green handmade heavy-duty indoor light magnetic mini natural organic outdoor portable premium professional
    red refurbished silent solid waterproof wireless""".split()
NOUNS = """adapter backpack bag battery blanket bottle bowl box brush cable camera case chair charger clock cover
    cushion desk filter frame heater holder kettle lamp lock mat mirror rack shelf stand table tray""".split()


def below(limit, seed):
    """A number of row i, from 0 to limit - 1: another one for another seed."""
    return f"((hashint8extended(i, {seed}) & 9223372036854775807) % {limit})"


def pick(words, seed):
    """One of the words, for row i."""
    return f"('{{{','.join(words)}}}'::text[])[1 + {below(len(words), seed)}]"


def text(*parts):
    """The parts, SQL expressions, as one text."""
    return f"concat({', '.join(parts)})"


EMAIL = text(pick(FIRST_NAMES, 11), "'.'", pick(SURNAME_STARTS, 12), pick(SURNAME_ENDS, 13), below(10_000, 14), "'@'",
             pick(DOMAINS, 15))
URL = text("'https://'", pick(SHOPS, 21), "'/'", pick(SECTIONS, 22), "'/'", pick(ADJECTIVES, 23), "'-'",
           pick(NOUNS, 24), "'?id='", below(1_000_000_000, 25))


@dataclass(frozen=True)
class Kind:
    """An index's columns, the i-th row of its table, and its share of the benchmark's rows.

    `rows` is a number that does not depend on the benchmark's; `lone` gives each row a heap page to itself; `grown`
    makes the index before the rows; `rest` are the table's other columns, `include` those of them that the index
    includes; `source` is where the numbers i come from, with what a row may be made of."""

    columns: dict
    row: str
    share: float = 1.0
    rows: int = 0
    lone: bool = False
    grown: bool = False
    rest: dict = field(default_factory=dict)
    include: tuple = ()
    source: str = "generate_series({first}, {last}) i"


# At the least fill factor, two such rows do not fit a heap page.
LONE_ROW = "hashint4(i::int4), repeat('x', 820)"
LONE = {"lone": True, "rest": {"filler": "text"}}
# Every row is random, and the same in every table and run.
KINDS = {
    "int4": Kind({"k": "int4"}, "hashint4(i::int4)"),
    "int8": Kind({"k": "int8"}, "hashint8extended(i, 0)"),
    "uuid": Kind({"k": "uuid"}, "md5(i::text)::uuid"),
    "timestamptz": Kind({"k": "timestamptz"}, "timestamptz '2020-01-01' + hashint4(i::int4) * interval '70 ms'"),
    "email": Kind({"k": 'text COLLATE "C"'}, EMAIL, share=0.5),
    "email_en": Kind({"k": 'text COLLATE "en_US.utf8"'}, EMAIL, share=0.5),
    "email_icu": Kind({"k": 'text COLLATE "en-x-icu"'}, EMAIL, share=0.5),
    "url": Kind({"k": 'text COLLATE "C"'}, URL, share=0.5),
    "md5": Kind({"k": 'text COLLATE "C"'}, "md5(i::text)", share=0.5),
    "numeric": Kind({"k": "numeric"}, f"{below(100_000_000_000, 31)} * 0.01", share=0.5),
    "int4_text": Kind({"a": "int4", "k": 'text COLLATE "C"'}, f"{below(10_000, 41)}, {EMAIL}", share=0.5),
    "status": Kind({"k": 'text COLLATE "en-x-icu"'}, f"'status ' || {below(20, 62)}", share=0.5),
    "amounts": Kind({"a": "int4", "k": "numeric"}, f"{below(100, 63)}, {below(1_000_000, 64)} * 0.01", share=0.5),
    "duplicates": Kind({"k": "int4"}, below(1_000, 51), share=0.3),
    "int4_int4": Kind({"a": "int4", "b": "int4"}, f"{below(100, 61)}, hashint4(i::int4)"),
    "grown": Kind({"k": "int4"}, "hashint4(i::int4)", share=1.2, grown=True),
    "scattered": Kind({"k": "int4"}, LONE_ROW, rows=100_000, **LONE),
    "spare": Kind({"k": "int4"}, LONE_ROW, rows=100, **LONE),
}


NO_OTHER_SCAN = {"enable_seqscan": "off", "enable_bitmapscan": "off"}
NESTED_LOOP = NO_OTHER_SCAN | {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off",
                               "enable_memoize": "off"}


class WrongPlan(Failure):
    """A statement is not planned as it is meant to be measured."""


def differences(samples):
    """What an index's methods take: each round's sample less that of the same round without an index."""
    return {method: [with_index - without for with_index, without in zip(samples[method], samples["none"])]
            for method in METHODS}


def summary(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


@dataclass
class Result:
    """One row of the report: the samples of fpbtree and of what it is held against, in one unit."""

    name: str
    what: str
    unit: str
    fpbtree: list
    other: list
    against: str = "btree"
    target: float | None = None
    note: str = ""

    @property
    def ratio(self):
        base = statistics.median(self.other)
        return statistics.median(self.fpbtree) / base if base > 0 else None

    @property
    def met(self):
        """Whether the target is met; None where there is none, or nothing to compare with."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio <= self.target

    def as_dict(self):
        return {"figure": self.name, "what": self.what, "unit": self.unit, "against": self.against,
                "fpbtree": summary(self.fpbtree), self.against: summary(self.other), "ratio": self.ratio,
                "target": self.target, "met": self.met, "note": self.note}


@dataclass
class Graph:
    """Something over some quantity x, with logarithmic axes or linear ones: for each series, samples by x."""

    name: str
    what: str
    x: str
    series: dict
    note: str = ""
    unit: str = "ms"
    log: bool = True

    def as_dict(self):
        return {"graph": self.name, "what": self.what, "x": self.x, "unit": self.unit, "log": self.log, "note": self.note,
                "series": {label: [{"x": x} | summary(samples) for x, samples in points.items()]
                           for label, points in self.series.items()}}


@dataclass
class Bench:
    """A running benchmark: what a figure's function gets."""

    server: object
    rows: int
    rounds: int = 5
    full: bool = True
    tick: object = lambda done, of: None
    ready: set = field(default_factory=set)
    kept: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=lambda: KINDS)

    def __post_init__(self):
        self.session = self.server.session()
        self.session.query("CREATE EXTENSION fpbtree")
        self.version = int(self.session.value("SHOW server_version_num")) // 10000

    def rows_of(self, kind):
        return self.kinds[kind].rows or int(self.rows * self.kinds[kind].share)

    def restart(self, **how):
        """Restarts the server, and opens another session."""
        self.session.close()
        self.server.restart(**how)
        self.session = self.server.session()

    def recover(self):
        """Opens another session, after one that may have broken off; waits for a server that restarts itself."""
        self.session.close()
        for _ in range(30):
            try:
                self.session = self.server.session()
                return
            except (Failure, OSError):
                time.sleep(1)
        raise Failure("the server does not come back")

    def indexed(self, kind, method):
        """A table of all rows with one index, vacuumed; made when first asked for. Not to be changed by figures."""
        table = f"{kind}_{method}"
        if table not in self.ready:
            self.fill(table, kind, method)
            self.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")
            self.ready.add(table)
        return table

    def create_table(self, table, kind):
        """(Re)creates a table, empty and without an index."""
        all_columns = self.kinds[kind].columns | self.kinds[kind].rest
        columns = ", ".join(f"{name} {definition}" for name, definition in all_columns.items())
        storage = " WITH (fillfactor = 10)" if self.kinds[kind].lone else ""
        self.session.query(f"DROP TABLE IF EXISTS {table}")
        self.session.query(f"CREATE TABLE {table} ({columns}){storage}")

    def fill(self, table, kind, method, rows=None):
        """(Re)creates a table of all rows, or of so many; method `none` means without an index."""
        steps = [lambda: self.insert(table, kind, 1, rows or self.rows_of(kind))]
        if method != "none":
            steps.insert(0 if self.kinds[kind].grown else 1, lambda: self.create_index(table, kind, method))
        self.create_table(table, kind)
        for step in steps:
            step()

    def insert(self, table, kind, first, last):
        """Appends rows first..last; returns the milliseconds."""
        source = self.kinds[kind].source.format(first=first, last=last)
        return self.session.time(f"INSERT INTO {table} SELECT {self.kinds[kind].row} FROM {source}")

    def sample(self, table, kind, count, zipf=False):
        """(Re)creates a table of that many rows, each of them one of all rows at random, vacuumed. By Zipf's law some
        come far more often than others, with 0.99 for an exponent; which ones, depends on no order."""
        self.create_table(table, kind)
        rows = self.rows_of(kind)
        rank = f"floor(power((power({rows}, 0.01) - 1) * {below(10**9, 1)} / 1e9 + 1, 100))::int8" if zipf else "i"
        numbers = f"SELECT 1 + {below(rows, 1).replace('(i,', f'({rank},')} AS i FROM generate_series(1, {count}) i"
        self.session.query(f"INSERT INTO {table} SELECT {self.kinds[kind].row} FROM ({numbers}) numbers")
        self.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")

    def create_index(self, table, kind, method):
        """Builds the index at fillfactor 90; returns the milliseconds."""
        columns = f"({', '.join(self.kinds[kind].columns)})"
        if self.kinds[kind].include:
            columns += f" INCLUDE ({', '.join(self.kinds[kind].include)})"
        return self.session.time(f"CREATE INDEX {table}_k ON {table} USING {method} {columns} WITH (fillfactor = 90)")

    def size(self, table):
        return self.session.value(f"SELECT pg_relation_size('{table}_k')")

    def alternate(self, run, arms=METHODS, warm_ups=1, times=1):
        """Warm-ups, then `times * rounds` rounds of run(arm, round), each in the opposite order of the one before."""
        samples = {arm: [] for arm in arms}
        turns = times * self.rounds + warm_ups
        for number in range(turns):
            order = tuple(arms) if number % 2 == 0 else tuple(reversed(arms))
            for step, arm in enumerate(order):
                sample = run(arm, number)
                if number >= warm_ups:
                    samples[arm].append(sample)
                self.tick(number * len(arms) + step + 1, turns * len(arms))
        return samples

    def keep(self, key, make):
        """What make() returned when this key was first asked for."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def share(self, run):
        """As `alternate`, but an index's share: each round's time less that of the same round without an index."""
        return differences(self.alternate(run, ARMS))

    def once(self, run):
        """For what has no noise, such as a size."""
        return {method: [run(method)] for method in METHODS}

    def expect_plan(self, statement, index, *node_types):
        """Runs the statement once; fails unless it reads this index, alone, through these nodes and not the heap."""
        nodes = self.session.explain(statement, "ANALYZE", "TIMING OFF")
        types = {node["Node Type"] for node in nodes}
        indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
        fetches = sum(node.get("Heap Fetches", 0) for node in nodes)
        if not types.issuperset(node_types) or indexes != {index} or fetches > 0:
            raise WrongPlan(f"not the plan to be measured ({', '.join(node_types)} on {index}): "
                            f"{', '.join(sorted(types))} on {', '.join(indexes) or 'no index'}, {fetches} heap fetches")
