"""The report as one HTML page that needs nothing else: no script, no file, no network. It is well-formed XML, too."""

import re
from html import escape

import matrix_page
from elements import element, folded, mark, paragraph, table
from plot import STYLE, embedded, number
from report import COLD, QUICK, about_sizes, absent, cells, chart_of, hardware, verdict

# A paper's figures begin with its name, and a dash.
PAPERS = {
    "fpb": "Chen, Gibbons, Mowry, Valentin: Fractal Prefetching B+-Trees, SIGMOD 2002",
    "modular": "Sasaki, Araki: Modularizing B+-Trees: Three-Level B+-Trees Work Fine",
    "kiss": "Kissinger, Schlegel, Habich, Lehner: KISS-Tree, DaMoN 2012",
    "thesis": "Jónsson: Practical Performance Considerations for the Prefetching B+-tree, 2006",
    "sentinel": "Ye: Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels, 2021",
}
OTHER = "Of our own"
IN_POSTGRESQL = "What the paper shows in a database system (Figure 19) is, here, the extension's cold scans in PostgreSQL"
SIZES = "Sizes of indexes, beside btree's"
# Kinds of the extension's figures: the first whose expression is found in the name.
KINDS = {
    "With fpbtree's own log": "_own$",
    "From a cold server, and from slow storage": "^(cold|slow)_",
    "What prefetching costs where there is nothing to fetch": "^warm_",
    "Building": "^build",
    "Statements that insert many rows, or a few, into large tables": r"^(bulk_|page_images|insert_\d)",
    "Sizes": "^size_",
    "Lookups, scans and changes": "",
}
LAYOUT = """
*{box-sizing:border-box}
:root{--yes:#00694c;--no:#b03a00}
@media (prefers-color-scheme:dark){:root{--yes:#3ecf9f;--no:#ff9a66}}
body{margin:0 auto;max-width:76rem;padding:0 1rem 3rem;font:1rem/1.5 system-ui,sans-serif;color:var(--text);
background:var(--page);overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25}
h2{font-size:1.25rem;line-height:1.3;margin-top:3rem;border-bottom:1px solid var(--grid)}
h3{font-size:1.05rem;margin:2rem 0 0}
a{color:var(--s0)}
nav ul{list-style:none;padding:0}
nav li{margin:.6rem 0}
small a{display:inline-block;padding:.15rem 0}
ul{padding-left:1.2rem}
.small{font-size:.85rem;opacity:.85;margin:.2rem 0}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:1rem 2.5rem}
figure{margin:1rem 0 0;min-width:0}
figcaption{font-weight:600;margin-bottom:.3rem}
svg{display:block;width:100%;max-width:26rem;height:auto}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--grid);text-align:right;vertical-align:top}
th{vertical-align:bottom}
th:first-child,td:first-child{text-align:left}
.measured td{white-space:nowrap}
.measured td:first-child{min-width:10.5rem;max-width:24rem;white-space:normal}
.measured td:nth-child(4){text-align:left}
summary{cursor:pointer;font-size:.85rem;padding:.3rem 0}
.claims{list-style:none;padding:0}
.claims li{border-left:.25rem solid var(--yes);padding:.1rem 0 .1rem .7rem;margin:.7rem 0;max-width:46rem}
.claims li.no{border-color:var(--no)}
.yes b{color:var(--yes)}
.no b{color:var(--no)}
.broken{border:2px solid var(--no);padding:.5rem .7rem;white-space:pre-wrap}
"""


def digits(value):
    return "" if value is None else number(value)


def chart_table(chart):
    """The numbers that a line chart is made of: a row for each place, a column for each series."""
    series = {one["name"]: dict(one["points"]) for one in chart["series"]}
    places = sorted({x for points in series.values() for x in points if x is not None})
    rows = [[digits(x), *(digits(points.get(x)) for points in series.values())] for x in places]
    return table([chart["x"]["label"], *series], rows)


def bars_table(chart):
    rows = [[name, *map(digits, values)] for name, values in chart["series"]]
    return table([chart["y"]["label"], *chart["groups"]], rows)


NUMBERS = {"chart": chart_table, "bars": bars_table}
LONG = 12  # rows that are shown unasked


