"""The matrix shown: in the report's page, in its Markdown, and in README.md."""

import os
from html import escape

from elements import element, folded, paragraph
from matrix import BROKEN, IMPOSSIBLE, LIMIT, MEASURED, NAME, ROWS, State
from matrix_columns import COLUMNS
from matrix_kinds import kinds
from report import amount, hardware, table
from server import Failure

README = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")
MARKS = f"<!-- {NAME} -->", f"<!-- /{NAME} -->"
# What a newcomer looks for.
HEADLINE = {
    "int8": "identity keys: int8, ascending",
    "uuid4": "random keys: uuid v4",
    "fk10_random": "foreign keys of 10 rows, random: int4",
    "tenant_seq": "(tenant, number), 200 tenants: (int4, int4)",
    "emails_en": "e-mail addresses, en_US.UTF-8: text",
}
HEADLINE_COLUMNS = ("size", "build", "insert", "probe", "range")
WORDS = (f"fpbtree's divided by btree's: below 1 is less. Each is the median of the rounds' ratios, with the lowest and the"
         f" highest round beside it; sizes have no spread. Above {LIMIT} is {{mark}}.")
STYLE = """
.matrix{border-collapse:separate;border-spacing:1px}
.matrix th,.matrix td{padding:.2rem .45rem;border:0;text-align:right;white-space:nowrap}
.matrix th:first-child{position:sticky;left:0;background:var(--page);text-align:left;white-space:normal;min-width:8rem;
max-width:13rem;font-weight:400}
.matrix small{display:block;font-size:.65rem;opacity:.8}
.matrix .less{background:#0a82}
.matrix .more{background:#f436;font-weight:600}
"""


def shown(matrix):
    """(the columns that have cells, {kind: title} of those that have)."""
    cells = matrix["cells"]
    titles = {name: kind.title for name, kind in kinds(matrix["identity"]["rows"]).items() if cells.get(name)}
    return [column for column in COLUMNS if any(column in row for row in cells.values())], titles


def spread(cell):
    return f"{cell['low']:.2f}–{cell['high']:.2f}" if len(cell["samples"]["fpbtree"]) > 1 else ""


def above(cell):
    return round(cell["ratio"], 2) > LIMIT


def why(cell, reasons):
    """The number of the reason why a cell is not measured, which it has in `reasons` from then on."""
    said = " ".join(cell["why"].split())
    words = f"broken: {said}" if cell["state"] == BROKEN else said
    return f"– [{reasons.setdefault(words, len(reasons) + 1)}]"


def data(cell, reasons):
    """A cell of the page's table."""
    if not cell:
        return "<td></td>"
    if cell["state"] != MEASURED:
        return element("td", why(cell, reasons), title=cell["why"], class_="none")
    sides = ", ".join(f"{method} {amount(cell[method], cell['unit'])}" for method in ("fpbtree", "btree"))
    kind = "more" if above(cell) else "less" if cell["ratio"] < 1 else "same"
    inside = f"{cell['ratio']:.2f}" + (element("small", spread(cell)) if spread(cell) else "")
    return element("td", inside, title=f"{sides}; rounds {spread(cell) or 'none'}", class_=kind)


def of_what(matrix):
    """What was measured when, in a sentence."""
    same, about = matrix["identity"], matrix["about"]
    changed = ", with changes that are not committed" if same["dirty"] else ""
    mode = "" if same["mode"] == "full" else " A quick run: the figures are rough."
    return (f"{same['rows']:,} rows of each kind, {about['rounds']} alternating rounds after a warm-up; fpbtree preloaded,"
            f" plans serial, autovacuum, jit and fsync off. Commit {same['commit'][:10] or 'unknown'}{changed},"
            f" {about['date']}; {hardware(about['machine'])},"
            f" PostgreSQL {same['postgresql']}.{mode}")


def counted(matrix):
    """How many cells there are, and of what sort."""
    cells = [cell for row in matrix["cells"].values() for cell in row.values()]
    measured = [cell for cell in cells if cell["state"] == MEASURED]
    return (f"{len(measured)} cells are measured, {sum(map(above, measured))} of them above {LIMIT};"
            f" {len(cells) - len(measured)} could not be.")


