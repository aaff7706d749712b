"""The report as data and as Markdown; `page` makes the HTML of the same data."""

from measure import Graph

COLD = """Cold: before each sample the server is restarted and the system's cache emptied; the session has then planned
the statement and run others of its kind on a small table. `effective_io_concurrency` is 64, or where a figure says so
the server's default, {default}; btree's index scans prefetch nothing at any value. In simulated storage
(`bench/slow_storage.c`, preloaded, in the place of the system's cache and disk) a read of a page takes 1 ms, or what
is left of it since the page was asked for by `posix_fadvise`, and 64 are at work at a time: it shows how much of the
waiting is left where every read is slow, not how fast a real disk is."""
QUICK = "A quick run: smaller, and in the lab with fewer rounds, than the full one, which the goals are meant for."


def content(about, lab, results, left_out, only_full, error, matrix=None, sizes=None):
    """All that the report says: of the lab, a list of outcomes; of the extension, its results, what is not there, the
    matrix, and the sizes."""
    graphs = [result for result in results if isinstance(result, Graph)]
    figures = [result for result in results if result not in graphs]
    return {"machine": about, "lab": lab, "figures": [figure.as_dict() for figure in figures],
            "graphs": [graph.as_dict() for graph in graphs],
            "left_out": [figure.name for figure in left_out], "only_full": [figure.name for figure in only_full],
            "error": error, "matrix": matrix, "sizes": sizes}


def absent(report):
    """Sentences on what was not measured."""
    reasons = {"left_out": "because only root can empty the system's cache", "only_full": "because this is a quick run"}
    named = [f"Left out, {why}: {', '.join(report[key])}." for key, why in reasons.items() if report[key]]
    return named + ([f"The extension's figures broke off: {report['error']}"] if report["error"] else [])


def failed(report):
    """Whether anything broke off."""
    cells = [cell for row in (report["matrix"] or {"cells": {}})["cells"].values() for cell in row.values()]
    return (bool(report["error"]) or any("error" in outcome for outcome in report["lab"])
            or any(cell["state"] == "broken" for cell in cells) or bool(report["sizes"] and report["sizes"]["broken"]))


def chart_of(graph):
    """A graph's medians, as a chart."""
    return {"kind": "chart", "title": graph["what"], "x": {"label": graph["x"], "log": graph["log"]},
            "y": {"label": graph["unit"], "log": graph["log"]},
            "series": [{"name": label, "points": [[point["x"], point["median"]] for point in points]}
                       for label, points in graph["series"].items()]}


def amount(value, unit):
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB"
    if unit == "blocks":
        return f"{value:.0f}"
    if unit == "ms" and value < 0.1:
        return f"{value * 1000:.1f} µs"
    return f"{value:.{0 if value >= 100 else 1 if value >= 2 else 2}f} {unit}"


def cell(summary, unit):
    low, high = amount(summary["min"], unit), amount(summary["max"], unit)
    return amount(summary["median"], unit) + (f" ({low} – {high})" if len(summary["samples"]) > 1 else "")


def cells(figure):
    """A figure's row but for the verdict: name, what, fpbtree, the other, ratio, target."""
    against, unit = figure["against"], figure["unit"]
    return [figure["figure"],
            figure["what"] + (f"; {figure['note']}" if figure["note"] else ""),
            cell(figure["fpbtree"], unit),
            cell(figure[against], unit) + ("" if against == "btree" else f" {against}"),
            "n/a" if figure["ratio"] is None else f"{figure['ratio']:.2f}",
            "" if figure["target"] is None else f"≤ {figure['target']:.2f}"]


def hardware(about):
    """The machine and its system, in a sentence's beginning."""
    caches = f" ({', '.join(about['caches'])})" if about["caches"] else ""
    pages = f", transparent huge pages: {about['huge_pages']}" if about["huge_pages"] else ""
    server = f"PostgreSQL {about['postgresql']}" if "postgresql" in about else ""
    software = [f"Linux {about['kernel']}{pages}", about["compiler"], server]
    return (f"{about['cpu']}, {about['cores']} cores{caches}, {about['memory_mb'] / 1024:.0f} GB of memory, "
            + ", ".join(filter(None, software)))


