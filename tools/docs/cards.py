"""A card for every method: from its docstrings, its options and the rows of ``compare``."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from statistics import fmean

import standing

from multipool.bench.run.hyperparameters import HYPERPARAMETERS
from multipool.engine import Method
from multipool.methods.table import BUILT_IN

NOTES = Path(__file__).resolve().parents[2] / "docs" / "methods"
_SETS = {"cifar10-c": "CIFAR-10-C", "imagenet-c": "ImageNet-C", "domainnet126": "DomainNet-126"}
_VERIFIED = "(../notebook/verified.md)"
_COMMON = {"lr": "learning rate"}  # the same in every method
_LAYERS = {
    "none": "none needed",
    "affine": "of any kind, with weights: BatchNorm, LayerNorm, GroupNorm, InstanceNorm, RMSNorm",
    "batchnorm": "BatchNorm",
}
_STATISTICS = {
    "source": "those of training, as they are",
    "batch": "those of the batch: small batches, or batches of few classes, do harm",
    "kept": "its own, kept from batch to batch: batches may be small",
}


def overview() -> str:
    """Return the page that lists all methods."""
    lines = [
        "# Methods",
        "",
        "Every method runs behind the same call, `multipool.adapt(model, NAME)`, and is held to "
        "the same contract. *Regret* is how many points of error a method has more than the best "
        "one of the same stream, averaged over the kinds of stream of [compare](../compare.md) "
        "that it was run on, all methods without the decoder; the last column counts the streams "
        "on which it was worse than the frozen model. A dagger: of [one seed]"
        "(../compare.md#every-method-one-seed), 18 kinds of stream and all methods. A star: of "
        "the small comparison, on the embedded data, not to be held against the others. How to "
        "choose: [choose a method](../guides/choose.md). A loss for three of them is "
        "[COME](come.md).",
        "",
        "| method | what it does | needs | mean regret | worse than frozen |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, kind in BUILT_IN.items():
        layers = {"none": "", "affine": "normalisation layers", "batchnorm": "BatchNorm"}
        needs = [
            layers[kind.needs_norm],
            "a memory" if kind.takes_memory else "",
            "source data" if kind.needs_source else "",
        ]
        needed = ", ".join(filter(None, needs)) or "–"
        lines.append(f"| [`{name}`]({name}.md) | {_first(kind)} | {needed} | {_numbers(name)} |")
    return "\n".join(lines) + "\n"


def _numbers(name: str) -> str:
    one = standing.one_seed(name)
    found = one or standing.cells(name) or standing.cells(f"{name}+mcm+")
    if not found:
        return "– | –"
    mark = "\\*" if standing.is_small(found) else "†" * bool(one)
    worse = sum(cell.error > cell.frozen for cell in found)
    return f"{fmean(cell.regret for cell in found):.1f}{mark} | {worse} of {len(found)}{mark}"


def card(name: str) -> str:
    """Return the page of one method; what was written by hand, its notes, comes last."""
    kind = BUILT_IN[name]
    module = plain(inspect.getdoc(inspect.getmodule(kind)) or "")
    title, _, rest = module.partition(": ")[2].partition("\n\n")
    origin, _, facts = rest.partition("\n\n")
    told, _, example = (inspect.getdoc(kind) or "").partition("\n\nArgs:")
    parts = [
        f"# `{name}`: {kind.__name__}",
        f"*{title[:1].upper()}{title[1:]}*",
        plain(told),
        "## What it needs",
        _needs(kind),
        "## Options",
        _options(name, kind),
        "## Where it wins and where it fails",
        standing.section(name),
        "## Example",
        _example(example, kind),
        "## Reference",
        origin or "None: it is the model as it came.",
        notes(name) or facts,
        f"Every published method beside its authors' code: [held against public code]{_VERIFIED}.",
    ]
    return spelt("\n\n".join(part.strip() for part in parts if part.strip()) + "\n")


def spelt(text: str) -> str:
    """Return text that says what PTTA is where it first stands.

    >>> spelt("tables under PTTA: PTTA")
    'tables under PTTA (practical test-time adaptation: classes in runs): PTTA'
    """
    if "practical test-time adaptation" in text:
        return text
    return text.replace("PTTA", "PTTA (practical test-time adaptation: classes in runs)", 1)


def notes(name: str) -> str:
    """Return what was written by hand about a method, without its title; empty: nothing was."""
    path = NOTES / f"{name}.md"
    return path.read_text(encoding="utf-8").partition("\n")[2] if path.exists() else ""


def _needs(kind: type[Method]) -> str:
    bank = kind.prefers or kind.takes_memory
    rows = {
        "source data": "labelled images, as `source=`" if kind.needs_source else "none",
        "normalisation layers": _LAYERS[kind.needs_norm],
        "statistics it uses": _STATISTICS[kind.normalises_by],
        "memory": f"`{bank}` unless said otherwise; takes any" if bank else "none",
        "last layer": "linear: it reads the features before" if kind.reads_features else "any",
        "order of the stream": "the decoder reads it: `decode` is on"
        if kind.decodes != "none"
        else "any",
    }
    if kind.decodes != "none":
        rows["order of the stream"] = 'the true one, for the decoder; else `decode="none"`'
    if kind.expensive:
        rows["cost"] = "a prediction takes many passes"
    lines = [
        "| what | this method |",
        "| --- | --- |",
        *(f"| {what} | {said} |" for what, said in rows.items()),
    ]
    told = "Which model has what, and what happens without: [the table](../guides/models.md)."
    return "\n".join([*lines, "", told])


def _options(name: str, kind: type[Method]) -> str:
    settings = fields(kind.Config)
    if not settings:
        return "None."
    comments = {**_COMMON, **_comments(kind.Config)}
    published = HYPERPARAMETERS.get(name, {})
    rows = [plain(inspect.getdoc(kind.Config) or ""), ""]
    rows += ["| option | default | what it is |", "| --- | --- | --- |"]
    for one in settings:
        said = comments.get(one.name, "").replace("|", "\\|")
        others = [
            f"{_SETS[column]} `{_shown(values[one.name])}`"
            for column, values in published.items()
            if one.name in values
        ]
        default = "; ".join([f"`{_shown(one.default)}`", *others])
        rows.append(f"| `{one.name}` | {default} | {said} |")
    rows += ["", f"`options={{...}}` in Python, `--set {settings[0].name}=...` on the command line"]
    rows[-1] += ", where `--dataset` picks the values for its dataset." if published else "."
    return "\n".join(rows)


def _shown(value: object) -> str:
    """Return a default as people write it.

    >>> _shown(1 / 3), _shown("adam"), _shown(None), _shown(2000.0), _shown(1e-6)
    ('0.333', 'adam', 'None', '2000', '1e-06')
    """
    if isinstance(value, float) and value >= 1000 and value.is_integer():
        return str(int(value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _comments(config: type) -> dict[str, str]:
    """Return what stands beside each field in the source."""
    found = re.findall(r"^    (\w+): [^#\n]*# (.+)$", inspect.getsource(config), re.MULTILINE)
    return {name: text for name, text in found}


def _example(docstring: str, kind: type[Method]) -> str:
    """Return the docstring's example, which the tests run."""
    lines = [line.strip() for line in docstring.splitlines()]
    code = [line for line in lines if line.startswith((">>> ", "... ", "torch.Size"))]
    told = "With your own model in place of `tiny_net()`"
    told += " and batches of images and labels as `source`" if kind.needs_source else ""
    return "\n".join(["```pycon", *code, "```", "", f"{told}; the tests run these lines."])


def _first(kind: type[Method]) -> str:
    return plain(inspect.getdoc(kind) or "").split("\n")[0].replace("|", "\\|")


def plain(text: str) -> str:
    r"""Return a docstring's text as Markdown.

    >>> plain("``a`` and :class:`B`"), plain("as docs/notebook/pools.md says")
    ('`a` and `B`', 'as [pools](../notebook/pools.md) says')
    >>> plain("NeurIPS\n2022. As released")
    'NeurIPS 2022. As released'
    """
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"\bdocs/(\w+)/(\w+)\.md", r"[\2](../\1/\2.md)", text)
    text = re.sub(r"\n(?=\d+\. )", " ", text)  # a year at the start of a line is no list
    return re.sub(r"``([^`]+)``", r"`\1`", text)