def section(matrix):
    """The page's part."""
    columns, titles = shown(matrix)
    reasons = {}
    head = element("tr", "<th></th>" + "".join(
        element("th", escape(COLUMNS[column].title), title=COLUMNS[column].note) for column in columns))
    rows = [element("tr", element("th", escape(title), scope="row")
                    + "".join(data(matrix["cells"][name].get(column), reasons) for column in columns))
            for name, title in titles.items()]
    grid = element("table", f"<thead>{head}</thead><tbody>{''.join(rows)}</tbody>", class_=NAME)
    notes = "".join(element("li", escape(line)) for line in explained(columns))
    unmeasured = "".join(element("li", escape(words)) for words in reasons)
    return "".join([f'<h2 id="{NAME}">The matrix: kinds of keys by what people do</h2>',
                    paragraph(WORDS.format(mark="red")), paragraph(counted(matrix)), element("div", grid, class_="scroll"),
                    element("ol", unmeasured, class_="small") if reasons else "",
                    folded("What the columns are", element("ul", notes), open="open"),
                    paragraph(of_what(matrix), class_="small")])


def explained(columns):
    return [f"{COLUMNS[column].title}: {COLUMNS[column].note}" for column in columns]


def text(cell, reasons, small="({})"):
    """A cell in Markdown."""
    if not cell:
        return ""
    if cell["state"] != MEASURED:
        return why(cell, reasons)
    ratio = f"**{cell['ratio']:.2f}**" if above(cell) else f"{cell['ratio']:.2f}"
    return " ".join(filter(None, [ratio, spread(cell) and small.format(spread(cell))]))


def grid_lines(matrix, titles, columns, small="({})"):
    """A table in Markdown, and the reasons for what is not in it."""
    reasons = {}
    rows = [[title, *(text(matrix["cells"][name].get(column), reasons, small) for column in columns)]
            for name, title in titles.items()]
    lines = table(["", *(COLUMNS[column].title for column in columns)], rows)
    return lines + [line for words, number in reasons.items() for line in ("", f"[{number}] {words}.")]


def markdown(matrix):
    """The part of report.md."""
    columns, titles = shown(matrix)
    lines = ["", "## The matrix: kinds of keys by what people do", "", WORDS.format(mark="bold"), "", counted(matrix), "",
             *grid_lines(matrix, titles, columns), "", *(f"- {line}" for line in explained(columns)), "", of_what(matrix)]
    return "\n".join(lines) + "\n"


def lacking(matrix):
    """Why a matrix is no complete full run of one commit; nothing if it is."""
    same = matrix["identity"]
    if same["mode"] != "full" or same["rows"] != ROWS["full"]:
        return "it is not of a full run"
    if same["dirty"] or not same["commit"]:
        return "it is not of a commit"
    absent = [f"{name} {column}" for name, kind in kinds(same["rows"]).items() for column in COLUMNS
              if COLUMNS[column].applies(kind)
              and matrix["cells"].get(name, {}).get(column, {}).get("state") not in (MEASURED, IMPOSSIBLE)]
    return f"{len(absent)} cells are not measured, the first of them {absent[0]}" if absent else ""


def readme(content, matrix):
    """README.md's content with this matrix between the marks."""
    begin, end = MARKS
    if content.count(begin) != 1 or content.count(end) != 1:
        raise Failure(f"README.md has not one {begin} and one {end}")
    columns, titles = shown(matrix)
    small = "<sub>{}</sub>"
    lines = [begin, WORDS.format(mark="bold"), "", *grid_lines(matrix, HEADLINE, HEADLINE_COLUMNS, small), "",
             f"All kinds of keys, and everything that is measured of them. {counted(matrix)}", "",
             *grid_lines(matrix, titles, columns, small), "", *(f"- {line}" for line in explained(columns)), "",
             of_what(matrix), end]
    return content[:content.index(begin)] + "\n".join(lines) + content[content.index(end) + len(end):]


def write_readme(directory):
    """Rewrites README.md's part from matrix.json, if that is fit for it."""
    found = State.read(os.path.join(directory, f"{NAME}.json"))
    if not found:
        raise Failure(f"no {NAME}.json: `make bench FIGURE={NAME} FULL=1` measures it")
    if lack := lacking(found.as_dict()):
        raise Failure(f"README.md shows only a complete full run of one commit: {lack}")
    with open(README, encoding="utf-8") as content:
        changed = readme(content.read(), found.as_dict())
    with open(README, "w", encoding="utf-8") as out:
        out.write(changed)
