"""Tests of the day: what its scripts say, and what is made of pgbench's log."""

import os
import tempfile
import unittest

import bulk
import day
from figures import FIGURES


class Day(unittest.TestCase):
    def test_scripts_have_no_name_left(self):
        for name, (_, script) in day.SCRIPTS.items():
            text = day.filled(script, table="t", rows=100, customers=5)
            for word in ("{table}", "{rows}", "{customers}"):
                self.assertNotIn(word, text, name)
            self.assertIn("t", text)
        self.assertIn("{alice,", day.filled(day.ROW, customers=5))

    def test_a_minute_has_its_transactions(self):
        with tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "day_fpbtree")
            for number, lines in (("17", ["0 1 2500 0 1000 7", "0 2 500 1 1059 7", "1 1 9000 0 1060 1"]),
                                  ("17.1", ["2 1 1500 0 1001 7", "2 2 1500 0 1200 7"])):
                with open(f"{log}.{number}", "w", encoding="ascii") as file:
                    file.writelines(f"{line}\n" for line in lines)
            self.assertEqual(day.by_minute(log, 1000, 3), [[0.5, 1.5, 2.5], [9.0], []])

    def test_percentiles(self):
        values = list(range(1, 101))
        self.assertEqual([day.percentile(values, share) for share in (0.01, 0.5, 0.99, 1)], [1, 50, 99, 100])
        self.assertEqual(day.percentile([7], 0.99), 7)

    def test_each_figure_asks_for_its_own(self):
        asked = {}

        class Bench:
            @staticmethod
            def keep(key, _):
                asked[key] = True
                return {"MB": {"fpbtree": {1: [3]}}, "tps": {"fpbtree": {1: [2]}}, "ms": {"fpbtree": {1: [1]}}}
        found = {name: FIGURES[name].measure(Bench) for name in ("day_size", "day_tps", "day_p99")}
        self.assertEqual(found, {"day_size": {"fpbtree": {1: [3.0]}}, "day_tps": {"fpbtree": {1: [2.0]}},
                                 "day_p99": {"fpbtree": {1: [1.0]}}})
        self.assertEqual(list(asked), ["day"])


class Bulk(unittest.TestCase):
    def test_each_figure_measures_its_own(self):
        kept = []

        class Bench:
            @staticmethod
            def keep(key, _):
                kept.append(key)
                return {"ms": key, "bytes": f"{key} bytes"}
        for kind in bulk.KINDS:
            self.assertEqual(FIGURES[f"bulk_{kind}"].measure(Bench), ("bulk", kind, False))
            self.assertEqual(FIGURES[f"bulk_{kind}_cold"].measure(Bench), ("bulk", kind, True))
            self.assertEqual(FIGURES[f"bulk_{kind}_wal"].measure(Bench), f"{('bulk', kind, False)} bytes")
        self.assertEqual(len(kept), 3 * len(bulk.KINDS))


if __name__ == "__main__":
    unittest.main()
