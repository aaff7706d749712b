"""The matrix's rows: kinds of keys. Each table has a column `payload` besides, the row's number."""

from dataclasses import dataclass

from measure import EMAIL, Kind, below, pick
from texts import FAMILIES

# What a kind's name ends in, the collation, and how it is called.
COLLATIONS = {
    "en": ("en_US.utf8", "libc en_US.UTF-8"),
    "utf8": ("C.utf8", "libc C.UTF-8"),
    "icu": ("en-x-icu", "ICU en"),
    "c": ("C", "C"),
}
FAMILY_NAMES = {"words": "words", "names": "names", "emails": "e-mails", "urls": "URLs", "paths": "paths", "md5": "md5"}
STATES = "new paid packed sent delivered returned refunded cancelled".split()
# What the kinds' types need.
TYPES = f"CREATE TYPE state AS ENUM ({', '.join(map(repr, STATES))})"
PAYLOAD = {"payload": "int4"}


@dataclass(frozen=True)
class Row(Kind):
    """A kind as the matrix shows it: `title`; `fan` is how many rows a key has; `like` says that its index serves LIKE;
    `family` names the table of texts that it is made of."""

    title: str = ""
    fan: float = 1.0
    like: bool = False
    family: str = ""

    @property
    def collations(self):
        """The collations that its columns name."""
        return {part.split('"')[1] for part in self.columns.values() if '"' in part}


def row(title, columns, values, **more):
    return Row(columns, f"{values}, i", rest={**PAYLOAD}, title=title, **more)


def foreign_keys(rows, fans=(3, 10, 30, 100)):
    """A column that refers to a table of rows / fan, the rows in no order or in that of the table referred to."""
    for fan in fans:
        yield f"fk{fan}_random", row(f"foreign key of {fan} rows, random", {"k": "int4"}, below(max(rows // fan, 1), 71),
                                     fan=fan)
        yield f"fk{fan}_order", row(f"foreign key of {fan} rows, in table order", {"k": "int4"}, f"i / {fan}", fan=fan)


def texts():
    """Every family under every collation."""
    for family in FAMILIES:
        for ending, (collation, words) in COLLATIONS.items():
            yield f"{family}_{ending}", Row(
                {"k": f'text COLLATE "{collation}"'}, "t, i", rest={**PAYLOAD}, like=ending == "c", family=family,
                title=f"{FAMILY_NAMES[family]}, {words}", source=texts_source(family))


def texts_source(family):
    return f"(SELECT i, t FROM texts_{family} WHERE i BETWEEN {{first}} AND {{last}} ORDER BY i) texts"


UUID7 = ("(lpad(to_hex(1700000000000 + i / 5), 12, '0') || '7' || left(md5(i::text), 3) || '8' || right(md5(i::text), 15))"
         "::uuid")


def kinds(rows):
    """{name: kind}, in the order they are shown, of tables of so many rows."""
    array = f"ARRAY[{below(50, 81)}, {below(1000, 82)}, hashint4(i::int4)]::int4[]"
    document = f"jsonb_build_object('user', {below(10_000, 83)}, 'did', {pick(('click', 'view', 'buy'), 85)}, 'at', i)"
    return {
        "int4": row("int4, random", {"k": "int4"}, "hashint4(i::int4)"),
        "int8": row("int8, ascending", {"k": "int8"}, "i"),
        "timestamptz": row("timestamptz, ascending", {"k": "timestamptz"},
                           f"timestamptz '2024-01-01' + (i * 250 + {below(250, 84)}) * interval '1 ms'"),
        "uuid4": row("uuid v4", {"k": "uuid"}, "md5(i::text)::uuid"),
        "uuid7": row("uuid v7, several a millisecond", {"k": "uuid"}, UUID7),
        # Every tenant's rows are numbered by themselves; which tenant's comes next, changes every 200 rows.
        "tenant_seq": row("(tenant int4, seq int4), ascending within 200 tenants", {"a": "int4", "b": "int4"},
                          "(i * 73 + abs(hashint4(i::int4 / 200))::int8) % 200, i / 200"),
        **dict(foreign_keys(rows)),
        "int4_int4": row("(int4, int4)", {"a": "int4", "b": "int4"}, f"{below(1000, 72)}, hashint4(i::int4)"),
        "int4_timestamptz": row("(int4, timestamptz)", {"a": "int4", "b": "timestamptz"},
                                f"{below(1000, 73)}, timestamptz '2024-01-01' + i * interval '250 ms'"),
        "float8_float8": row("(float8, float8)", {"a": "float8", "b": "float8"},
                             f"{below(360_000_000, 74)} / 1e6 - 180, {below(180_000_000, 75)} / 1e6 - 90"),
        "int4_text": row("(int4, text C)", {"a": "int4", "b": 'text COLLATE "C"'}, f"{below(10_000, 41)}, {EMAIL}"),
        "bool": row("bool", {"k": "bool"}, f"{below(2, 76)} = 0", fan=rows / 2),
        "numeric": row("numeric", {"k": "numeric"}, f"{below(100_000_000_000, 31)} * 0.01"),
        "date": row("date, 5,000 values", {"k": "date"}, f"date '2010-01-01' + {below(5000, 77)}::int4",
                    fan=max(rows / 5000, 1)),
        **dict(texts()),
        "emails_include": Row({"k": 'text COLLATE "C"'}, "t, i, i", rest={"id": "int8", **PAYLOAD}, include=("id",),
                              like=True, family="emails", source=texts_source("emails"),
                              title="e-mails, C, INCLUDE (int8)"),
        "jsonb": row("jsonb", {"k": "jsonb"}, document),
        "array": row("int4[]", {"k": "int4[]"}, array),
        "enum": row("enum, 8 values", {"k": "state"}, f"{pick(STATES, 78)}::state", fan=rows / len(STATES)),
    }
