"""Load against a service, and against the plain model's beside it."""

import pytest

from multipool.bench.speed.serve import Load, measure_serve


@pytest.mark.slow
def test_a_service_is_measured_beside_the_plain_model():
    load = Load(streams=3, period=0.1, seconds=0.6, turns=2, seen=65)
    ours, plain = measure_serve(["multipool"], load)
    assert (ours.method, plain.method) == ("multipool", "source")
    assert plain.times_plain == 1.0
    assert ours.times_plain == pytest.approx(ours.p50 / plain.p50)
    assert 2 * 3 <= ours.answers <= 2 * 3 * 4
    for speed in (ours, plain):
        assert 0 < speed.p50 <= speed.p99
        assert speed.cpu is None or speed.cpu >= 0
        assert speed.memory is None or 20 < speed.memory < 5000


@pytest.mark.parametrize(("name", "value"), [("streams", 0), ("period", -1.0), ("seen", -1)])
def test_a_load_of_nothing_is_refused(name, value):
    with pytest.raises(ValueError, match=f"--{name} must be a number above 0, got {value}"):
        Load(**{name: value})
