"""Tests of charts: axes, what has no place on them, and that they are well-formed."""

import math
import unittest
from xml.etree import ElementTree

from plot import (DARK, LIGHT, MARKERS, WIDTH, Axis, bars, fitted, legend, lines, marker, nice_above, nice_below,
                  number, short, standalone)

SVG = "{http://www.w3.org/2000/svg}"


def chart(*series, x_log=False, y_log=False, title="Title"):
    """A line chart of (name, points)."""
    return {"title": title, "x": {"label": "keys", "log": x_log}, "y": {"label": "ns", "log": y_log},
            "series": [{"name": name, "points": points} for name, points in series]}


def bar_chart(groups, *series, log=False):
    return {"title": "Bars", "groups": groups, "y": {"label": "ns", "log": log}, "series": list(series)}


def parsed(svg):
    return ElementTree.fromstring(svg)


def polylines(svg):
    """The points of the series' lines; the grid's have no colour of their own."""
    found = [one for one in parsed(svg).iter(f"{SVG}polyline") if one.get("stroke") == "currentColor"]
    return [[tuple(map(float, point.split(","))) for point in one.get("points").split()] for one in found]


def texts(svg):
    return [one.text for one in parsed(svg).iter(f"{SVG}text")]


class Axes(unittest.TestCase):
    def test_round_numbers(self):
        self.assertEqual([nice_below(value) for value in (1, 4.9, 5, 99, 0.03, 1000)], [1, 2, 5, 50, 0.02, 1000])
        self.assertEqual([nice_above(value) for value in (1, 2.1, 5.1, 0.3, 1000)], [1, 5, 10, 0.5, 1000])

    def test_linear_from_zero(self):
        axis = Axis([37, 412], False, 100, 0, from_zero=True)
        self.assertEqual(axis.ticks, [0, 100, 200, 300, 400, 500])
        self.assertEqual((axis.place(0), axis.place(250), axis.place(500)), (100, 50, 0))

    def test_log_holds_all_values_and_is_even(self):
        axis = Axis([3, 70_000], True, 0, 100)
        self.assertLessEqual(axis.place(3), axis.place(10))
        self.assertTrue(all(0 <= axis.place(value) <= 100 for value in (3, 70_000)))
        self.assertAlmostEqual(axis.place(100) - axis.place(10), axis.place(10_000) - axis.place(1_000))
        self.assertTrue(all(math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9) for tick in axis.ticks), axis.ticks)

    def test_log_of_one_decade_has_ticks_between(self):
        self.assertEqual(Axis([2, 17], True, 0, 100).ticks, [2, 5, 10, 20])

    def test_all_values_equal(self):
        for log in (False, True):
            for value in (0.25, 1, 7, 1000):
                axis = Axis([value] * 3, log, 0, 100)
                self.assertTrue(0 <= axis.place(value) <= 100, (log, value))
                self.assertGreater(len(axis.ticks), 1)
        self.assertEqual(Axis([0, 0], False, 0, 100).place(0), 0)

    def test_no_values(self):
        for log in (False, True):
            self.assertGreater(len(Axis([], log, 0, 100).ticks), 1)

    def test_negative_values(self):
        axis = Axis([-30, 20], False, 0, 100, from_zero=True)
        self.assertTrue(0 <= axis.place(-30) < axis.place(0) < axis.place(20) <= 100)

    def test_tight_ends_are_the_values(self):
        axis = Axis([4, 8, 16, 32], True, 0, 90, tight=True)
        self.assertEqual([round(axis.place(value)) for value in (4, 8, 16, 32)], [0, 30, 60, 90])


