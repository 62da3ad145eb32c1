"""Whether a row made again says the same, and within what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from multipool.bench.paper.cell import measured
from multipool.bench.recheck.again import Again, OtherWeightsError, Show
from multipool.bench.recheck.recorded import Recorded
from multipool.bench.run.certificate import CIRCUMSTANCES, PARTS, Certificate
from multipool.bench.run.result import Result

# Elsewhere sums are rounded otherwise, and what a method learns carries that on: half a point, and
# two images more, which on short streams are more than half a point.
POINTS, IMAGES = 0.5, 2
_DIGITS = 4  # of every number in a file
_NAMES = ("name", "model", "classes")  # of files, which may be called anything


@dataclass(frozen=True)
class Number:
    """One number of a row, as it stands there and as it came out here, in per cent."""

    name: str
    recorded: float
    here: float
    within: float  # points; 0: to the last digit of the file

    @property
    def agrees(self) -> bool:
        """Return whether the two are the same, as far as they have to be."""
        return round(abs(self.recorded - self.here), _DIGITS) <= self.within


@dataclass(frozen=True)
class Verdict:
    """What came of a row.

    ``others`` are parts of the certificate whose difference makes it another run,
    ``circumstances`` those that only make it another machine or version.
    """

    where: str
    numbers: tuple[Number, ...] = ()
    others: tuple[str, ...] = ()
    circumstances: tuple[str, ...] = ()
    why_not: str = ""  # nothing was run

    @property
    def agrees(self) -> bool:
        """Return whether it is the same experiment and says the same."""
        return not self.why_not and not self.others and all(n.agrees for n in self.numbers)

    @property
    def sentence(self) -> str:
        """Return the verdict in words."""
        if self.why_not:
            return f"{self.where} {self.why_not}"
        if self.others:
            return f"{self.where} does not agree, it is another run: {'; '.join(self.others)}"
        elsewhere = f" ({'; '.join(self.circumstances)})" if self.circumstances else ""
        wrong = next((n for n in self.numbers if not n.agrees), None)
        if wrong is not None:
            asked = f"within {wrong.within:.2f} points" if wrong.within else "exactly"
            return (
                f"{self.where} does not agree: {wrong.name} {wrong.recorded:.{_DIGITS}f} in the "
                f"file, {wrong.here:.{_DIGITS}f} here, expected {asked}{elsewhere}"
            )
        first = self.numbers[0]
        if not self.circumstances:
            return f"{self.where} agrees exactly: {first.name} {first.here:.{_DIGITS}f}"
        widest = max(self.numbers, key=lambda n: abs(n.recorded - n.here))
        gap = abs(widest.recorded - widest.here)
        return (
            f"{self.where} agrees within {widest.within:.2f} points, the largest difference is "
            f"{gap:.{_DIGITS}f} in {widest.name}{elsewhere}"
        )


def recheck(row: Recorded, again: Again, progress: Show | None = None) -> Verdict:
    """Run a row again and compare; weights that are not the row's are a disagreement."""
    if row.why_not:
        return Verdict(row.where, why_not=row.why_not)
    try:
        made = [again(certificate, progress) for certificate in row.certificates]
    except OtherWeightsError as error:
        return Verdict(row.where, others=(str(error),))
    pairs = list(zip(row.certificates, made, strict=True))
    parts = [part for part in PARTS if part != "command"]
    changed = dict.fromkeys(
        (part, told)
        for there, run in pairs
        for part in parts
        for told in differences(part, there, run.certificate)
    )
    strange = tuple(told for part, told in changed if part in CIRCUMSTANCES)
    numbers = tuple(
        Number(name, value, here, _within(name, made[0]) if strange else 0.0)
        for name, value in row.numbers.items()
        if (here := _mean(name, made)) is not None
    )
    others = [told for part, told in changed if part not in CIRCUMSTANCES]
    gone = sorted(set(row.numbers) - {n.name for n in numbers})
    others += [f"there is no {name} here" for name in gone]
    return Verdict(row.where, numbers, tuple(others), strange)


def differences(part: str, there: Certificate, here: Certificate) -> list[str]:
    """Return how a part of two certificates differs; what is new here does not count.

    >>> differences("versions", {"versions": {"torch": "2.4"}}, {"versions": {"torch": "2.5"}})
    ['versions.torch 2.4, here 2.5']
    """
    old, new = there[part], here.get(part)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return [] if old == new else [f"{part} {old}, here {new}"]
    found = []
    for key, value in old.items():
        now = new.get(key)
        if isinstance(value, Mapping) and isinstance(now, Mapping):
            name = f"{part}.{key}"
            found += differences(name, {name: value}, {name: now})
        elif value != now and key not in _NAMES:
            found.append(f"{part}.{key} {value}, here {now}")
    return found


def _mean(name: str, made: list[Result]) -> float | None:
    found = [
        run.undecoded_error if name == "undecoded_error" else measured(run, name) for run in made
    ]
    there = [value for value in found if value is not None]
    return fmean(there) if len(there) == len(made) else None


def _within(name: str, run: Result) -> float:
    """Return the points that a number may be off elsewhere."""
    groups = 1
    if name.startswith("error in "):
        groups = max(1, len(run.errors))
    elif name.startswith("round "):
        groups = max(1, len(run.rounds))
    return round(POINTS + 100 * IMAGES * groups / max(1, run.samples), 4)
