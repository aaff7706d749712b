"""Tests of charts: axes, what has no place on them, legends, and that they are well-formed and the same each time."""

import math
import unittest
import warnings
from xml.etree import ElementTree

from matplotlib.colors import same_color

from plot import DARK, MARKERS, NAMES, SERIES, WIDTH, bars, embedded, lines, look, number, short, standalone

SVG = "{http://www.w3.org/2000/svg}"


def chart(*series, x_log=False, y_log=False, title="Title"):
    """A line chart of (name, points)."""
    return {"kind": "chart", "title": title, "x": {"label": "keys", "log": x_log}, "y": {"label": "ns", "log": y_log},
            "series": [{"name": name, "points": points} for name, points in series]}


def bar_chart(groups, *series, log=False):
    return {"kind": "bars", "title": "Bars", "groups": groups, "y": {"label": "ns", "log": log}, "series": list(series)}


def parsed(svg):
    return ElementTree.fromstring(svg)


def texts(svg):
    return [one.text for one in parsed(svg).iter(f"{SVG}text")]


def points(figure):
    """The points of the series' lines."""
    return [[tuple(point) for point in line.get_xydata()] for line in figure.axes[0].get_lines()]


def drawn(figure):
    """The axes, once they are laid out."""
    figure.draw_without_rendering()
    return figure.axes[0]


def marks(axis):
    """The numbers that are seen beside an axis."""
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_ticklocs() if low <= tick <= high]


class Axes(unittest.TestCase):
    def y_axis(self, *values, log=False):
        axes = drawn(lines(chart(("a", list(enumerate(values, 1))), y_log=log)))
        return axes.yaxis, axes.get_ylim()

    def test_linear_from_zero(self):
        axis, ends = self.y_axis(37, 412)
        self.assertEqual(marks(axis), [0, 100, 200, 300, 400])
        self.assertEqual((axis.get_scale(), ends[0]), ("linear", 0))
        self.assertGreater(ends[1], 412)

    def test_log_holds_all_values_and_is_even(self):
        axis, (low, high) = self.y_axis(3, 70_000, log=True)
        self.assertTrue(low <= 3 < 70_000 <= high)
        self.assertEqual((axis.get_scale(), marks(axis)[:4]), ("log", [10, 100, 1_000, 10_000]))
        height = [axis.axes.transData.transform((1, value))[1] for value in (10, 100, 1_000, 10_000)]
        self.assertAlmostEqual(height[1] - height[0], height[3] - height[2])
        across = drawn(lines(chart(("a", [[value, 1] for value in (3, 5, 7, 11, 70_000)]), x_log=True))).xaxis
        self.assertEqual({round(math.log10(tick), 9) % 1 for tick in marks(across)}, {0})

    def test_log_of_one_decade_has_ticks_between(self):
        axis, ends = self.y_axis(2, 17, log=True)
        self.assertEqual(marks(axis), [2, 3, 5, 7, 10])
        self.assertTrue(ends[0] <= 2 < 17 <= ends[1])

    def test_all_values_equal(self):
        for log in (False, True):
            for value in (0.25, 1, 7, 1000):
                axis, (low, high) = self.y_axis(*[value] * 3, log=log)
                self.assertTrue(low <= value <= high, (log, value))
                self.assertGreater(len(marks(axis)), 1, (log, value))
        self.assertEqual(self.y_axis(0, 0)[1][0], 0)

    def test_no_values(self):
        for log in (False, True):
            self.assertGreater(len(marks(self.y_axis(log=log)[0])), 1)

    def test_negative_values(self):
        _, (low, high) = self.y_axis(-30, 20)
        self.assertTrue(low <= -30 < 20 <= high)

    def test_ends_are_near_the_values(self):
        low, high = drawn(lines(chart(("a", [[value, 1] for value in (4, 8, 16, 32)]), x_log=True))).get_xlim()
        self.assertTrue(3.5 < low <= 4 and 32 <= high < 37, (low, high))