def panel(one):
    """A chart with its numbers folded away, or a table."""
    if one["kind"] == "table":
        shown = table(one["heading"], one["rows"])
        inside = folded(f"{len(one['rows'])} rows", shown) if len(one["rows"]) > LONG else shown
    else:
        inside = embedded(one) + folded("Numbers", NUMBERS[one["kind"]](one))
    return element("figure", element("figcaption", escape(one["title"])) + inside)


def claim(one):
    told = [f"{name} {one[key]}" for name, key in (("paper", "paper"), ("goal", "goal"), ("here", "ours")) if one[key]]
    inside = f"{mark(one['holds'], verdict(one))}: {escape(one['what'])}<br/>{escape(' · '.join(told))}"
    return element("li", inside + paragraph(one["why"], class_="small"), class_="yes" if one["holds"] else "no")


def outcome(one):
    """A figure of the lab."""
    parts = [f'<h3 id="{escape(one["name"])}">{escape(one["title"])}</h3>',
             paragraph(f"{one['source']}. {one['name']}, {one['seconds']:.0f} s", class_="small")]
    if "error" in one:
        parts.append(paragraph(f"It broke off: {one['error']}", class_="broken"))
    if one["claims"]:
        parts.append(element("ul", "".join(map(claim, one["claims"])), class_="claims"))
    parts.append(element("div", "".join(map(panel, one["panels"])), class_="panels"))
    return element("section", "".join(parts))


def by_paper(lab):
    """{paper: its outcomes}, in the papers' order; what is of no paper comes last."""
    prefixes = {one["name"]: one["name"].partition("-")[0] for one in lab}
    groups = {paper: [one for one in lab if prefixes[one["name"]] == paper] for paper in PAPERS}
    groups["own"] = [one for one in lab if prefixes[one["name"]] not in PAPERS]
    return {paper: outcomes for paper, outcomes in groups.items() if outcomes}


def paper_section(paper, outcomes, cold):
    heading = f'<h2 id="paper-{paper}">{escape(PAPERS.get(paper, OTHER))}</h2>'
    if paper == "fpb" and cold:
        heading += f'<p>{IN_POSTGRESQL}: <a href="#{cold[0]}">below</a>.</p>'
    return heading + "".join(map(outcome, outcomes))


def number_of(name):
    """`Figure 10` for `fpb-figure10`."""
    found = re.fullmatch(r"[a-z]+-(figure|table)([\d.]+.*)", name)
    return f"{found[1].capitalize()} {found[2]}" if found else name


def contents(report):
    entries = []
    for paper, outcomes in by_paper(report["lab"]).items():
        links = " · ".join(f'<a href="#{escape(one["name"])}">{escape(number_of(one["name"]))}</a>' for one in outcomes)
        entries.append(f'<li><a href="#paper-{paper}">{escape(PAPERS.get(paper, OTHER))}</a><br/><small>{links}</small></li>')
    if "postgresql" in report["machine"]:
        entries.append('<li><a href="#extension">The extension beside btree, in PostgreSQL</a></li>')
    if report["sizes"]:
        entries.append(f'<li><a href="#sizes">{SIZES}</a></li>')
    if report["matrix"]:
        entries.append('<li><a href="#matrix">The matrix: kinds of keys by what people do</a></li>')
    return element("nav", f"<h2>Contents</h2><ul>{''.join(entries)}</ul>")


def size_rows(report):
    return report["sizes"]["rows"] if report["sizes"] else []


def goals(report):
    """(met, where it is told, what, goal, here) for every goal: the lab's, then the extension's."""
    for one in report["lab"]:
        for said in one["claims"]:
            if said["goal"]:
                yield said["holds"], one["name"], said["what"], said["goal"], said["ours"]
    for figure in report["figures"] + size_rows(report):
        if figure["met"] is not None:
            _, what, _, _, ratio, target = cells(figure)
            yield figure["met"], figure["figure"], what, f"{target} of {figure['against']}", ratio


def goal(met, name, what, wanted, here):
    inside = f'{mark(met, "met" if met else "missed")}: <a href="#{escape(name)}">{escape(what)}</a>'
    return element("li", f"{inside}<br/>goal {escape(wanted)} · here {escape(here)}", class_="yes" if met else "no")