class Words(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([number(value) for value in (0, 12_345.6, 12.34, 1.234, 0.1234, 0.00001234, -3.5)],
                         ["0", "12,346", "12.3", "1.23", "0.123", "1.23e-05", "-3.50"])
        self.assertEqual([short(value) for value in (0.5, 4000, 10_000, 300_000, 1e7, 2e9)],
                         ["0.5", "4000", "10 k", "300 k", "10 M", "2 G"])

    def test_what_does_not_fit_is_cut(self):
        self.assertEqual(fitted("short", 100), "short")
        self.assertTrue(fitted("x" * 100, 100).endswith("…"))
        self.assertLess(len(fitted("x" * 100, 100)), 20)


class Lines(unittest.TestCase):
    def test_a_line_and_a_marker_a_series(self):
        svg = lines(chart(("a", [[1, 5], [2, 7]]), ("b", [[1, 6], [2, 3]])))
        (a, b) = polylines(svg)
        self.assertEqual((len(a), len(b)), (2, 2))
        self.assertGreater(a[0][1], a[1][1], "more is further up")
        self.assertLess(b[0][1], b[1][1])
        self.assertEqual(len(list(parsed(svg).iter(f"{SVG}path"))), 2 * 2 + 2, "of points and of the legend")

    def test_what_has_no_place_is_left_out(self):
        points = [[0, 5], [10, 0], [10, None], [10, float("nan")], [10, 5], [100, 50]]
        self.assertEqual([len(line) for line in polylines(lines(chart(("a", points), x_log=True, y_log=True)))], [2])

    def test_empty_series(self):
        for log in (False, True):
            self.assertEqual(polylines(lines(chart(("none", []), x_log=log, y_log=log))), [[]])
            self.assertEqual(polylines(lines(chart(x_log=log, y_log=log))), [])

    def test_words_are_escaped(self):
        name = 'a < b & "c"'
        svg = lines(chart((name, [[1, 1]]), title=name))
        self.assertIn(name, texts(svg))
        self.assertEqual(parsed(svg).get("aria-label"), name)

    def test_places_of_points_are_marked(self):
        self.assertTrue({"4", "8", "16", "32"} <= set(texts(lines(chart(("a", [[4, 1], [8, 2], [16, 3], [32, 4]]), x_log=True)))))


class Legends(unittest.TestCase):
    def test_names_do_not_overlap(self):
        names = [f"a structure of some name {number}" for number in range(12)]
        parts, height = legend(names, marker)
        spots = [(float(one.get("x")), float(one.get("y")), one.text)
                 for one in parsed(f"<g>{''.join(parts)}</g>").iter("text")]
        rows = {}
        for x, y, words in spots:
            self.assertGreaterEqual(x, rows.get(y, 0))
            rows[y] = x + 6 * len(words)
            self.assertLessEqual(rows[y], WIDTH)
        self.assertGreater(len(rows), 3)
        self.assertGreater(height, max(rows))

    def test_no_two_series_look_the_same(self):
        looks = {(series % len(LIGHT), marker(series, 0, 0).split('"')[1]) for series in range(24)}
        self.assertEqual(len(looks), 24)
        self.assertEqual((len(LIGHT), len(set(LIGHT)), len(set(DARK)), len(set(MARKERS))), (8, 8, 8, 8))


class Bars(unittest.TestCase):
    def widths(self, svg):
        return [float(one.get("width")) for one in parsed(svg).iter(f"{SVG}rect") if one.get("height") == "13"]

    def test_lengths_are_the_values(self):
        first, second = self.widths(bars(bar_chart(["8 KB", "32 KB"], ["a", [10, 20]])))
        self.assertAlmostEqual(2 * first, second, delta=0.2)

    def test_values_are_told(self):
        words = texts(bars(bar_chart(["g & h"], ["a", [12.5]], ["b", [None]])))
        self.assertTrue({"12.5", "–", "g & h", "a", "b"} <= set(words), words)

    def test_log_and_what_has_no_place(self):
        widths = self.widths(bars(bar_chart(["g"], ["a", [1]], ["b", [100]], ["c", [0]], ["d", [float("inf")]], log=True)))
        self.assertEqual(widths[2:], [0, 0])
        self.assertLess(widths[0], widths[1])

    def test_empty(self):
        for log in (False, True):
            parsed(bars(bar_chart([], log=log)))
            parsed(bars(bar_chart(["g"], ["a", [None]], log=log)))


class Files(unittest.TestCase):
    def test_a_file_brings_its_colours(self):
        svg = parsed(standalone(lines(chart(("a", [[1, 5], [2, 7]])))))
        self.assertIn("--s0", svg.find(f"{SVG}style").text)
        self.assertEqual(svg.find(f"{SVG}rect").get("width"), "100%")


if __name__ == "__main__":
    unittest.main()
