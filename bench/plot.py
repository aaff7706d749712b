"""Graphs as self-contained SVG: times over some quantity, both axes logarithmic."""

import math
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 40, 50, 50
COLOURS = ("#0060b0", "#c04000", "#408040", "#806090")


class Axis:
    """Maps the decades that hold all values to a stretch of the picture."""

    def __init__(self, values, start, end):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.high = max(self.high, self.low + 1)
        self.start, self.end = start, end

    def place(self, value):
        return self.start + (self.end - self.start) * (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def line(points, style):
    return f'<polyline fill="none" {style} points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def grid(across, up):
    for tick in across.ticks():
        yield line([(across.place(tick), TOP), (across.place(tick), HEIGHT - BOTTOM)], 'stroke="#ddd"')
        yield text(across.place(tick), HEIGHT - BOTTOM + 18, f"{tick:,.0f}")
    for tick in up.ticks():
        yield line([(LEFT, up.place(tick)), (WIDTH - RIGHT, up.place(tick))], 'stroke="#ddd"')
        yield text(LEFT - 8, up.place(tick) + 4, f"{tick:,g}", "end")


def draw(graph):
    """The graph's medians, one line for each series."""
    series = graph.medians()
    across = Axis([x for points in series.values() for x in points], LEFT, WIDTH - RIGHT)
    up = Axis([y for points in series.values() for y in points.values()], HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
             ' font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(WIDTH / 2, 20, graph.what), *grid(across, up),
             text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, graph.x),
             text(16, HEIGHT / 2, "ms", more=f'transform="rotate(-90 16 {HEIGHT // 2})"')]
    for number, (label, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across.place(x), up.place(y)) for x, y in points.items()]
        parts.append(line(places, f'stroke="{colour}" stroke-width="2"'))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(text(LEFT + 10 + 150 * number, 40, f"● {label}", "start", f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"
