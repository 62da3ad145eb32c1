"""How belief is divided: golden cases by hand."""

import numpy as np
import pytest

from multipool.decode.belief import HEATS, believe


def test_before_any_evidence_the_gate_has_its_prior_and_is_closed():
    belief = believe(np.zeros(HEATS), 0.0)
    assert belief.gate == pytest.approx(0.3)
    assert not belief.weights.any()


def test_frequencies_that_foretell_as_well_keep_the_gate_closed():
    evidence = np.full(HEATS, 50.0)
    assert believe(evidence, 0.0).gate > 0.999
    assert believe(evidence, 50.0).gate < 0.5
    assert believe(evidence, 500.0).gate == pytest.approx(0.0)


def test_a_higher_temperature_must_be_ahead_by_as_much_as_it_is_higher():
    def ahead(lead):
        return believe(np.array([40.0, 40.0 + lead, 40.0]), 0.0).weights

    assert ahead(2.0)[0] > 0.99
    assert ahead(7.5)[0] == pytest.approx(ahead(7.5)[1])
    assert ahead(15.0)[1] > 0.99
    third = believe(np.array([40.0, 40.0, 55.0]), 0.0)  # twice as far, twice as much
    assert third.weights[2] == pytest.approx(third.weights[0])
    assert third.weights.sum() == pytest.approx(third.gate)


def test_temperatures_alone_do_not_open_the_gate():
    belief = believe(np.array([0.0, 1000.0, 1000.0]), 0.0)
    assert belief.gate < 0.5
    assert not belief.weights.any()


def test_what_was_not_shown_is_not_believed():
    belief = believe(np.full(HEATS, 50.0), 0.0, shown=False)
    assert belief.gate == 0.0
    assert not belief.weights.any()
