"""Elements of HTML, which are well-formed XML, too."""

from html import escape


def element(name, inside, **attributes):
    """An element around what is HTML already; class_ stands for class."""
    given = "".join(f' {key.rstrip("_")}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{name}{given}>{inside}</{name}>"


def paragraph(words, **attributes):
    return element("p", escape(words), **attributes)


def mark(holds, words):
    """A verdict that is not its colour alone."""
    return f"<b>{'✓' if holds else '✗'} {escape(words)}</b>"


def table(heading, rows, **attributes):
    def row(cells, kind):
        # A number stays beside its unit.
        kept = (cell if len(cell) > 16 else cell.replace(" ", "\u00a0") for cell in map(str, cells))
        return element("tr", "".join(element(kind, escape(cell)) for cell in kept))
    head, body = row(heading, "th"), "".join(row(cells, "td") for cells in rows)
    return element("div", element("table", f"<thead>{head}</thead><tbody>{body}</tbody>", **attributes), class_="scroll")


def folded(words, inside, **attributes):
    return element("details", f"<summary>{escape(words)}</summary>{inside}", **attributes)
