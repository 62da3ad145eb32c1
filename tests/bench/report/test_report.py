from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from multipool.bench.report import report as room
from multipool.bench.report.report import report, shade
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, loader_class):
    """A folder with six short runs, made once."""
    tiny = loader_class()
    tiny.per_domain = 500
    where = tmp_path_factory.mktemp("runs")
    for method, memory in (("source", None), ("rotta", "single"), ("rotta", "mcm")):
        for seed in range(2):
            options = {"batch_size": 64, "seed": seed, "device": "cpu"}
            experiment = Experiment(method=method, memory=memory, **options)
            run(experiment, where / f"{method}-{memory}-{seed}", loader=tiny)
    report(where, title="A <b>title</b>")
    return where


class Reader(HTMLParser):
    """Collects what a page refers to, its headings and its text, and checks that tags close."""

    VOID = {"meta", "link", "path", "use", "rect", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.refers, self.text, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.refers += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data")]
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def reader(folder):
    found = Reader()
    found.feed((folder / "report.html").read_text(encoding="utf-8"))
    return found


def test_the_page_is_well_formed_and_names_nothing_twice(reader):
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))


def test_the_page_needs_no_network(folder, reader):
    for target in reader.refers:
        assert target.startswith(("#", "data:", "figures/")), target
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\((?!#)|<script|<iframe", page)
    assert all((folder / t).is_file() for t in reader.refers if t.startswith("figures/"))


def test_the_page_shows_what_the_runs_measured(folder, reader):
    text = " ".join(reader.text)
    errors = [
        json.loads((folder / f"rotta-mcm-{seed}" / "result.json").read_text())["error"]
        for seed in range(2)
    ]
    assert f"{sum(errors) / 2:.2f}" in text
    for part in ("Summary", "Error by domain", "Error over time", "Memory", "Settings"):
        assert part in text
    assert "multipool run --dataset shapes-c --method rotta --memory mcm --seed 1" in text
    assert "A <b>title</b>" in text  # escaped in the page, text to its reader


def test_a_column_without_a_number_is_left_out(folder, tmp_path):
    both = (folder / "report.html").read_text(encoding="utf-8")
    assert all(f">{title}</th>" in both for title in ("std", "against single", "restored"))
    shutil.copytree(folder / "source-None-0", tmp_path / "one")
    alone = report(tmp_path).read_text(encoding="utf-8")
    assert not [title for title in ("std", "against single") if f">{title}</th>" in alone]
    assert ">error %</th>" in alone


def test_every_figure_comes_as_png_svg_and_csv(folder):
    figures = folder / "figures"
    names = {path.stem for path in figures.iterdir()}
    assert names == {"errors", "domains", "curves", "memory"}
    for name in names:
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (figures / f"{name}.svg").read_text(encoding="utf-8")
    with (figures / "domains.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["method"], row["memory"]) for row in rows] == [
        ("source", "–"),
        ("rotta", "single"),
        ("rotta", "mcm"),
    ]
    source = json.loads((folder / "source-None-0" / "result.json").read_text())["errors"]
    assert float(rows[0]["dark"]) == pytest.approx(source["dark"], abs=1e-3)


def test_the_same_runs_give_the_same_page(folder):
    first = (folder / "report.html").read_bytes()
    report(folder, title="A <b>title</b>")
    assert (folder / "report.html").read_bytes() == first


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder at"):
        report(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"no result\.json under"):
        report(tmp_path)
    (tmp_path / "result.json").write_text("[1]")
    with (
        pytest.warns(UserWarning, match="is not a result of multipool run"),
        pytest.raises(ValueError, match="no run under .* is complete"),
    ):
        report(tmp_path)


def test_heat_map_cells_darken_with_the_error_and_stay_readable():
    """Contrast of text on its cell, by the formula of WCAG 2."""
    lights = []
    for step in range(21):
        ground, ink = re.findall(r"#([0-9a-f]{3,6})", shade(step / 20))
        lights.append(_luminance(ground))
        low, high = sorted((_luminance(ground), _luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, step
    assert all(a > b for a, b in zip(lights, lights[1:], strict=False))


def _luminance(colour):
    digits = colour if len(colour) == 6 else "".join(2 * c for c in colour)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_gains_are_written_with_a_true_minus():
    from multipool.bench.report.summary import Gain

    assert room.gain_text(Gain(-1.234, None, 1)) == "−1.23"
    assert room.gain_text(Gain(0.5, 0.25, 3)) == "+0.50 ± 0.25"
    assert room.gain_text(None) == "–"


def test_a_memory_that_stayed_empty_is_drawn_too(folder, tmp_path):
    content = json.loads((folder / "rotta-mcm-0" / "result.json").read_text())
    empty = [{"samples": 640 * n, "sizes": []} for n in (1, 2)]
    content["memory"].update(size=0, sizes=[], trace=empty)
    (tmp_path / "result.json").write_text(json.dumps(content))
    assert report(tmp_path).is_file()
    assert (tmp_path / "figures" / "memory.svg").is_file()


def test_files_that_are_no_results_cost_their_own_rows(folder, tmp_path):
    content = json.loads((folder / "rotta-mcm-0" / "result.json").read_text())
    bad = {
        "cut": "{",
        "list": "[]",
        "foreign": json.dumps({"error": 3.0, "settings": {"method": "x"}}),
        "no options": json.dumps({**content, "settings": {"method": "x", "dataset": "y"}}),
        "no trace": json.dumps({**content, "memory": {"size": 1, "sizes": [1], "events": {}}}),
        "points": json.dumps({**content, "diagnostics": [{"samples": 1}]}),
    }
    for name, text in bad.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(text)
    shutil.copytree(folder / "rotta-mcm-0", tmp_path / "good")
    with pytest.warns(UserWarning, match=r"left out: .*result\.json") as told:
        page = report(tmp_path).read_text()
    assert len(told) == len(bad)
    assert "6 files that are damaged or no result" in page
    assert "1 run;" in page


def test_a_page_is_made_although_weights_and_method_are_gone(folder, tmp_path):
    content = json.loads((folder / "rotta-mcm-0" / "result.json").read_text())
    settings = {**content["settings"], "weights": "/moved/away.pt", "method": "of another version"}
    (tmp_path / "result.json").write_text(json.dumps({**content, "settings": settings}))
    assert "--weights /moved/away.pt" in report(tmp_path).read_text()


def test_domains_may_be_called_anything(folder, tmp_path):
    content = json.loads((folder / "rotta-mcm-0" / "result.json").read_text())
    names = dict(zip(content["errors"], ["$5_$", "\udce9", "</svg>"], strict=True))
    content["errors"] = {names[key]: value for key, value in content["errors"].items()}
    for change in content["changes"]:
        change["domain"] = names[change["domain"]]
    (tmp_path / "result.json").write_text(json.dumps(content))
    page = report(tmp_path).read_text(encoding="utf-8")
    assert "$5" in page
    assert "\\udce9" in page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("width", "height"), [(1200, 2000), (500, 2000)])
def test_a_browser_renders_the_page_without_complaint(folder, tmp_path, width, height):
    from PIL import Image

    picture = tmp_path / "page.png"
    done = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},{height}",
            f"--screenshot={picture}",
            (folder / "report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert picture.is_file(), done.stderr[-500:]
    assert "CONSOLE" not in done.stderr
    with Image.open(picture) as image:
        assert image.size == (width, height)
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert colours is not None
    assert len(colours) > 50  # not blank: text, tables and figures
    assert max(count for count, _ in colours) < 0.95 * width * height