def summary(report):
    """Goals first, the missed ones before those that are met; then how often the papers are agreed with."""
    known = list(goals(report))
    met, missed = ([one for one in known if one[0] == reached] for reached in (True, False))
    claims = [said for one in report["lab"] for said in one["claims"] if said["paper"] and not said["goal"]]
    broken = [one["name"] for one in report["lab"] if "error" in one]
    parts = ["<h2>Summary</h2>", f"<p>{len(met)} of {len(known)} goals are met"
             f"{f', {len(missed)} missed' if missed else ''}. ", f"{sum(said['holds'] for said in claims)} of"
             f" {len(claims)} other numbers of the papers agree with what was measured here. The sentence beside each says what"
             " the structures do that explains it; few of these sentences have been tested by an experiment of their own.</p>"]
    if broken:
        parts.append(paragraph(f"Broke off: {', '.join(broken)}.", class_="broken"))
    for listed, words, shown in ((missed, "missed", {"open": "open"}), (met, "met", {})):
        if listed:
            inside = element("ul", "".join(goal(*one) for one in listed), class_="claims")
            parts.append(folded(f"The goals that are {words}", inside, **shown))
    return "".join(parts)


def kind_of(name):
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name))


def measured_row(figure):
    name, what, fpbtree, other, ratio, target = map(escape, cells(figure))
    reached = {True: mark(True, "met"), False: mark(False, "missed"), None: ""}[figure["met"]]
    inside = [f"{what}<br/><small>{name}</small>", ratio, target, reached, fpbtree, other]
    return element("tr", "".join(element("td", cell) for cell in inside), id=name,
                   class_="no" if figure["met"] is False else "yes")


def measured(figures):
    """A table; its rows are what the summary links to."""
    heading = ("", "ratio", "goal", "", "fpbtree", "btree, unless named")
    head = element("tr", "".join(element("th", escape(cell)) for cell in heading))
    body = "".join(map(measured_row, figures))
    return element("div", element("table", f"<thead>{head}</thead><tbody>{body}</tbody>", class_="measured"), class_="scroll")


def extension(report):
    about = report["machine"]
    settings = ", ".join(f"{name} = {value}" for name, value in about["settings"].items())
    kinds = {kind: [one for one in report["figures"] if kind_of(one["figure"]) == kind] for kind in reversed(KINDS)}
    graphs = [panel(chart_of(graph)) + paragraph(graph["note"], class_="small") for graph in report["graphs"]]
    return "".join([
        '<h2 id="extension">The extension beside btree, in PostgreSQL</h2>',
        paragraph(f"{about['rows']:,} rows of random keys; medians of {about['rounds']} alternating runs after a warm-up"
                  " (min – max); sizes have no spread."),
        *(element("h3", escape(kind)) + measured(figures) for kind, figures in kinds.items() if figures),
        element("div", "".join(element("div", graph) for graph in graphs), class_="panels"),
        folded("How it was measured", paragraph(f"Settings: {settings}.") + paragraph(COLD.replace("`", "").format(
            default=about["default_effective_io_concurrency"])))])


def sizes_section(sizes):
    return "".join([f'<h2 id="sizes">{SIZES}</h2>', *map(paragraph, about_sizes(sizes)), measured(sizes["rows"])])


def duration(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def page(report):
    about = report["machine"]
    groups = by_paper(report["lab"])
    cold = [figure["figure"] for figure in report["figures"] if figure["figure"].startswith("cold_")]
    body = ["<h1>fpbtree: what its pages owe to five papers, measured here</h1>",
            paragraph(f"{hardware(about)}."),
            paragraph(f"Measured on {about['date']}, in {duration(about['seconds'])}."),
            "" if about["full"] else paragraph(QUICK),
            *(paragraph(sentence) for sentence in absent(report)),
            summary(report) if report["lab"] or report["figures"] or report["sizes"] else "", contents(report),
            *(paper_section(paper, outcomes, cold) for paper, outcomes in groups.items()),
            extension(report) if "postgresql" in about else "",
            sizes_section(report["sizes"]) if report["sizes"] else "",
            matrix_page.section(report["matrix"]) if report["matrix"] else ""]
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>fpbtree: report</title><style>{STYLE}{LAYOUT}{matrix_page.STYLE}</style></head>\n<body>"
            + "\n".join(filter(None, body)) + "</body></html>\n")
