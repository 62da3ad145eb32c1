import pytest

from multipool.memory import MultiClusterMemory


@pytest.mark.parametrize(
    ("distance", "threshold"), [("l2", 0.3), ("l1", 0.5), ("cosine", 0.05), ("mahalanobis", 1.0)]
)
def test_each_distance_has_the_papers_best_threshold(distance, threshold):
    assert MultiClusterMemory(100, distance=distance).options.tau == threshold


def test_features_have_their_own_threshold():
    assert MultiClusterMemory(100, descriptor="feature").options.tau == 5.0


@pytest.mark.parametrize("descriptor", ["spatial_mean", "histogram"])
def test_two_descriptors_ask_for_a_threshold(descriptor):
    with pytest.raises(ValueError, match="has no default threshold; pass threshold="):
        MultiClusterMemory(100, descriptor=descriptor)
    MultiClusterMemory(100, descriptor=descriptor, threshold=0.5)


@pytest.mark.parametrize(
    "bad",
    [
        {"num_classes": 1},
        {"num_classes": "100"},
        {"capacity": 0},
        {"capacity": True},
        {"max_clusters": 0},
        {"threshold": -0.1},
        {"threshold": float("nan")},
        {"threshold": "0.3"},
        {"age_weight": -1.0},
        {"uncertainty_weight": float("inf")},
        {"distance_weight": float("nan")},
        {"fill": 1},
        {"seed": -1},
        {"class_quota": 0},
        {"run_share": 0.5},
        {"run_share": 1.01},
        {"run_share": "0.7"},
    ],
)
def test_a_senseless_number_is_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        MultiClusterMemory(**{"num_classes": 100, **bad})


@pytest.mark.parametrize(
    "what",
    [
        "descriptor",
        "distance",
        "consolidation",
        "retrieval",
        "spawn",
        "replacement",
        "storage",
        "age_unit",
    ],
)
def test_an_unknown_name_lists_the_known_ones(what):
    with pytest.raises(ValueError, match=f"unknown {what} 'nothing'; choose one of"):
        MultiClusterMemory(100, **{what: "nothing"})


def test_an_infinite_threshold_keeps_everything_together():
    assert MultiClusterMemory(100, threshold=float("inf")).options.tau == float("inf")
