"""Tests of the sizes: what there is, a row's ratio and target, batches, what breaks off, and how it is shown."""

import unittest
from dataclasses import replace
from unittest import mock
from xml.etree import ElementTree

import report as reports
import sizes
import texts
from measure import METHODS
from page import page
from server import Failure
from sizes import sizes_of
from test_page import ABOUT, result

IDENTITY = {"commit": "0123456789abcdef", "dirty": "", "mode": "quick", "rows": 120_000, "postgresql": "15.1",
            "cpu": "A <fast> CPU"}
PAGES = 100
ALL = sizes_of(IDENTITY["rows"])


class Session:
    def query(self, statement):
        pass


class Bench:
    """One whose indexes have 60 pages with fpbtree and 100 with btree, and which keeps account of what is inserted."""

    def __init__(self, fails=()):
        self.rows, self.ready, self.session = IDENTITY["rows"], {"texts_emails", "texts_names"}, Session()
        self.fails, self.inserted, self.method, self.recovered = fails, [], None, 0

    def fill(self, table, kind, method):
        pass

    def create_table(self, table, kind):
        pass

    def create_index(self, table, kind, method):
        if kind in self.fails:
            raise Failure("the server\ngave up")
        self.method, self.inserted = method, []

    def insert(self, table, kind, first, last):
        self.inserted.append((first, last))

    def rows_of(self, kind):
        return self.rows

    def size(self, table):
        return sizes.BLOCK * {"fpbtree": 60, "btree": PAGES}[self.method]

    def once(self, run):
        return {method: [run(method)] for method in METHODS}

    def recover(self):
        self.recovered += 1


def measured(*fails):
    rows, broken = sizes.measure(Bench(fails), ALL, mock.Mock())
    return {"identity": IDENTITY, "date": "2026-01-02", "rows": rows, "broken": broken}


class Kinds(unittest.TestCase):
    def test_names_and_what_they_stand_for_are_unique(self):
        self.assertEqual(len(ALL), len(sizes.built(1000)) + len(sizes.grown(1000)))
        self.assertEqual(len({size.what for size in ALL.values()}), len(ALL))

    def test_which_are_grown_and_which_have_targets(self):
        for name, size in ALL.items():
            self.assertEqual(name.partition("_")[0], "grown" if size.kind.grown else "built")
            self.assertTrue(size.target is None or 0 < size.target < 1, name)
        self.assertEqual((ALL["built_int4"].target, ALL["grown_int4"].target), (0.36, 0.45))
        self.assertIsNone(ALL["built_one_row"].target)

    def test_few_rows_are_enough_for_every_kind(self):
        self.assertEqual(list(sizes_of(1)), list(ALL))

    def test_texts_that_come_once(self):
        for family in ("emails", "names"):
            found = list(texts.distinct(family, 5000))
            self.assertEqual(len(set(found)), 5000)
            self.assertEqual(found, list(dict.fromkeys(texts.strings(family, 10_000)))[:5000])


class Rows(unittest.TestCase):
    def row(self, name, fpbtree, btree):
        return sizes.result(name, ALL[name], {"fpbtree": [fpbtree], "btree": [btree]})

    def test_ratio_and_target(self):
        met, missed = self.row("built_int4", 36, 100), self.row("built_int4", 37, 100)
        self.assertEqual([(one.ratio, one.target, one.met) for one in (met, missed)],
                         [(0.36, 0.36, True), (0.37, 0.36, False)])
        self.assertIsNone(self.row("built_numeric", 1, 2).met)

    def test_one_row_counts_pages(self):
        found = reports.cells(self.row("built_one_row", 2 * sizes.BLOCK, 3 * sizes.BLOCK).as_dict())
        self.assertEqual(found[2:5], ["2", "3", "0.67"])

    def test_a_grown_index_gets_every_row_in_batches(self):
        bench = Bench()
        self.assertEqual(sizes.grow(bench, "grown_int4")["btree"], [PAGES * sizes.BLOCK])
        self.assertEqual(bench.inserted, [(1, 50_000), (50_001, 100_000), (100_001, 120_000)])

    def test_what_breaks_off_keeps_nothing_else_from_being_measured(self):
        bench = Bench(["built_uuid4"])
        rows, broken = sizes.measure(bench, ALL, mock.Mock())
        self.assertEqual((len(rows), broken, bench.recovered), (len(ALL) - 1, {"built_uuid4": "the server\ngave up"}, 1))

    def test_seconds(self):
        int4 = ALL["built_int4"]
        self.assertLess(sizes.seconds(1000, int4), sizes.seconds(1000, replace(int4, kind=replace(int4.kind, grown=True))))
        self.assertLess(sizes.seconds(10**9, ALL["built_one_row"]), 0.01)


class Shown(unittest.TestCase):
    def content(self, *fails, results=()):
        return reports.content(ABOUT, [], list(results), [], [], "", sizes=measured(*fails))

    def test_markdown(self):
        told = reports.markdown(self.content("built_uuid4"))
        self.assertIn("| built_int4 | size, built: int4, random | 0.5 MB | 0.8 MB | 0.60 | ≤ 0.36 | **missed** |", told)
        self.assertIn("| grown_int8 | size, grown: int8, ascending | 0.5 MB | 0.8 MB | 0.60 |  |  |", told)
        self.assertIn("120,000 rows", told)
        self.assertIn("built_uuid4 broke off: the server\ngave up", told)

    def test_the_page(self):
        root = ElementTree.fromstring(page(self.content()).removeprefix("<!DOCTYPE html>"))
        ids = [one.get("id") for one in root.iter() if one.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertLess(set(ALL), set(ids))
        links = [one.get("href").removeprefix("#") for one in root.iter("a")]
        self.assertEqual([link for link in links if link not in ids], [])
        self.assertIn("sizes", links)
        with_target = sum(size.target is not None for size in ALL.values())
        self.assertEqual(sum(link in ALL for link in links), with_target)

    def test_failures(self):
        self.assertFalse(reports.failed(self.content(results=[result()])))
        self.assertTrue(reports.failed(self.content("built_uuid4")))


if __name__ == "__main__":
    unittest.main()