class Words(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([number(value) for value in (0, 12_345.6, 12.34, 1.234, 0.1234, 0.00001234, -3.5)],
                         ["0", "12,346", "12.3", "1.23", "0.123", "1.23e-05", "-3.50"])
        self.assertEqual([short(value) for value in (0.5, 4000, 10_000, 300_000, 1e7, 2e9)],
                         ["0.5", "4000", "10 k", "300 k", "10 M", "2 G"])

    def test_they_are_in_the_picture(self):
        words = texts(embedded(chart(("a", [[100, 50_000], [10_000, 20_000]]), x_log=True)))
        self.assertTrue({"100", "10 k", "20 k", "50 k", "keys", "ns", "a"} <= set(words), words)


class Lines(unittest.TestCase):
    def test_a_line_and_a_marker_a_series(self):
        both = chart(("a", [[1, 5], [2, 7]]), ("b", [[1, 6], [2, 3]]))
        figure = lines(both)
        self.assertEqual(points(figure), [[(1, 5), (2, 7)], [(1, 6), (2, 3)]])
        self.assertTrue(all(drawn(figure).transData.transform((2, 7)) > figure.axes[0].transData.transform((1, 5))),
                        "more is further up, and further to the right")
        svg = embedded(both)
        self.assertEqual(len(list(parsed(svg).iter(f"{SVG}use"))), 2 * 2 + 2, "of points and of the legend")

    def test_what_has_no_place_is_left_out(self):
        some = [[0, 5], [10, 0], [10, None], [10, float("nan")], [10, 5], [None, 5], [100, 50]]
        self.assertEqual(points(lines(chart(("a", some), x_log=True, y_log=True))), [[(10, 5), (100, 50)]])

    def test_empty_series(self):
        for log in (False, True):
            self.assertEqual(points(lines(chart(("none", []), x_log=log, y_log=log))), [[]])
            self.assertEqual(points(lines(chart(x_log=log, y_log=log))), [])

    def test_words_are_escaped(self):
        name = 'a < b & "c"'
        svg = embedded(chart((name, [[1, 1]]), title=name))
        self.assertIn(name, texts(svg))
        self.assertEqual(parsed(svg).get("aria-label"), name)

    def test_places_of_points_are_marked(self):
        axes = drawn(lines(chart(("a", [[4, 1], [8, 2], [16, 3], [32, 4]]), x_log=True)))
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["4", "8", "16", "32"])
        crowded = drawn(lines(chart(("a", [[value, 1] for value in range(100, 200)]))))
        self.assertLess(len(marks(crowded.xaxis)), 10)
        near = drawn(lines(chart(("a", [[value, 1] for value in (1000, 1001, 2000)]))))
        self.assertNotIn(1001, marks(near.xaxis))


class Legends(unittest.TestCase):
    def test_names_do_not_overlap(self):
        for names in ([f"a structure of some name {at}" for at in range(12)], [*"abcde"], ["long " * 20, "short"]):
            figure = lines(chart(*((name, [[1, 1], [2, 2]]) for name in names)))
            axes = drawn(figure)
            boxes = [one.get_window_extent() for one in axes.get_legend().get_texts()]
            self.assertEqual([one.get_text().replace("\n", " ").strip() for one in axes.get_legend().get_texts()],
                             [name.strip() for name in names])
            self.assertFalse(any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at]))
            frame = axes.get_window_extent()
            self.assertTrue(all(box.x1 <= WIDTH * figure.dpi and box.y0 > frame.y1 for box in boxes), names)
            self.assertTrue(all(box.y1 <= figure.bbox.y1 for box in boxes), names)
            self.assertGreater(frame.height, 1.5 * figure.dpi, "room for the lines")

    def test_a_name_has_its_lines_look(self):
        axes = lines(chart(("a", [[1, 1]]), ("b", [[1, 2]]))).axes[0]
        for line, shown in zip(axes.get_lines(), axes.get_legend().get_lines()):
            self.assertEqual((line.get_color(), line.get_marker()), (shown.get_color(), shown.get_marker()))

    def test_no_two_series_look_the_same(self):
        self.assertEqual(len({tuple(look(series).values()) for series in range(24)}), 24)
        self.assertEqual((len(SERIES), len(set(SERIES)), len(set(DARK)), len(set(MARKERS))), (8, 8, len(NAMES), 8))


