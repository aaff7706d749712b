"""How far a benchmark is, and how long it will take yet."""

import shutil
import sys
import time
from dataclasses import dataclass


@dataclass
class Part:
    """Figures of one kind: the seconds that they should take, what of that is done, and how long that took."""

    expected: float
    done: float = 0.0
    took: float = 0.0

    def left(self):
        # With little done, as expected; the more is done, the more counts how long that took.
        pace = (self.took + 5) / (self.done + 5)
        return max(self.expected - self.done, 0) * pace


class Progress:
    """Which figure is at work, a bar, and the time left: on a terminal as one line, else as a line a figure."""

    WIDTH = 24

    def __init__(self, expected, clock=time.monotonic, out=sys.stderr):
        """`expected` are the seconds of each kind of figures together."""
        self.parts = {kind: Part(seconds) for kind, seconds in expected.items()}
        self.clock, self.out = clock, out
        self.terminal = out.isatty()

    def begin(self, kind, name, seconds):
        """A figure begins that should take so many seconds."""
        self.part, self.name, self.seconds = self.parts[kind], name, seconds
        self.before, self.started = (self.part.done, self.part.took), self.clock()
        self.show()

    def tick(self, fraction):
        """So much of the figure is done, from 0 to 1."""
        done, took = self.before
        self.part.done = done + self.seconds * min(max(fraction, 0), 1)
        self.part.took = took + self.clock() - self.started
        if self.terminal:
            self.show()

    def end(self):
        """All figures are done, or nothing more is to come."""
        if self.terminal:
            print(file=self.out)

    def line(self):
        expected = sum(part.expected for part in self.parts.values())
        share = min(sum(part.done for part in self.parts.values()) / expected, 1) if expected else 1
        left = round(sum(part.left() for part in self.parts.values()))
        bar = "#" * int(self.WIDTH * share)
        return f"[{bar:<{self.WIDTH}}] {share:4.0%}  {self.name:<24} {left // 60}:{left % 60:02} left"

    def show(self):
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{self.line()[:width]:<{width}}", end="", file=self.out, flush=True)
        else:
            print(self.line(), file=self.out, flush=True)
