"""Figures of texts under several collations that are looked for in other ways than one by one: by their beginnings, in lists,
and by merge joins."""

from figures import figure
from measure import METHODS, NO_OTHER_SCAN, WrongPlan

# Kinds of e-mail addresses, what their collation is called, the operator class that LIKE goes by, and the target.
COLLATIONS = {"email": ("C", "text_ops", 0.80), "email_en": ("en_US.UTF-8", "text_pattern_ops", 0.90),
              "email_icu": ("ICU en", "text_pattern_ops", 0.90)}
BEGINNINGS = 100
LISTED = 1000


def patterns(bench, kind, method, operators):
    """A table of all rows with one index, whose order LIKE can go by."""
    if operators == "text_ops":
        return bench.indexed(kind, method)

    def make():
        table = f"{kind}_pattern_{method}"
        bench.fill(table, kind, "none")
        bench.session.query(f"CREATE INDEX {table}_k ON {table} USING {method} (k {operators}) WITH (fillfactor = 90)")
        bench.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")
        return table
    return bench.keep(("pattern", kind, method), make)


def some_of(bench, kind, what, count):
    """So many different ones of what there is of the keys, the same for both methods, as constants."""
    values = f"SELECT {what} AS v FROM {bench.indexed(kind, 'btree')} ORDER BY hashtext(k) LIMIT {2 * count}"
    return [value for value, in bench.session.query(
        f"SELECT quote_literal(v) FROM (SELECT DISTINCT v FROM ({values}) found) picked ORDER BY hashtext(v) LIMIT {count}")]


def timed(bench, tables, statement, *nodes, has_conditions=True, **settings):
    """The milliseconds of a statement that is made of a table's name; the index has to decide its conditions."""
    bench.session.set(**NO_OTHER_SCAN | settings)
    for table in tables.values():
        bench.expect_plan(statement(table), f"{table}_k", *nodes)
        scans = [node for node in bench.session.explain(statement(table)) if node["Node Type"] == "Index Only Scan"]
        if not all(("Index Cond" in scan) == has_conditions for scan in scans):
            raise WrongPlan(f"not the conditions to be measured on {table}_k")
    return bench.alternate(lambda method, _: bench.session.time(statement(tables[method])))


def beginnings(bench, kind, operators):
    tables = {method: patterns(bench, kind, method, operators) for method in METHODS}
    found = some_of(bench, kind, "left(k, 7)", BEGINNINGS)
    return timed(bench, tables, lambda table: "SELECT sum(length(k)) FROM ({}) found".format(" UNION ALL ".join(
        f"SELECT k FROM {table} WHERE k LIKE {beginning} || '%'" for beginning in found)), "Index Only Scan")


def listed(bench, kind):
    tables = {method: bench.indexed(kind, method) for method in METHODS}
    values = ", ".join(some_of(bench, kind, "k", LISTED))
    return timed(bench, tables, lambda table: f"SELECT sum(length(k)) FROM {table} WHERE k IN ({values})", "Index Only Scan")


def merged(bench, kind):
    tables = {method: bench.indexed(kind, method) for method in METHODS}
    return timed(bench, tables, lambda table: f"SELECT count(*) FROM {table} a JOIN {table} b USING (k)",
                 "Merge Join", "Index Only Scan", has_conditions=False, enable_hashjoin="off", enable_nestloop="off", enable_sort="off")


for kind, (collation, operators, target) in COLLATIONS.items():
    suffix = kind.removeprefix("email")
    figure(f"like{suffix}", f"rows of {BEGINNINGS} beginnings, k LIKE '…%', e-mail addresses, {collation}", target=target, weight=4,
           quick=False)(lambda bench, kind=kind, operators=operators: beginnings(bench, kind, operators))
    figure(f"in_list{suffix}", f"rows of k IN ({LISTED} values), e-mail addresses, {collation}", target=target, weight=2,
           quick=False)(lambda bench, kind=kind: listed(bench, kind))
    figure(f"merge_join{suffix}", f"merge join of all with themselves, e-mail addresses, {collation}", target=target, weight=20,
           quick=False)(lambda bench, kind=kind: merged(bench, kind))
