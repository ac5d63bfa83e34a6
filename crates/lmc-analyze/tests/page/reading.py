"""What tests read from a page."""

from __future__ import annotations

from typing import Any

# Whether the picture of a chart has marks: shapes that stand for values, or pixels.
MARKS = """plot => {
    const shapes = plot.querySelectorAll(
        ".line:not([d='']), .dot, .mark, rect.area, .arc").length;
    const canvas = plot.querySelector("canvas");
    if (canvas.hidden) return shapes;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return shapes + pixels.filter((value, i) => i % 4 === 3 && value > 0).length;
}"""


def card(page: Any, title: str) -> Any:
    """The card of the chart with this title."""
    heading = page.get_by_role("heading", name=title, exact=True, level=3)
    return page.locator(".card").filter(has=heading)


def choose(within: Any, label: str, text: str) -> None:
    """Makes a choice, whether it is a menu or buttons."""
    group = within.get_by_role("group", name=label, exact=True)
    if group.count():
        group.get_by_role("button", name=text, exact=True).click()
    else:
        within.get_by_label(label, exact=True).select_option(label=text)


def rows_become(page: Any, section: str, count: int) -> None:
    """Waits until a section has this many rows. The page's policy lets no text run, so that what
    is waited for is a function."""
    page.wait_for_function(
        "([section, count]) => document.querySelectorAll(`#${section} tbody tr`).length === count",
        arg=[section, count],
    )


def slide(within: Any, label: str, position: int) -> None:
    """Moves a slider."""
    within.get_by_label(label, exact=True).evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }",
        position,
    )


def cells(table: Any) -> list[list[Any]]:
    """The rows of a table: numbers where cells have them, and otherwise text."""
    return table.locator("tbody").evaluate(
        """body => [...body.rows].map((row) => [...row.cells].map((cell) =>
            cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent))"""
    )


def headings(table: Any) -> list[str]:
    """The names of the columns."""
    return table.locator("thead button").all_inner_texts()


def values(within: Any) -> list[list[Any]]:
    """The rows of the table of a chart, which is opened if it is not, with all its rows."""
    toggle = within.locator(".as-table")
    if toggle.get_attribute("aria-expanded") == "false":
        toggle.click()
    more = within.locator(".values .more button")
    while more.count():
        more.click()
    return cells(within.locator(".values table"))
