"""Which rows each table comes from, or why it has none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ablations
import decoded
import distinct
import domains
import explorations
import few
import imagenet
import left_out
import looks
import near
import recurring
import regrets
import routing
import small
import speeds
import streams

Expected = dict[str, list[list[float] | None]]
Key = tuple[str, str, str]  # page, heading above, first two cells of the header

RESULTS, FOUND = "docs/notebook/results.md", "docs/results/index.md"
_SHORT, _WHOLE = "1,000 images of each corruption", "The whole stream"
_OTHER, _CHOICES = "CIFAR-10-C and Tiny-ImageNet-C", "How the choices were made"
_ABLATIONS = "The paper's ablations"
_RECURRING = "Recurring streams with the paper's models"
_STEPS = "Longer steps for LayerNorm"
_IMAGENET = "docs/guides/imagenet.md"
_BY_SHARE = "share of layers with the batch's statistics | none"

# A table by its key -> what its cells must say.
TABLES: dict[Key, Callable[[], Expected]] = {
    (FOUND, "What the paper's memory brings", " | source"): streams.short_and_whole,
    (FOUND, "One default for every stream", "method | regret, mean"): regrets.regrets,
    **{
        ("docs/compare.md", heading, "method | ptta"): partial(small.regrets, decoded)
        for heading, decoded in (
            ("The decoder on for all methods", True),
            ("The decoder off for all, from the same runs", False),
        )
    },
    **{
        ("docs/compare.md", f"{how}, {name}", " | ptta"): partial(
            regrets.errors,
            "compare",
            name.lower().replace("r-", "r", 1),
            regrets.TEN,
            column,
            left_out,
        )
        for name in ("CIFAR-10-C", "CIFAR-100-C")
        for how, column, left_out in (
            ("Without the decoder", "undecoded_error", ()),
            ("With the sequence decoder, for every method", "error", ("roid",)),
        )
    },
    **{
        ("docs/compare.md", f"{name}, undecoded, seed 0", " | ptta"): partial(
            regrets.errors,
            "field",
            name.lower().replace("r-", "r", 1),
            regrets.NINE,
            "undecoded_error",
        )
        for name in ("CIFAR-10-C", "CIFAR-100-C")
    },
    ("docs/compare.md", "Larger models and more classes", " | WRN-28-10, ptta"): regrets.models,
    ("docs/compare.md", "Severity that climbs and falls", " | rmt"): regrets.gradual,
    ("docs/compare.md", "Few classes", " | CIFAR-10-C, few-1"): few.compared,
    ("docs/compare.md", "Few classes", "seeds 0 to 2 | CIFAR-10-C, few-1"): few.three_seeds,
    ("docs/compare.md", "What each part adds", " | C10: ptta"): regrets.ablation,
    ("docs/compare.md", "Learning while a pool is new", " | C10: ptta"): regrets.learned,
    **{
        ("docs/compare.md", heading, " | CIFAR-10-C, ptta"): partial(
            regrets.without_batchnorm, file
        )
        for heading, file in (("LayerNorm, a small ViT", "layernorm"), ("GroupNorm", "groupnorm"))
    },
    ("docs/compare.md", "CIFAR-100-C, undecoded, seed 0", " | CIFAR-10-C, WRN-16-2"): regrets.whole,
    ("docs/compare.md", "Whole streams without BatchNorm", " | ViT, CIFAR-10-C"): (
        regrets.whole_without_batchnorm
    ),
    ("docs/compare.md", "BatchNorm put in", " | GroupNorm, C10, ptta"): regrets.put_in,
    ("docs/compare.md", "BatchNorm put in", "seeds 0 to 2 | GroupNorm, C10, ptta"): (
        partial(regrets.put_in, "012", ("multipool +", "membn +", "bn +", "source"))
    ),
    ("docs/compare.md", "BatchNorm put in", "whole streams | GroupNorm, CIFAR-10-C"): (
        regrets.put_in_whole
    ),
    ("docs/performance.md", "On an H200", " | by the clock"): speeds.kernels,
    ("docs/performance.md", "Precision", " | C10, WRN-16-2: ptta"): regrets.precisions,
    (RESULTS, _WHOLE, "method | its own pool"): lambda: streams.hosts(streams.WHOLE),
    (RESULTS, _WHOLE, " | motion"): lambda: streams.by_corruption(streams.WHOLE),
    (RESULTS, _SHORT, "method | its own pool"): lambda: streams.hosts(streams.SHORT),
    (RESULTS, _SHORT, " | motion"): lambda: streams.by_corruption(streams.SHORT),
    (RESULTS, _OTHER, "CIFAR-10-C, WRN-28-10 (source 44.75) | its own pool"): (
        lambda: streams.seeds(streams.CIFAR10, paper=True)
    ),
    (RESULTS, _OTHER, "Tiny-ImageNet-C, ResNet-18 (source 80.26) | its own pool"): (
        lambda: streams.seeds(streams.TINY, paper=False)
    ),
    (
        RESULTS,
        "CIFAR-10-C with the paper's WRN-28-10, whole streams",
        "whole stream, WRN-28-10 | its own pool",
    ): streams.wide_whole,
    (
        RESULTS,
        "CIFAR-10-C with the paper's WRN-28-10, whole streams",
        "WRN-28-10, seed 0 | undecoded",
    ): streams.wide_every,
    (
        RESULTS,
        "CIFAR-10-C with the paper's WRN-28-10, whole streams",
        "WRN-28-10, seeds 0 to 2 | undecoded",
    ): streams.wide_seeds,
    (RESULTS, _CHOICES, "bank | difference"): explorations.first,
    (RESULTS, _CHOICES, "bank | CIFAR-10-C"): explorations.third,
    (RESULTS, _CHOICES, "bank | RoTTA, CIFAR-10-C"): explorations.fourth,
    (RESULTS, _CHOICES, "bank | 1,000 a domain"): explorations.fifth,
    (
        "docs/notebook/pools.md",
        "What was tried",
        "rule | made-up, CIFAR-10, ptta-1000",
    ): explorations.sixth,
    (
        "docs/notebook/pools.md",
        "Learning by gradients",
        " | C10 extra, random",
    ): explorations.seventh,
    (
        "docs/notebook/pools.md",
        "Learning while a pool is new",
        " | C10 extra, random, 5,000",
    ): explorations.eighth,
    (
        "docs/notebook/pools.md",
        "Learning while a pool is new",
        " | ViT, C10, random",
    ): explorations.eighth_without_batchnorm,
    (
        "docs/notebook/pools.md",
        "Learning from decoded labels",
        " | C10 extra, 5,000",
    ): left_out.ninth,
    (
        "docs/notebook/pools.md",
        "A second network",
        " | C10 extra, random",
    ): left_out.tenth,
    ("docs/notebook/pools.md", "A change inside a window", " | C10 extra, random"): routing.changes,
    ("docs/notebook/pools.md", "A change inside a window", "new, same | C10 extra, random"): (
        routing.thresholds
    ),
    ("docs/notebook/pools.md", _STEPS, " | C10 extra, random"): routing.steps,
    ("docs/notebook/pools.md", _STEPS, " | C10, random"): routing.long_steps,
    (
        "docs/notebook/pools.md",
        "Whatever the norm, and in long runs",
        " | C10 extra, random",
    ): routing.recentred,
    ("docs/notebook/pools.md", "Two thresholds for new pools", " | bn"): near.thresholds,
    ("docs/notebook/pools.md", "Few classes", " | one of ten classes, batches of 64"): routing.few,
    ("docs/notebook/pools.md", "Few classes", _BY_SHARE): few.layers,
    ("docs/notebook/pools.md", "Few classes", " | source"): few.surer,
    (
        "docs/notebook/pools.md",
        "The images that come back",
        " | C10, random, the same images",
    ): distinct.explored,
    ("docs/notebook/pools.md", "Long runs", " | C10 extra, 10,000"): distinct.long_runs,
    ("docs/notebook/pools.md", "Runs that look like domains", " | C10 extra"): near.leaning,
    (
        "docs/notebook/pools.md",
        "Where BatchNorm was put in",
        "leans on pools | ViT, made-up, 650",
    ): near.reach,
    (
        "docs/notebook/pools.md",
        "In runs, with a larger model",
        "undecoded / decoded | C100 extra, ResNeXt-29",
    ): left_out.in_runs,
    ("docs/notebook/pools.md", "A second look", " | one look"): looks.views,
    ("docs/notebook/pools.md", "A second look", "looks again at | C10, random"): (
        looks.in_the_method
    ),
    ("docs/notebook/pools.md", "Clean images and short domains", " | GroupNorm, C10"): looks.clean,
    ("docs/compare.md", "No image twice", " | mean regret"): distinct.regrets,
    ("docs/compare.md", "A second look for all", " | mean regret"): distinct.mirrored,
    ("docs/compare.md", "No image twice", "multipool, seeds 0 to 2 | ptta"): distinct.three,
    ("docs/compare.md", "No image twice", "CIFAR-100-C, seeds 0 to 2 | multipool"): (
        distinct.nearest
    ),
    ("docs/compare.md", "No image twice", " | CIFAR-10-C, ctta"): distinct.seeds,
    **{
        ("docs/compare.md", f"No image twice, {name}", " | ptta"): partial(
            distinct.cells, name.lower().replace("r-", "r", 1)
        )
        for name in ("CIFAR-10-C", "CIFAR-100-C")
    },
    ("docs/multipool.md", "Few classes", "classes shown | draws of classes"): few.shown,
    ("docs/notebook/decoder.md", "Runs of several kinds", "stream | domains"): decoded.streams,
    (RESULTS, "Every method", "method | CIFAR-10-C"): streams.every_method,
    (RESULTS, _ABLATIONS, "table 2, against PeTTA (56.84) | ours"): ablations.table2,
    (RESULTS, _ABLATIONS, "table 3, against threshold 0.3 (53.90) | ours"): ablations.table3,
    (RESULTS, _ABLATIONS, "table 4, against ACC (53.90) | ours"): ablations.table4,
    (
        RESULTS,
        "The ablations on whole streams",
        " | whole stream, ResNeXt-29",
    ): ablations.whole,
    (
        RESULTS,
        "The ablations on whole streams",
        "figure 3, whole streams | pool of 64",
    ): recurring.pools,
    (RESULTS, _RECURRING, "20 rounds of 1,500 images | CIFAR-100-C: round 1"): recurring.rounds,
    (RESULTS, _RECURRING, "threshold, against 0.3 (52.81) | ours"): recurring.thresholds,
    (RESULTS, _ABLATIONS, "table 5, 20 rounds | round 1"): ablations.table5,
    (RESULTS, _ABLATIONS, "table S1, mean of 20 rounds, against 0.3 (53.63) | ours"): (
        ablations.table_s1_s2
    ),
    (RESULTS, "TENT, with and without the guard", " | seed 0"): streams.tent_and_guard,
    (RESULTS, "The source models", "set, model | mean"): streams.source_models,
    (RESULTS, "The embedded dataset", " | error"): streams.shapes,
    (_IMAGENET, "All methods", "method | random order: mean"): imagenet.all_methods,
    (_IMAGENET, "Throughput and memory", "method | images a second"): imagenet.alone,
    (
        "docs/results/domains.md",
        "What came out",
        "method | random order: mean",
    ): domains.adapted,
}

_PLACE = "from error curves of result.json files that were not kept"
_UNKEPT = "a quick exploration by a script that is not kept, as the page says"
_PUBLIC = "runs of others' code beside ours, whose results were compared and not kept"

# Tables of results whose rows are not in docs/data.
WITHOUT_ROWS: dict[Key, str] = {
    ("docs/notebook/pools.md", "Few classes", " | one of ten, batches of 64"): _UNKEPT,
    (RESULTS, _WHOLE, " | the stretch with the change in it"): _PLACE,
    (RESULTS, "Against the published implementations", " | images"): _PUBLIC,
    (RESULTS, "Against the published implementations", "method | ours"): _PUBLIC,
    ("docs/methods/come.md", '`loss="come"`: COME in TENT, EATA and SAR', "method | ours"): _PUBLIC,
    (RESULTS, "Streams and memories, measured", "memory | imbalance"): (
        "facts of a memory while it ran, of result.json files that were not kept"
    ),
    (
        "docs/methods/membn.md",
        "Choices where the publication leaves one",
        "threshold | CIFAR-10-C, ptta",
    ): ("one seed that chose a threshold; not results, and the runs were not kept"),
    ("docs/notebook/pools.md", "Few classes", " | one of a hundred"): _UNKEPT,
    ("docs/notebook/pools.md", "A bias, before the decoder", "runs | images of a domain"): _UNKEPT,
    ("docs/notebook/pools.md", "Runs that look like domains", " | n"): _UNKEPT,
    ("docs/notebook/pools.md", "Re-centred features", " | C10 extra, random"): (
        "rules tried offline on features that were not kept; they chose one and are no results"
    ),
    ("docs/start/your-model.md", "Source models without BatchNorm", " | CIFAR-10"): (
        "errors of files of weights that are not kept; the commands that train them are above it"
    ),
    ("docs/notebook/decoder.md", "Speed", " | 10 classes"): (
        "times of one machine, as the page says; no errors"
    ),
    ("docs/notebook/decoder.md", "The first images", "ten classes | source"): _UNKEPT,
    ("docs/notebook/decoder.md", "Exploration", "stream | method"): (
        "one seed that chose the decoder's constants; not results, and the runs were not kept"
    ),
}

# Pages whose tables are measurements in place, each with its command beside it.
PAGES_WITHOUT_ROWS: dict[str, str] = {
    "docs/guides/choose.md": "advice; its one decimal is a learning rate",
    "docs/guides/serve.md": "latencies, bytes and faults, each with its command; no errors",
    "docs/notebook/verified.md": "others' code beside ours; the runs were compared and not kept",
    "docs/reference/weights.md": "the shipped model's error is in the header of its file",
    "docs/compare.md": "its small comparison is made again by its command, from embedded data",
    "docs/notebook/corruptions.md": "agreement, speed and parameters: no stream was run",
    "docs/notebook/diagnose.md": "facts of memories and streams: no error is compared",
    "docs/notebook/guard.md": "what the guard sees and costs; its whole streams are in results.md",
    "docs/performance.md": "times of one machine; errors by precision have rows",
    "docs/results/claims.md": "numbers of other pages, to which tests/docs/test_claims.py holds it",
    "docs/notebook/robustness.md": "counts of trials, made again by the commands on the page",
}
