"""Tests of the matrix: its texts and kinds, what makes a cell, going on where it stopped, and how it is shown."""

import copy
import itertools
import os
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

import matrix
import matrix_page
import report as reports
import texts
from matrix import BROKEN, IMPOSSIBLE, LEFT_OUT, MEASURED, Run, State, cell, failed_cell
from matrix_columns import COLUMNS, TASKS
from matrix_kinds import kinds
from matrix_restarts import RESTARTS, at, redo_points, turns
from measure import METHODS, WrongPlan
from page import page
from server import Failure
from test_page import ABOUT

IDENTITY = {"commit": "0123456789abcdef", "dirty": "", "mode": "full", "rows": matrix.ROWS["full"], "postgresql": "15.1",
            "cpu": "A <fast> CPU"}
FAST = cell({"fpbtree": [1.0, 2.0, 3.0], "btree": [2.0, 2.0, 4.0]}, "ms")
SLOW = cell({"fpbtree": [11], "btree": [10]}, "bytes")


def whole(**more):
    """A complete matrix as data."""
    cells = {name: {column: FAST for column in matrix.applicable(kind, COLUMNS)}
             for name, kind in kinds(IDENTITY["rows"]).items()}
    about = {"date": "2026-01-02", "machine": ABOUT, "rounds": 3, "settings": {}, "seconds": 60}
    return {"identity": IDENTITY | more, "cells": cells, "about": about}


class Texts(unittest.TestCase):
    def test_the_same_each_time_and_seldom_twice(self):
        for family in texts.FAMILIES:
            first = list(texts.strings(family, 5000))
            self.assertEqual(first, list(texts.strings(family, 5000)))
            self.assertEqual(first[:100], list(texts.strings(family, 100)))
            self.assertGreater(len(set(first)), 4500, family)

    def test_they_can_be_copied_and_are_no_variables(self):
        for one in itertools.chain.from_iterable(texts.strings(family, 5000) for family in texts.FAMILIES):
            self.assertNotRegex(one, r"[\t\n\\]|:[A-Za-z_]|^$")

    def test_a_few_names_have_accents(self):
        names = list(texts.strings("names", 5000))
        share = sum(not name.isascii() for name in names) / len(names)
        self.assertTrue(0.01 < share < 0.1, share)

    def test_many_begin_alike(self):
        paths = list(texts.strings("paths", 5000))
        self.assertGreater(sum(one.startswith("/usr/share/doc/") for one in paths), 500)


class Kinds(unittest.TestCase):
    def test_what_there_is(self):
        there_are = kinds(1000)
        self.assertEqual(len(there_are), 49)
        self.assertEqual(len({kind.title for kind in there_are.values()}), 49)
        self.assertEqual({name for name, kind in there_are.items() if kind.like},
                         {f"{family}_c" for family in texts.FAMILIES} | {"emails_include"})

    def test_every_column_has_one_task(self):
        columns = [column for task in TASKS for column in task.columns] + [task.column for task in RESTARTS]
        self.assertEqual(sorted(columns), sorted(COLUMNS))

    def test_a_wrong_name_gives_the_list(self):
        with self.assertRaisesRegex(Failure, "no column named nothing; there are size, grown"):
            matrix.chosen(["size", "nothing"], COLUMNS, "column")
        self.assertEqual(matrix.chosen(["build", "size"], COLUMNS, "column"), ["size", "build"])
        self.assertEqual(matrix.chosen([], COLUMNS, "column"), list(COLUMNS))


class Cells(unittest.TestCase):
    def test_the_median_of_the_rounds_ratios_and_their_ends(self):
        self.assertEqual([FAST[key] for key in ("state", "ratio", "low", "high", "fpbtree", "btree")],
                         [MEASURED, 0.75, 0.5, 1.0, 2.0, 2.0])

    def test_a_round_where_one_takes_nothing_does_not_count(self):
        found = cell({"fpbtree": [1, 1, 1, -1, 3], "btree": [2, -1, 4, 4, 8]}, "ms")
        self.assertEqual((found["ratio"], found["low"], found["high"]), (0.375, 0.25, 0.5))
        self.assertEqual(cell({"fpbtree": [1, 1], "btree": [0, 2]}, "ms")["state"], IMPOSSIBLE)

    def test_failures(self):
        self.assertEqual(failed_cell(WrongPlan("no scan")), {"state": IMPOSSIBLE, "why": "no scan"})
        self.assertEqual(failed_cell(Failure("it\nhung"))["state"], BROKEN)
        self.assertLess(len(failed_cell(Failure("x" * 1000))["why"]), 310)