class Bars(unittest.TestCase):
    def test_lengths_are_the_values(self):
        [axes] = bars(bar_chart(["8 KB", "32 KB"], ["a", [10, 20]])).axes
        self.assertEqual(axes.get_xlabel(), "ns")
        self.assertEqual([(bar.get_x(), bar.get_width()) for bar in axes.patches], [(0, 10), (0, 20)])
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["8 KB", "32 KB"])

    def test_groups_and_series_are_beside_one_another(self):
        axes = drawn(bars(bar_chart(["g", "h"], ["a", [1, 2]], ["b", [3, 4]])))
        boxes = [bar.get_window_extent() for bar in axes.patches]
        a_g, a_h, b_g, b_h = (box.y0 for box in boxes)
        self.assertTrue(a_g > b_g > a_h > b_h, "from top to bottom")
        self.assertFalse(any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at]))
        self.assertTrue(same_color(axes.patches[0].get_facecolor(), axes.patches[1].get_facecolor()))
        self.assertFalse(same_color(axes.patches[0].get_facecolor(), axes.patches[2].get_facecolor()))
        self.assertEqual([one.get_text() for one in axes.get_legend().get_texts()], ["a", "b"])
        self.assertIsNone(bars(bar_chart(["g"], ["a", [1]])).axes[0].get_legend())

    def test_values_are_told(self):
        words = texts(embedded(bar_chart(["g & h"], ["a", [12.5]], ["b", [None]])))
        self.assertTrue({"12.5", "–", "g & h", "a", "b"} <= set(words), words)

    def test_log_and_what_has_no_place(self):
        [axes] = bars(bar_chart(["g"], ["a", [1]], ["b", [100]], ["c", [0]], ["d", [float("inf")]], log=True)).axes
        widths = [bar.get_width() for bar in axes.patches]
        self.assertEqual(widths[2:], [0, 0])
        self.assertLess(widths[0], widths[1])


class Files(unittest.TestCase):
    CHART = chart(("a", [[1, 5], [2, 7]]), title="A title that is longer than a line of the picture has room for")

    def test_a_file_brings_its_colours_and_its_title(self):
        svg = standalone(self.CHART)
        self.assertIn("#0072b2", svg)
        self.assertNotIn("var(", svg)
        self.assertEqual(" ".join(" ".join(texts(svg)).split()[-14:]), self.CHART["title"])

    def test_a_part_of_the_page_has_the_pages_colours(self):
        svg = embedded(self.CHART)
        self.assertTrue(all(f"var({NAMES[colour]})" in svg for colour in (*NAMES,)[:4]))
        self.assertNotRegex(svg, "#[0-9a-f]{6};")

    def test_no_name_is_on_two_charts(self):
        names = [{one.get("id") for one in parsed(embedded(some)).iter() if one.get("id")}
                 for some in (self.CHART, self.CHART | {"title": "Another"})]
        self.assertTrue(names[0] and names[1])
        self.assertFalse(names[0] & names[1])

    def test_the_same_each_time(self):
        for draw in (embedded, standalone):
            self.assertEqual(draw(self.CHART), draw(self.CHART))
        self.assertNotRegex(standalone(self.CHART), "<metadata|20[0-9]{2}-")

    def test_empty_ones_are_well_formed_and_nothing_is_complained_of(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for log in (False, True):
                for some in (chart(x_log=log, y_log=log), chart(("a", []), x_log=log), bar_chart([], log=log),
                             bar_chart(["g"], ["a", [None]], log=log), bar_chart(["g"], ["a", [-5]], log=log)):
                    parsed(embedded(some))
                    parsed(standalone(some))


if __name__ == "__main__":
    unittest.main()
