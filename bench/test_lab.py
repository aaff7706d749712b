"""Tests of what runs the lab, with programs in its place, and of the progress shown."""

import io
import json
import os
import tempfile
import time
import unittest

import lab
from progress import Progress
from server import Failure

OUTCOME = {"panels": [], "claims": [{"what": "it", "holds": True}]}


class Programs(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.done = []

    def program(self, script):
        path = os.path.join(self.directory.name, "fpbtree-lab")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        return path

    def measure(self, script, full=False):
        return lab.LabFigure("a-figure1", "Title", "Source", [1, 2]).measure(full, self.done.append, self.program(script))

    def test_figures_are_listed_in_order(self):
        lines = [json.dumps({"name": name, "title": "t", "source": "s", "seconds": [1, 2]}) for name in ("b", "a")]
        found = lab.figures(self.program("\n".join(f"echo '{line}'" for line in lines)))
        self.assertEqual((list(found), found["a"].seconds), (["b", "a"], [1, 2]))

    def test_a_missing_program_is_told(self):
        with self.assertRaisesRegex(Failure, "build-lab"):
            lab.figures(os.path.join(self.directory.name, "nothing"))

    def test_an_outcome_and_its_progress(self):
        found = self.measure(f"echo 'done 0.5' >&2; echo 'done 1.000' >&2; echo '{json.dumps(OUTCOME)}'")
        self.assertEqual({key: found[key] for key in ("name", "panels", "claims")}, {"name": "a-figure1"} | OUTCOME)
        self.assertNotIn("error", found)
        self.assertEqual(self.done, [0.5, 1.0])

    def test_arguments(self):
        script = "printf '{\"panels\": [\"%s\"], \"claims\": []}' \"$*\""
        self.assertEqual(self.measure(script)["panels"], ["--json a-figure1"])
        self.assertEqual(self.measure(script, full=True)["panels"], ["--json --full a-figure1"])

    def test_a_large_outcome_does_not_stop_the_program(self):
        filler = "x" * 1000
        found = self.measure(f"printf '{{\"claims\": [], \"panels\": [\"'; for i in $(seq 300); do printf {filler}; done; "
                             "printf '\"]}'; echo 'done 1' >&2")
        self.assertEqual(len(found["panels"][0]), 300_000)

    def test_failures_are_told_and_kept(self):
        for script, said in (("echo 'done 0.5' >&2; echo \"panicked at 'x'\" >&2; exit 101", "status 101: panicked at 'x'"),
                             ("echo nonsense", "no outcome"), ("echo '{\"panels\": []}'", "no outcome"),
                             ("kill -9 $$", "status -9")):
            found = self.measure(script)
            self.assertIn(said, found["error"])
            self.assertEqual((found["name"], found["panels"], found["claims"]), ("a-figure1", [], []))

    def test_other_page_sizes_are_given_if_they_are_built(self):
        script = "printf '{\"panels\": [\"%s\", \"%s\"], \"claims\": []}' \"$FPBTREE_LAB_4K\" \"$FPBTREE_LAB_16K\""
        built = self.program(script) + "-4k"
        with open(built, "w", encoding="ascii"):
            self.assertEqual(self.measure(script)["panels"], [built, ""])

    def test_nothing_is_left_running_after_an_interrupt(self):
        def interrupt(_):
            raise KeyboardInterrupt
        note = os.path.join(self.directory.name, "child")
        figure = lab.LabFigure("a-figure1", "Title", "Source", [1, 2])
        with self.assertRaises(KeyboardInterrupt):
            figure.measure(False, interrupt, self.program(f"sleep 60 & echo $! > {note}; echo 'done 0.1' >&2; wait"))
        with open(note, encoding="ascii") as out:
            child = int(out.read())
        deadline = time.monotonic() + 10
        while not ended(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(ended(child))


def ended(process):
    """Whether a process is gone, or only waits for being collected."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Progresses(unittest.TestCase):
    def setUp(self):
        self.now = 0.0

    def progress(self, out, **expected):
        return Progress(expected, clock=lambda: self.now, out=out)

    def test_a_line_a_figure_where_there_is_no_terminal(self):
        out = io.StringIO()
        progress = self.progress(out, lab=100, extension=100)
        for name in ("one", "two"):
            progress.begin("lab", name, 50)
            progress.tick(0.5)
            self.now += 50
            progress.tick(1)
        progress.end()
        lines = out.getvalue().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"\[ {24}\]   0%  one +3:20 left")
        self.assertRegex(lines[1], r"\[#{6} {18}\]  25%  two +2:30 left")

    def test_one_line_on_a_terminal(self):
        out = Terminal()
        progress = self.progress(out, lab=10)
        progress.begin("lab", "one", 10)
        progress.tick(0.5)
        progress.end()
        self.assertEqual((out.getvalue().count("\r"), out.getvalue().count("\n")), (2, 1))
        self.assertIn(" 50%", out.getvalue())

    def test_the_time_left_follows_what_was_measured_of_its_kind(self):
        progress = self.progress(io.StringIO(), lab=1000, extension=1000)
        progress.begin("lab", "slow", 500)
        self.now = 1000.0
        progress.tick(1)
        self.assertAlmostEqual(progress.parts["lab"].left(), 1000, delta=20)
        self.assertEqual(progress.parts["extension"].left(), 1000)
        progress.begin("extension", "fast", 500)
        self.now += 50
        progress.tick(1)
        self.assertAlmostEqual(progress.parts["extension"].left(), 55, delta=5)


if __name__ == "__main__":
    unittest.main()
