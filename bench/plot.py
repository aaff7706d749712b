"""Charts, which matplotlib draws as SVG: lines over a quantity and bars in groups, with linear or logarithmic axes.

As narrow as a phone, and wider pages scale them. In the page they have the style sheet's colours, in files those of a
light page. A series has a marker besides its colour, so that colours need not be told apart."""

import io
import math
import re
import textwrap
from html import escape

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

# In inches: a picture's width, and the heights of lines with their axis, of a bar, and of a row of words.
WIDTH, LINES, BAR, ROW = 5.0, 3.0, 0.2, 0.24
MARKERS = "os^DvPX*"
# Okabe's and Ito's colours, which the colour-blind can tell apart, darker on white and lighter on black.
SERIES = ("#0072b2", "#c84e00", "#00805c", "#a8457f", "#a87400", "#2f8fc4", "#7a7a00", "#555555")
DARK = ("#e8e8e8", "#16181c", "#3a3d44", "#4aa8e8", "#ff8a4c", "#2fc79a", "#e39ac4", "#f0b429", "#9bd5ff", "#e6dc4a",
        "#bbbbbb")
TEXT, PAGE, GRID = "#1a1a1a", "#ffffff", "#dddddd"
# What the style sheet calls a picture's colours.
NAMES = {TEXT: "--text", PAGE: "--page", GRID: "--grid"} | {shade: f"--s{at}" for at, shade in enumerate(SERIES)}


def root(colours):
    return f":root{{{''.join(f'{name}:{colour};' for name, colour in zip(NAMES.values(), colours))}}}"


STYLE = f":root{{color-scheme:light dark}}{root(NAMES)}@media (prefers-color-scheme:dark){{{root(DARK)}}}"

matplotlib.rcdefaults()
matplotlib.rcParams.update({
    "svg.fonttype": "none", "font.sans-serif": "DejaVu Sans", "font.size": 12, "axes.xmargin": 0.03,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), TEXT),
    "figure.facecolor": PAGE, "axes.facecolor": PAGE, "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "legend.fontsize": 11,
    "xtick.major.size": 0, "ytick.major.size": 0, "lines.linewidth": 2, "lines.markersize": 7})


def number(value):
    """A number with three digits that count."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    if size < 0.0005:
        return f"{value:.2e}"
    return f"{value:.{1 if size >= 10 else 2 if size >= 1 else 3}f}"


def short(value, _=None):
    """A number that fits beside an axis."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= unit:
            unit = 1e3 if name == " k" else unit
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def look(series):
    # With the ninth series colours begin again, with other markers.
    return {"color": SERIES[series % 8], "marker": MARKERS[(series + series // 8) % 8]}


def has_place(value, log=False):
    """Whether a value can be drawn: it is a number, and above zero on a logarithmic axis."""
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def grow(figure, rows):
    """Makes room for so many rows of words."""
    figure.set_figheight(figure.get_figheight() + ROW * rows)


def add_legend(axes, names):
    """Names the series above the axes."""
    columns = 1 if any(len(name) > 18 for name in names) else 2
    if names:
        axes.legend([textwrap.fill(name, 42) for name in names], loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
        grow(axes.figure, math.ceil(len(names) / columns))


def scale(axes, which, wanted, values):
    """Labels an axis, `x` or `y`; marks a logarithmic one at powers of ten, and between them if they are few."""
    axis = getattr(axes, f"{which}axis")
    axis.set_label_text(wanted["label"])
    if wanted["log"]:
        axes.set(**{f"{which}scale": "log"})
        spanned = max(values) / min(values) if values else 10
        subs = (1,) if spanned >= 100 else (1, 2, 5) if spanned >= 10 else (1, 2, 3, 5, 7)
        axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(short)
    axis.grid(clip_on=False)
    axes.minorticks_off()


def apart(places, log):
    """Whether the places are so few, and so far from each other, that an axis can be marked at each of them."""
    scaled = [math.log10(place) if log else place for place in places]
    room = 0.026 * max((len(short(place)) + 1 for place in places), default=0)
    return 1 < len(places) < 10 and all(b - a > room * (scaled[-1] - scaled[0]) for a, b in zip(scaled, scaled[1:]))


def lines(chart):
    """A line for each series: {title, x: {label, log}, y: {label, log}, series: [{name, points: [[x, y]]}]}."""
    x, y, axes = chart["x"], chart["y"], Figure((WIDTH, LINES), layout="constrained").add_subplot()
    drawn = [[(a, b) for a, b in one["points"] if has_place(a, x["log"]) and has_place(b, y["log"])]
             for one in chart["series"]]
    xs, ys = (sorted({point[at] for points in drawn for point in points}) for at in (0, 1))
    scale(axes, "x", x, xs)
    scale(axes, "y", y, ys)
    for series, points in enumerate(drawn):
        axes.plot([a for a, _ in points], [b for _, b in points], clip_on=False, **look(series))
    if apart(xs, x["log"]):
        axes.set_xticks(xs)
    if not y["log"]:
        axes.set_ylim(bottom=min([0, *ys]))
    add_legend(axes, [one["name"] for one in chart["series"]])
    return axes.figure


def bars(chart):
    """Bars from left to right, in groups: {title, groups, y: {label, log}, series: [[name, [value a group]]]}."""
    groups, series, y = chart["groups"], chart["series"], chart["y"]
    high = max(len(series), 1.3) + 0.7
    axes = Figure((WIDTH, 0.8 + BAR * high * len(groups)), layout="constrained").add_subplot()
    known = [value for _, values in series for value in values if has_place(value, y["log"])]
    begin = min(known, default=1) / 2 if y["log"] else 0
    scale(axes, "x", y, known)
    for at, (_, values) in enumerate(series):
        drawn = axes.barh([group + (at + 0.5) / high for group in range(len(groups))],
                          [value - begin if has_place(value, y["log"]) else 0 for value in values],
                          0.9 / high, begin, color=look(at)["color"], clip_on=False)
        words = [number(value) if has_place(value) else "–" for value in values]
        axes.bar_label(drawn, words, padding=4, fontsize=11)
    axes.set_yticks([group + len(series) / 2 / high for group in range(len(groups))],
                    [textwrap.fill(group, 20) for group in groups])
    axes.grid(visible=False, axis="y")
    axes.invert_yaxis()
    add_legend(axes, [name for name, _ in series if len(series) > 1])
    return axes.figure


DRAWN = {"chart": lines, "bars": bars}


def svg(figure, chart):
    """The figure as an SVG element, whose inner names no other chart has, too; the same each time."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": repr(chart)}):
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    named = f'<svg role="img" aria-label="{escape(chart["title"])}"'
    return re.sub(r' id="[\w.]+_\d+"', "", out.getvalue()[out.getvalue().index("<svg"):]).replace("<svg", named, 1)


def embedded(chart):
    """The chart as a part of the page."""
    return re.sub("|".join(NAMES), lambda found: f"var({NAMES[found[0]]})", svg(DRAWN[chart["kind"]](chart), chart))


def standalone(chart):
    """The chart as a file of its own, under its title."""
    figure = DRAWN[chart["kind"]](chart)
    figure.suptitle(textwrap.fill(chart["title"], 46))
    grow(figure, 2)
    return svg(figure, chart)