def verdict(claim):
    """A goal is met or missed; a paper's number agrees or differs."""
    words = ("met", "missed") if claim["goal"] else ("agrees", "differs")
    return words[0 if claim["holds"] else 1]


def table(heading, rows):
    """Markdown's; a bar in a cell does not end it."""
    lines = [[words.replace("|", r"\|") for words in row] for row in rows]
    return [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *(f"| {' | '.join(line)} |" for line in lines)]


def lab_lines(lab):
    rows = [[outcome["name"], claim["what"], claim["paper"], claim["goal"], claim["ours"], verdict(claim), claim["why"]]
            for outcome in lab for claim in outcome["claims"]]
    broken = [f"{outcome['name']} broke off: {outcome['error']}" for outcome in lab if "error" in outcome]
    heading = ["figure", "what", "paper", "goal", "here", "", "why"]
    return ["## The papers' structures, without PostgreSQL", "", "Charts and tables are in `report.html`.", "",
            *(line for problem in broken for line in (problem, "")), *(table(heading, rows) if rows else [])]


def results_table(figures, against):
    """Figures with their targets, in Markdown; `against` is the heading of what they are held against."""
    words = {True: "met", False: "**missed**", None: ""}
    rows = [cells(figure) + [words[figure["met"]]] for figure in figures]
    return table(["figure", "what", "fpbtree", against, "ratio", "target", ""], rows)


def figure_lines(report):
    about = report["machine"]
    settings = ", ".join(f"{name} = {value}" for name, value in about["settings"].items())
    return [f"{about['rows']:,} rows of random keys; medians of {about['rounds']} alternating runs after a warm-up"
            " (min – max); sizes have no spread.", "", f"Settings: {settings}.", "",
            COLD.format(default=about["default_effective_io_concurrency"]), "",
            *results_table(report["figures"], "btree, unless named")]


def graph_lines(graph):
    """A heading, the picture, and its medians."""
    series = {label: {point["x"]: point["median"] for point in points} for label, points in graph["series"].items()}
    rows = [[f"{x:,}", *(amount(points[x], graph["unit"]) for points in series.values())]
            for x in next(iter(series.values()))]
    return ["", f"## {graph['what']}", "", f"![{graph['graph']}]({graph['graph']}.svg)", "", graph["note"] + ".", "",
            *table([graph["x"], *series], rows)]


def about_sizes(sizes):
    """Sentences on what the sizes are of, how many goals they meet, and what broke off."""
    same, met = sizes["identity"], [row["met"] for row in sizes["rows"] if row["met"] is not None]
    changed = ", with changes that are not committed" if same["dirty"] else ""
    return [f"{same['rows']:,} rows, be the run quick or full, at fill 90. Grown is by inserts into an empty table. Commit"
            f" {same['commit'][:10] or 'unknown'}{changed}, {sizes['date']}, PostgreSQL {same['postgresql']}.",
            f"{sum(met)} of {len(met)} goals are met.",
            *(f"{name} broke off: {why}" for name, why in sizes["broken"].items())]


def size_lines(sizes):
    told = [line for sentence in about_sizes(sizes) for line in (sentence, "")]
    return ["", "## Sizes", "", *told, *results_table(sizes["rows"], "btree")]


def markdown(report):
    about = report["machine"]
    lines = ["# fpbtree beside btree", "", hardware(about) + ".", ""]
    lines += [] if about["full"] else [QUICK, ""]
    for sentence in absent(report):
        lines += [sentence, ""]
    if "postgresql" in about:
        lines += figure_lines(report)
    for graph in report["graphs"]:
        lines += graph_lines(graph)
    if report["sizes"]:
        lines += size_lines(report["sizes"])
    if report["lab"]:
        lines += ["", *lab_lines(report["lab"])]
    return "\n".join(lines) + "\n"
