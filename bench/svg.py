"""Pictures as SVG that read well on light and on dark pages: text, lines and the whole document.

Used by bench/chart.py and study/plot.py. Needs only Python's standard library.
"""

from __future__ import annotations

from html import escape

STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #3d444d; }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328; }
  .note { font-size: 12px; fill: #59636e; }
  .ours { font-weight: 600; fill: #0a58ca; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .copy { stroke: #818b98; stroke-width: 1.5; stroke-dasharray: 4 4; }
  circle.other { fill: #818b98; }
  circle.ours { fill: #0a58ca; }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7e0; }
    .title { fill: #f0f6fc; }
    .note { fill: #9198a1; }
    .ours { fill: #6cb6ff; }
    .grid { stroke: #3d444d; }
    circle.other { fill: #9198a1; }
    circle.ours { fill: #6cb6ff; }
  }
"""


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def document(title: str, width: int, height: int, parts: list[str], style: str = "") -> str:
    """A whole file; `style` adds to the common style."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    style = f"<style>{STYLE}{style}</style>"
    return "\n".join([head, f"<title>{escape(title)}</title>", style, *parts, "</svg>", ""])
