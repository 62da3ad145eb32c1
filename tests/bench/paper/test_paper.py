"""The package's copy of the paper's numbers against the paper itself, where it is at hand."""

from __future__ import annotations

import os
import re
import statistics
from pathlib import Path

import pytest

from multipool.bench.paper import TARGETS
from multipool.bench.paper.published import published

ROUNDS = [f"round {number}" for number in range(1, 21)]


@pytest.fixture(scope="module")
def tex():
    root = Path(__file__).parents[3]
    shared = Path(os.environ.get("MULTIPOOL_SHARED", root.parent / "shared"))
    if not (shared / "paper.tex").is_file():
        pytest.skip(f"the paper's source is not in {shared}")
    return (shared / "paper.tex").read_text(encoding="utf-8")


def table(tex, label):
    """Return the cells of a tabular as text, a list a row, without markup."""
    start = tex.index(r"\begin{tabular}", tex.index(rf"\label{{{label}}}"))
    body = tex[start : tex.index(r"\end{tabular}", start)]
    rows = []
    for line in body.split(r"\\"):
        cells = [plain(cell) for cell in line.split("&")]
        if len(cells) > 1:
            rows.append(cells)
    return rows[1:]


def plain(cell):
    cell = re.sub(r"\(\\textcolor\{[^{}]*\}\{[^{}]*\}\)", "", cell)
    cell = re.sub(r"\\multicolumn\{\d+\}\{c\}", "", cell)
    cell = re.sub(r"\\rowcolor\{[^}]*\}", "", cell)
    cell = cell.replace(r"$^\dagger$", "").replace(r"\checkmark", "yes")
    cell = re.sub(r"\\[a-z]+", "", cell)
    return re.sub(r"[{}$\s]+", " ", cell).strip()


def numbers(cells):
    return [None if cell in ("--", "") else float(cell) for cell in cells]


def test_table1_is_as_printed(tex):
    rows, host = {}, ""
    for name, _, *cells in table(tex, "tab:ptta_summary"):
        host = host if name == "+ MCM" else name
        rows[f"{host} + MCM" if name == "+ MCM" else name] = numbers(cells)
    columns = ("CIFAR10-C", "CIFAR100-C", "ImageNet-C", "DomainNet")
    paper = published("table1")
    assert len(rows) == len(paper.rows) == 17
    for name, printed in rows.items():
        assert [paper.value(name, column) for column in columns] == printed
    assert paper.value("PeTTA + MCM", "time") == published("table3").value(
        "Pixel Stat (0.3)", "time"
    )


def test_table2_is_as_printed(tex):
    parts = ("MCM", "ACC", "UCR")
    for *marks, error in table(tex, "tab:component"):
        named = [part for part, mark in zip(parts, marks, strict=True) if mark == "yes"]
        assert published("table2").value(" + ".join(named) or "PeTTA", "error") == float(error)
    assert len(published("table2").rows) == 5


@pytest.mark.parametrize(
    ("name", "label", "columns"),
    [
        ("table3", "tab:descriptor", ("error", "time")),
        ("table4", "tab:consolidation", ("error", "time")),
        ("table5", "tab:recurring", ("round 1", "average")),
        ("tableS1", "tab:ablation-threshold", (*ROUNDS, "average")),
    ],
)
def test_plain_tables_are_as_printed(tex, name, label, columns):
    rows = table(tex, label)
    prefix = "threshold " if name == "tableS1" else ""
    assert len(rows) == len(published(name).rows)
    for row, *cells in rows:
        printed = [published(name).value(prefix + row, column) for column in columns]
        assert printed == numbers(cells)


@pytest.mark.parametrize(
    ("name", "label"),
    [("tableS3", "tab:recurring-cifar100"), ("tableS4", "tab:recurring-cifar10")],
)
def test_recurring_tables_are_as_printed(tex, name, label):
    rows = table(tex, label)
    assert len(rows) == len(published(name).rows) == 12
    for row, *cells in rows:
        columns = [*ROUNDS, "average"] if len(cells) > 1 else ["average"]
        row = row.replace("PeTTA+MCM", "PeTTA + MCM")
        assert [published(name).value(row, column) for column in columns] == numbers(cells)


def test_distances_are_as_printed(tex):
    names = {"Manhattan ( L_1 )": "Manhattan (L1)", "Euclidean ( L_2 ) (Ours)": "Euclidean (L2)"}
    rows = table(tex, "tab:distance_metrics")
    assert len(rows) == 4
    for row, threshold, error in rows:
        name = names.get(row, row)
        assert published("tableS2").value(name, "threshold") == float(threshold)
        assert published("tableS2").value(name, "error") == float(error)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fig1a", ["ranging from $5.9$ to\n$9.7$"]),
        ("figS2", [r"\text{imb}{=}11.0$ and~$5.0$", r"$4.1\!\times$ and $2.5\!\times$"]),
        ("fig4", ["settles at 23.5", "near 1.8", "(2.98)", "drops to 2.74", r"$\approx$1.0"]),
        ("fig3", [r"33.04\% in 1049\,s"]),
        ("figS1", [r"minimum at $K_{\max}{=}4$", r"${\sim}2.4$ percentage"]),
    ],
)
def test_what_is_said_of_figures_stands_in_the_text(tex, name, words):
    assert published(name).label in tex
    assert all(word in tex for word in words)


def test_every_id_has_a_title_and_the_labels_are_the_papers(tex):
    for name in TARGETS:
        assert published(name).title
        assert rf"\label{{{published(name).label}}}" in tex


def test_the_notes_on_contradictions_hold():
    first, short, long = published("table1"), published("table5"), published("tableS3")
    for row in ("Source", "CoTTA", "RoTTA", "PeTTA + MCM"):
        once = first.value(row, "CIFAR100-C")
        again = short.value(row, "round 1")
        assert once != again
        assert any(f"{row} {again} here and {once} there" in n or row in n for n in short.notes)
    rounds = [long.value("PeTTA + MCM", column) for column in ROUNDS]
    assert round(statistics.fmean(rounds), 1) == 33.0
    assert long.value("PeTTA + MCM", "average") == 32.6
    threshold = published("tableS1")
    assert threshold.value("threshold 0.3", "average") == 33.1
    assert any("200 classes" in note for note in first.notes)
    assert any("sigma" in note for note in first.notes)


def test_a_number_that_is_not_printed_is_none():
    assert published("table1").value("BN", "ImageNet-C") is None
    assert published("table1").value("EATA", "CIFAR100-C") is None
