"""Charts as SVG: lines over a quantity and bars in groups, with linear or logarithmic axes.

As narrow as a phone, and wider pages scale them. Text has the page's own colour; a series has a colour of the style
sheet and a marker, so that colours need not be told apart. `standalone` makes a chart a file of its own."""

import math
from html import escape

WIDTH, PLOT_HEIGHT = 360, 190
LEFT, RIGHT = 50, 18
LINE = 18  # the height of a line of text
LETTER = 6.8  # its letters' width, rather too much than too little
BAR = 13
VALUE = 56  # what a bar leaves for its value
MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",  # a circle
    "M-3.2-3.2h6.4v6.4h-6.4z",  # a square
    "M0-4.2l4 7.2h-8z",  # a triangle
    "M0-4.6l4 4.6l-4 4.6l-4-4.6z",  # a diamond
    "M0 4.2l4-7.2h-8z",  # a triangle on its head
    "M-1.3-4.2h2.6v2.9h2.9v2.6h-2.9v2.9h-2.6v-2.9h-2.9v-2.6h2.9z",  # a cross
    "M-4.5-1.4h9v2.8h-9z",  # a bar across
    "M-1.4-4.5h2.8v9h-2.8z",  # a bar upright
)
# Okabe's and Ito's colours, which the colour-blind can tell apart, darker on white and lighter on black.
LIGHT = ("#0072b2", "#c84e00", "#00805c", "#a8457f", "#a87400", "#2f8fc4", "#7a7a00", "#555555")
DARK = ("#4aa8e8", "#ff8a4c", "#2fc79a", "#e39ac4", "#f0b429", "#9bd5ff", "#e6dc4a", "#bbbbbb")


def palette(colours):
    return "".join(f"--s{number}:{colour};" for number, colour in enumerate(colours))


STYLE = (f":root{{color-scheme:light dark;--text:#1a1a1a;--page:#fff;--grid:#ddd;{palette(LIGHT)}}}"
         f"@media (prefers-color-scheme:dark){{:root{{--text:#e8e8e8;--page:#16181c;--grid:#3a3d44;{palette(DARK)}}}}}")


