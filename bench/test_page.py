"""Tests of the report: the page, its data and its Markdown, of outcomes made by hand."""

import copy
import re
import unittest
from xml.etree import ElementTree

import report as reports
from measure import Graph, Result
from page import by_paper, number_of, page

ABOUT = {"full": False, "date": "2026-01-02", "seconds": 90, "cpu": "A <fast> CPU", "cores": 2, "caches": ["L1d 32K"],
         "memory_mb": 2048, "huge_pages": "never", "kernel": "6.1", "compiler": "rustc 1.95"}
SERVER = {"postgresql": "15.1", "rows": 1000, "rounds": 3, "settings": {"jit": "off"},
          "default_effective_io_concurrency": "1"}
CHART = {"kind": "chart", "title": "Time & keys", "x": {"label": "keys", "log": True}, "y": {"label": "ns", "log": False},
         "series": [{"name": "<a>", "points": [[10, 1.5], [100, None]]}, {"name": "empty", "points": []}]}
BARS = {"kind": "bars", "title": "Bars", "groups": ["8 KB"], "y": {"label": "ns", "log": False}, "series": [["a", [2]]]}
TABLE = {"kind": "table", "title": "Widths", "heading": ["page", "bytes"], "rows": [["4 KB", "a | b"]]}


def claim(what, holds, goal="", paper=""):
    return {"what": what, "paper": paper, "goal": goal, "ours": "1.5 ×", "holds": holds, "why": f"Because of {what}."}


def outcome(name, *claims, panels=(), **more):
    return {"name": name, "title": f"<Title> of {name}", "source": "A paper", "seconds": 3.2, "panels": list(panels),
            "claims": list(claims)} | more


def result(name="probe", fpbtree=(1.0, 2.0, 3.0), target=0.5, **more):
    return Result(name, "looking up <keys>", "ms", list(fpbtree), [10.0, 10.0, 10.0], target=target, **more)


GRAPH = Graph("by_range", "by rows", "rows", {"fpbtree": {10: [1.0, 2.0], 100: [3.0]}, "btree": {10: [4.0], 100: [9.0]}},
              "small & large")


def report(lab=(), results=(), left_out=(), only_full=(), error=""):
    about = ABOUT | (SERVER if results else {})
    return reports.content(about, list(lab), list(results), left_out, only_full, error)


def parsed(content):
    return ElementTree.fromstring(page(content).removeprefix("<!DOCTYPE html>"))


def words(element):
    return " ".join("".join(element.itertext()).split())


class Page(unittest.TestCase):
    LAB = (outcome("fpb-figure10", claim("a < b & c", True, goal="≥ 1 ×"), panels=[CHART, BARS, TABLE]),
           outcome("kiss", claim("missed <b>", False, goal="≥ 2 ×"), claim("agreed", True, paper="3")),
           outcome("thesis-figure5.1", error="thread 'main' panicked: 1 < 2"))

    def test_well_formed_and_self_contained(self):
        whole = report(self.LAB, [result(), result("range", target=None), GRAPH])
        root = parsed(whole)
        self.assertEqual(len([one for one in root.iter() if one.tag.endswith("svg")]), 3)
        self.assertEqual([one for one in root.iter() if one.tag in ("script", "link", "img", "iframe")], [])
        self.assertEqual(re.findall(r'(?:src|href)="(?!#)|url\(|@import', page(whole)), [])
        self.assertIn("width=device-width", page(whole))
        self.assertIn("A <fast> CPU", words(root))
        self.assertIn("a < b & c", words(root))

    def test_every_link_leads_somewhere_and_no_place_is_twice(self):
        root = parsed(report(self.LAB, [result(), result("range", fpbtree=(9.0,)), GRAPH]))
        ids = [one.get("id") for one in root.iter() if one.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        links = [one.get("href") for one in root.iter("a")]
        self.assertGreater(len(links), 8)
        self.assertEqual([link for link in links if link.removeprefix("#") not in ids], [])

    def test_the_summary_counts(self):
        told = words(parsed(report(self.LAB, [result(), result("range", fpbtree=(9.0,))])))
        self.assertIn("2 of 4 goals are met, 2 missed. 1 of 1 other numbers of the papers agree", told)
        self.assertIn("✗ missed: missed <b>", told)
        self.assertIn("goal ≤ 0.50 of btree · here 0.90", told)
        self.assertIn("Broke off: thesis-figure5.1.", told)
        self.assertIn("thread 'main' panicked: 1 < 2", told)

    def test_a_claim_is_told_whole(self):
        told = words(parsed(report(self.LAB)))
        self.assertIn("✓ agrees: agreed", told)
        self.assertIn("<Title> of kiss", told)
        self.assertIn("✗ differs: differed", words(parsed(report([outcome("a", claim("differed", False, paper="3"))]))))
        self.assertIn("paper 3 · here 1.5 × Because of agreed.", told.replace("×Because", "× Because"))

    def test_parts_alone(self):
        self.assertNotIn("in PostgreSQL", words(parsed(report(self.LAB))))
        self.assertIn("in PostgreSQL", words(parsed(report((), [result()]))))
        parsed(report())
        self.assertIn("broke off: the server gave up", words(parsed(report(error="the server gave up"))))

    def test_papers_in_order(self):
        groups = by_paper([outcome("own-sort"), outcome("kiss-figure5"), outcome("fpb-table2")])
        self.assertEqual(list(groups), ["fpb", "kiss", "own"])
        self.assertEqual([number_of(name) for name in ("fpb-figure10", "thesis-table6.1", "own-sort")],
                         ["Figure 10", "Table 6.1", "own-sort"])


class Content(unittest.TestCase):
    def test_failures(self):
        self.assertFalse(reports.failed(report([outcome("a")], [result()])))
        self.assertTrue(reports.failed(report([outcome("a", error="")])))
        self.assertTrue(reports.failed(report(error="broke")))

    def test_what_is_left_out_is_told(self):
        whole = report((), [result()], left_out=[result("cold")], only_full=[result("growth")])
        for text in (reports.markdown(whole), words(parsed(whole))):
            self.assertIn("only root can empty the system's cache: cold.", text)
            self.assertIn("because this is a quick run: growth.", text)

    def test_markdown(self):
        lab = outcome("fpb-figure10", claim("one | two", False, goal="≥ 1 ×"))
        text = reports.markdown(report([lab, outcome("kiss-figure5", error="it hung")], [result(), GRAPH]))
        self.assertIn("| probe | looking up <keys> | 2.0 ms (1.00 ms – 3.0 ms) | 10.0 ms (10.0 ms – 10.0 ms) | 0.20 | ≤ 0.50 | met |",
                      text)
        self.assertIn("| rows | fpbtree | btree |\n|---|---|---|\n| 10 | 1.50 ms | 4.0 ms |", text)
        self.assertIn(r"| fpb-figure10 | one \| two |  | ≥ 1 × | 1.5 × | missed | Because of one \| two. |", text)
        self.assertIn("kiss-figure5 broke off: it hung", text)

    def test_a_graph_becomes_a_chart_of_medians(self):
        chart = reports.chart_of(GRAPH.as_dict())
        self.assertEqual(chart["series"][0], {"name": "fpbtree", "points": [[10, 1.5], [100, 3.0]]})

    def test_the_page_leaves_the_data_alone(self):
        whole = report(Page.LAB, [result(), GRAPH])
        before = copy.deepcopy(whole)
        page(whole)
        self.assertEqual(whole, before)


if __name__ == "__main__":
    unittest.main()
