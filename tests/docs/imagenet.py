"""What the tables of ImageNet at 224 px must say, from their rows."""

from __future__ import annotations

from statistics import mean

from rows import Row, load

Cells = list[list[float] | None]
_GROUPS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}


def all_methods() -> dict[str, Cells]:
    """Undecoded errors in random order, by groups of corruptions; in runs, and decoded there."""
    found: dict[str, Cells] = {}
    for row in load("imagenet-224"):
        cells = found.setdefault(_name(row), [[] for _ in range(7)])  # a dash has no number
        if row["kind"] == "ctta":
            cells[0] = [float(row["undecoded_error"])]
            for place, names in enumerate(_GROUPS.values(), start=1):
                cells[place] = [mean(float(row[f"undecoded {name}"]) for name in names)]
        else:
            cells[5:] = [[float(row["undecoded_error"])], [float(row["error"])]]
    return found


def alone() -> dict[str, Cells]:
    """Throughput, time and GPU memory of each method, one process."""
    return {
        row["method"] + _precision(row): [
            [float(row["images_per_second"])],
            [float(row["milliseconds_a_batch"])],
            [float(row["gpu_peak_memory_mib"]) / 1024] if row["gpu_peak_memory_mib"] else [],
            [float(row["memory_ms_a_batch"])],
        ]
        for row in load("imagenet-224-alone")
    }


def _name(row: Row) -> str:
    """Return the method, with a memory that it does not have anyway and an unusual precision."""
    own = ("", "mcm+" if row["method"].startswith("multipool") else "single")
    plus = "" if row["memory"] in own else f"+{row['memory']}"
    method, sign, options = row["method"].partition(":")
    return method + plus + sign + options + _precision(row)


def _precision(row: Row) -> str:
    return "" if row["precision"] == "float32" else f" ({row['precision']})"