def number(value):
    """A number with three digits that count."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    if size < 0.0005:
        return f"{value:.2e}"
    return f"{value:.{1 if size >= 10 else 2 if size >= 1 else 3}f}"


def short(value):
    """A number that fits beside an axis."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= unit:
            unit = 1e3 if name == " k" else unit
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def nice_below(value):
    """The largest of 1, 2 and 5 times a power of ten that is not above the value."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(step * power for step in (1, 2, 5) if step * power <= value * (1 + 1e-9))


def nice_above(value):
    power = 10.0 ** math.floor(math.log10(value))
    return min(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


class Axis:
    """Maps values to a stretch of the picture. Its ends are round, or if `tight` the values' own; a linear one begins
    with zero if `from_zero`."""

    def __init__(self, values, log, start, end, from_zero=False, tight=False):
        self.log, self.start, self.end = log, start, end
        ticks = log_ticks(values) if log else linear_ticks([*values, 0] if from_zero else values)
        low, high = (min(values), max(values)) if tight and len(set(values)) > 1 else (ticks[0], ticks[-1])
        self.low, self.high = self.scale(low), self.scale(high)
        self.ticks = thinned([tick for tick in ticks if low <= tick <= high], log)

    def scale(self, value):
        return math.log10(value) if self.log else value

    def place(self, value):
        return self.start + (self.end - self.start) * (self.scale(value) - self.low) / (self.high - self.low)


def linear_ticks(values):
    low, high = min(values, default=0), max(values, default=1)
    if low == high:
        low, high = min(low, 0), max(high, 0) if low else 1
    step = nice_above((high - low) / 5)
    return [step * count for count in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def log_ticks(values):
    """1, 2 and 5 times powers of ten, so that all values are between the first and the last."""
    low, high = nice_below(min(values, default=1)), nice_above(max(values, default=10))
    if low == high:
        low, high = nice_below(low / 2), nice_above(high * 2)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0 ** power for power in decades for step in (1, 2, 5)]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def thinned(ticks, log):
    """The ticks if they are few, or else powers of ten, as many as there is room for."""
    if len(ticks) <= 6 or not log:
        return ticks
    powers = [tick for tick in ticks if abs(math.log10(tick) - round(math.log10(tick))) < 1e-6]
    return powers[::math.ceil(len(powers) / 7)]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line(points, more):
    return f'<polyline fill="none" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" {more}/>'


def rule(x1, y1, x2, y2):
    return line([(x1, y1), (x2, y2)], 'style="stroke:var(--grid)"')


def fitted(words, width):
    """The words, or as many letters as there is room for."""
    room = max(int(width / LETTER), 2)
    return words if len(words) <= room else words[:room - 1] + "…"


def colour(series):
    return f"color:var(--s{series % len(LIGHT)})"


def marker(series, x, y):
    # With the ninth series colours begin again, with other markers.
    shape = MARKERS[(series + series // len(LIGHT)) % len(MARKERS)]
    return f'<path d="{shape}" transform="translate({x:.1f} {y:.1f})" fill="currentColor" style="{colour(series)}"/>'


def legend(names, mark):
    """The names beside their marks, in as many rows as it takes: (parts, height)."""
    parts, x, y = [], 0.0, LINE
    for series, name in enumerate(names):
        label = fitted(name, WIDTH - 20)
        width = 20 + LETTER * len(label)
        if x > 0 and x + width > WIDTH:
            x, y = 0.0, y + LINE
        parts += [mark(series, x + 7, y - 4), text(x + 15, y, label, "start")]
        x += width + 8
    return parts, y + 4 if parts else 0


def picture(parts, height, title):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
                      f' aria-label="{escape(title)}" font-family="sans-serif" font-size="13" fill="currentColor">',
                      *parts, "</svg>"]) + "\n"


def drawable(points, x_log, y_log):
    """The points that have a place: both numbers are there, and above zero on a logarithmic axis."""
    return [(x, y) for x, y in points if x is not None and y is not None
            and math.isfinite(x) and math.isfinite(y) and (x > 0 or not x_log) and (y > 0 or not y_log)]


def places_of(axis, values):
    """The values that an axis is marked at: those that there are points at, if they are few, or else its ticks."""
    places = sorted(set(values))
    gaps = [axis.place(b) - axis.place(a) for a, b in zip(places, places[1:])]
    widest = max((len(short(place)) for place in places), default=0) * LETTER
    return places if places and len(places) <= 9 and all(gap > widest + 6 for gap in gaps) else axis.ticks


def lines(chart):
    """A line for each series: {title, x: {label, log}, y: {label, log}, series: [{name, points: [[x, y]]}]}."""
    series = [drawable(one["points"], chart["x"]["log"], chart["y"]["log"]) for one in chart["series"]]
    xs, ys = ([point[at] for points in series for point in points] for at in (0, 1))
    parts, top = legend([one["name"] for one in chart["series"]], marker)
    top += LINE + 12
    bottom = top + PLOT_HEIGHT
    across = Axis(xs, chart["x"]["log"], LEFT, WIDTH - RIGHT, tight=True)
    up = Axis(ys, chart["y"]["log"], bottom, top, from_zero=True)
    parts += [text(0, top - 14, chart["y"]["label"], "start"), *grid(chart, across, up, xs)]
    for at, points in enumerate(series):
        spots = [(across.place(x), up.place(y)) for x, y in points]
        parts.append(line(spots, f'stroke="currentColor" stroke-width="2" stroke-linejoin="round" style="{colour(at)}"'))
        parts += [marker(at, x, y) for x, y in spots]
    return picture(parts, bottom + 2 * LINE + 8, chart["title"])


def grid(chart, across, up, xs):
    for tick in up.ticks:
        yield rule(LEFT, up.place(tick), WIDTH - RIGHT, up.place(tick))
        yield text(LEFT - 6, up.place(tick) + 4, short(tick), "end")
    for place in places_of(across, xs):
        yield rule(across.place(place), up.start, across.place(place), up.end)
        yield text(across.place(place), up.start + LINE - 2, short(place))
    yield text((LEFT + WIDTH - RIGHT) / 2, up.start + 2 * LINE, chart["x"]["label"])


def swatch(series, x, y):
    return f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" fill="currentColor" style="{colour(series)}"/>'


def bars(chart):
    """Bars from left to right, in groups: {title, groups, y: {label, log}, series: [[name, [value a group]]]}."""
    names = [name for name, _ in chart["series"]]
    parts, y = legend(names if len(names) > 1 else [], swatch)
    groups = list(zip(chart["groups"], *(values for _, values in chart["series"])))
    known = [(0, value) for _, *values in groups for value in values]
    across = Axis([value for _, value in drawable(known, False, chart["y"]["log"])], chart["y"]["log"], 0, WIDTH - VALUE,
                  from_zero=True)
    parts.append(text(0, y + LINE - 2, chart["y"]["label"], "start"))
    y += LINE + 6
    for label, *values in groups:
        parts.append(text(0, y + LINE - 5, fitted(label, 0.9 * WIDTH), "start", ' font-weight="bold"'))
        y += LINE
        for series, value in enumerate(values):
            parts += bar(across, series, value, y)
            y += BAR + 1
        y += 6
    return picture(parts, y, chart["title"])


def bar(across, series, value, y):
    """A bar with its value at the end; the value alone where it has no place."""
    begin = across.start if across.log else across.place(0)
    drawn = drawable([(0, value)], False, across.log)
    end = across.place(value) if drawn else begin
    words = number(value) if value is not None and math.isfinite(value) else "–"
    yield (f'<rect x="{min(begin, end):.1f}" y="{y:.1f}" width="{abs(end - begin):.1f}" height="{BAR}"'
           f' fill="currentColor" style="{colour(series)}"/>')
    yield text(max(begin, end) + 4, y + BAR - 2, words, "start", ' font-size="12"')


DRAWN = {"chart": lines, "bars": bars}


def standalone(svg):
    """The chart as a file: with its colours, and a ground."""
    begin, rest = svg.split("\n", 1)
    ground = '<rect width="100%" height="100%" style="fill:var(--page)"/>'
    return f'{begin[:-1]} style="color:var(--text)">\n<style>{STYLE}</style>\n{ground}\n{rest}'
