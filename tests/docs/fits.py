"""Write the table of methods and kinds of model into its page: ``python tests/docs/fits.py``."""

from __future__ import annotations

from pathlib import Path

from multipool.methods.fits import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "models.md"
BEGIN, END = "<!-- begin: multipool.methods.fits.markdown() -->\n", "<!-- end -->"


def renewed(text: str) -> str:
    """Return the page with the table as the code has it now."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + markdown() + END + tail


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
