"""Tables: a grid as Markdown when its cells are lines, else cell after cell with the column's heading before each."""

from __future__ import annotations

from dataclasses import dataclass

from quickstarted.docs.html.inline import render
from quickstarted.docs.html.names import words
from quickstarted.docs.html.runs import Links, collect, quick_line
from quickstarted.docs.html.tree import BREAK, Anchor, Code, Element, Node, plain_text

_MAX_COLUMNS = 64
_TOO_MUCH_FOR_A_CELL = words("table blockquote admonition tab hr h1 h2 h3 h4 h5 h6 dl")


@dataclass(slots=True)
class Grid:
    """Rows of cells with spans laid out; None where a cell above or beside reaches over."""

    rows: list[list[Element | None]]
    header: bool  # the first row names the columns


def grid_of(table: Element) -> Grid:
    rows: list[list[Element | None]] = []
    header = False
    reaching: dict[int, int] = {}  # column: rows that a cell above still covers
    for tr in table.children:
        if not isinstance(tr, Element) or tr.tag != "tr":
            continue
        cells = [cell for cell in tr.children if isinstance(cell, Element) and cell.tag in ("td", "th")]
        if not cells:
            if not any(
                isinstance(child, Element | Code) or (isinstance(child, str) and child.strip()) for child in tr.children
            ):
                continue
            cells = [Element("td", {}, tr.children, blocky=tr.blocky)]
        if not rows:
            header = all(cell.tag == "th" for cell in cells)
        rows.append(_laid_out(cells, reaching))
    return Grid(rows, header)


def _laid_out(cells: list[Element], reaching: dict[int, int]) -> list[Element | None]:
    row: list[Element | None] = []

    def skip_covered() -> None:
        while reaching.get(len(row), 0) > 0 and len(row) < _MAX_COLUMNS:
            reaching[len(row)] -= 1
            row.append(None)

    for cell in cells:
        skip_covered()
        if len(row) >= _MAX_COLUMNS:
            row[-1] = _joined(row[-1], cell)
            continue
        down, across = _span(cell, "rowspan"), _span(cell, "colspan")
        for index in range(min(across, _MAX_COLUMNS - len(row))):
            reaching[len(row)] = down - 1
            row.append(cell if index == 0 else None)
    skip_covered()
    return row


def _joined(first: Element | None, second: Element) -> Element:
    children: list[Node] = [*(first.children if first else ()), " ", *second.children]
    return Element("td", {}, children, blocky=second.blocky)


def _span(cell: Element, name: str) -> int:
    value = cell.get(name)
    return max(1, min(int(value), 1000)) if value.isascii() and value.isdigit() and len(value) < 6 else 1


def is_simple(grid: Grid) -> bool:
    """Whether every cell can be written on one line."""
    return all(cell is None or not cell.blocky or _fits(cell) for row in grid.rows for cell in row)


def _fits(cell: Element) -> bool:
    stack: list[Node] = [cell]
    while stack:
        node = stack.pop()
        if isinstance(node, Code):
            return False
        if isinstance(node, Element):
            if node.tag in _TOO_MUCH_FOR_A_CELL:
                return False
            stack.extend(node.children)
    return True


def as_markdown(grid: Grid, links: Links, anchors: list[str]) -> list[str]:
    """The lines of a pipe table (GitHub Flavored Markdown)."""
    width = max(len(row) for row in grid.rows)
    rows = [[_cell(cell, links, anchors) for cell in row] + [""] * (width - len(row)) for row in grid.rows]
    head = rows.pop(0) if grid.header else [""] * width
    return [_line(head), "|" + " --- |" * width, *(_line(row) for row in rows)]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Element | None, links: Links, anchors: list[str]) -> str:
    if cell is None:
        return ""
    text = None if cell.blocky else quick_line(cell.children, links)
    if text is None:
        text = render(collect(cell, links, on_anchor=anchors.append), line_break="<br>", gap="<br>")
    return text.replace("\n", " ").replace("|", "\\|")


def as_blocks(grid: Grid) -> list[Node]:
    """The cells one after another, for a table that is used for layout or holds blocks."""
    names: list[str] = []
    rows = grid.rows
    if grid.header and len(rows) > 1:
        names = [plain_text(cell, 200) if cell else "" for cell in rows[0]]
        rows = rows[1:]
    nodes: list[Node] = []
    for row in rows:
        for index, cell in enumerate(row):
            if cell is None or not any(not isinstance(child, Anchor) for child in cell.children):
                continue
            if index < len(names) and names[index]:
                nodes.append(Element("p", {}, [Element("b", {}, [f"{names[index]}:"])]))
            nodes += (BREAK, *cell.children, BREAK)
    return nodes