class Resuming(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def open(self, **more):
        return State.open(self.directory.name, IDENTITY | more)

    def test_cells_are_kept(self):
        self.open().put("int4", "size", SLOW)
        self.assertEqual(self.open().cells, {"int4": {"size": SLOW}})
        self.assertEqual(self.open().missing("int4", ["size", "build"]), ["build"])

    def test_what_was_left_out_or_broke_is_tried_again(self):
        state = self.open()
        for column, content in (("size", LEFT_OUT), ("build", BROKEN), ("probe", IMPOSSIBLE)):
            state.put("int4", column, {"state": content, "why": "…"})
        self.assertEqual(self.open().missing("int4", ["size", "build", "probe"]), ["size", "build"])

    def test_another_commit_starts_anew_and_does_away_with_nothing(self):
        self.open().put("int4", "size", SLOW)
        for other in ({"commit": "f" * 40}, {"dirty": "1"}, {"mode": "quick"}, {"rows": 7}, {"cpu": "B"}):
            self.assertEqual(self.open(**other).cells, {})
        other = self.open(commit="f" * 40)
        other.put("int4", "build", FAST)
        self.assertEqual(self.open().cells, {"int4": {"size": SLOW}})
        self.assertEqual(self.open(commit="f" * 40).cells, {"int4": {"build": FAST}})

    def test_a_file_that_is_none_of_ours(self):
        with open(os.path.join(self.directory.name, "matrix.json"), "w", encoding="ascii") as out:
            out.write("{")
        self.assertEqual(self.open().cells, {})

    def test_forgetting_takes_only_what_is_named(self):
        state = self.open()
        for column in ("size", "build"):
            state.put("int4", column, SLOW)
        state.forget(["int4", "bool"], ["size"])
        self.assertEqual(list(state.cells["int4"]), ["build"])

    def test_what_a_run_has_to_do(self):
        state = self.open()
        state.put("emails_c", "size", SLOW)
        run = Run(state, ["emails_c", "int4"], ["size", "like"])
        self.assertEqual(run.todo, {"emails_c": ["like"], "int4": ["size"]})

    def test_without_rights(self):
        run = Run(self.open(), ["int4"], ["size", "cold"])
        with mock.patch.object(matrix, "can_forget", lambda: False):
            run.without_rights()
        self.assertEqual(run.todo, {"int4": ["size"]})
        self.assertEqual(run.state.cells["int4"]["cold"]["state"], LEFT_OUT)


class Restarts(unittest.TestCase):
    LOG = """100.500 LOG:  database system was not properly shut down
100.600 LOG:  redo starts at 0/1000
100.602 LOG:  redo in progress, elapsed time: 0.00 s, current LSN: 0/2000
100.610 LOG:  redo done at 1/0 system usage: CPU: user: 0.01 s, elapsed: 0.01 s
"""

    def test_when_redo_was_where(self):
        points = redo_points(self.LOG)
        self.assertEqual([position for position, _ in points], [0x1000, 0x2000, 1 << 32])
        began = at(points, 0x1000)
        for position, after in ((0x1800, 1), (0x2000, 2), (1 << 32, 10), (0, 0), (1 << 40, 10)):
            self.assertAlmostEqual(at(points, position) - began, after, places=3)

    def test_orders_alternate(self):
        rounds = [turns(["a", "b"], METHODS, number) for number in range(4)]
        self.assertEqual(rounds[0][:2], [("a", "fpbtree"), ("a", "btree")])
        self.assertEqual(rounds[1][:2], [("a", "btree"), ("a", "fpbtree")])
        self.assertEqual(rounds[2], rounds[0][::-1])
        self.assertTrue(all(sorted(one) == sorted(rounds[0]) for one in rounds))


class Shown(unittest.TestCase):
    def part(self):
        shown = whole()
        shown["cells"] = {"int4": {"size": SLOW, "probe": FAST, "like": {"state": IMPOSSIBLE, "why": "no <scan>"}},
                          "bool": {"probe": {"state": BROKEN, "why": "the server\ngave up"}}}
        return shown

    def test_the_page(self):
        content = reports.content(ABOUT, [], [], [], [], "", self.part())
        before = copy.deepcopy(content)
        root = ElementTree.fromstring(page(content).removeprefix("<!DOCTYPE html>"))
        self.assertEqual(content, before)
        [table] = [one for one in root.iter("table") if one.get("class") == "matrix"]
        classes = {"".join(one.itertext()): one.get("class") for one in table.iter("td")}
        self.assertEqual(classes, {"1.10": "more", "0.750.50–1.00": "less", "– [1]": "none", "– [2]": "none", "": None})
        self.assertIn("fpbtree 2.0 ms, btree 2.0 ms; rounds 0.50–1.00", [one.get("title") for one in table.iter("td")])
        self.assertIn("no <scan>", [one.text for one in root.iter("li")])
        self.assertIn("#matrix", [one.get("href") for one in root.iter("a")])
        self.assertTrue(reports.failed(content))

    def test_markdown(self):
        told = matrix_page.markdown(self.part())
        self.assertIn("|  | size, built | probe | LIKE |", told)
        self.assertIn("| int4, random | **1.10** | 0.75 (0.50–1.00) | – [1] |", told)
        self.assertIn("| bool |  | – [2] |  |", told)
        self.assertIn("[1] no <scan>.", told)
        self.assertIn("[2] broken: the server gave up.", told)
        self.assertIn("2 cells are measured, 1 of them above 1.02; 2 could not be.", told)

    def test_what_rounds_to_the_limit_is_not_above_it(self):
        self.assertEqual([matrix_page.above({"ratio": ratio}) for ratio in (1.02, 1.0249, 1.0251)], [False, False, True])


class Readme(unittest.TestCase):
    def test_only_what_is_between_the_marks(self):
        told = matrix_page.readme("before\n<!-- matrix -->\nold\n<!-- /matrix -->\nafter\n", whole())
        self.assertTrue(told.startswith("before\n<!-- matrix -->\n"))
        self.assertTrue(told.endswith("\n<!-- /matrix -->\nafter\n"))
        self.assertNotIn("old\n", told)
        for words in (*matrix_page.HEADLINE.values(), "0.75 <sub>0.50–1.00</sub>", "0123456789", "2026-01-02"):
            self.assertIn(words, told)
        self.assertEqual(matrix_page.readme(told, whole()), told)
        with self.assertRaisesRegex(Failure, "has not one"):
            matrix_page.readme("nothing", whole())

    def test_only_a_complete_full_run_of_one_commit(self):
        self.assertEqual(matrix_page.lacking(whole()), "")
        self.assertIn("full", matrix_page.lacking(whole(mode="quick")))
        self.assertIn("full", matrix_page.lacking(whole(rows=5)))
        self.assertIn("commit", matrix_page.lacking(whole(dirty="1")))
        self.assertIn("commit", matrix_page.lacking(whole(commit="")))
        for column in ("size", "cold"):
            some = whole()
            some["cells"]["bool"][column] = {"state": LEFT_OUT, "why": "…"}
            self.assertIn(f"1 cells are not measured, the first of them bool {column}", matrix_page.lacking(some))

    def test_the_headline_is_of_kinds_and_columns_that_there_are(self):
        self.assertLessEqual(set(matrix_page.HEADLINE), set(kinds(1000)))
        self.assertLessEqual(set(matrix_page.HEADLINE_COLUMNS), set(COLUMNS))
        self.assertEqual(len(matrix_page.HEADLINE), 5)


if __name__ == "__main__":
    unittest.main()
