"""How belief is divided: golden cases by hand."""

import numpy as np
import pytest

from multipool.decode.bank import CHAINS, HEAT, STAY, believe


def test_before_any_evidence_the_gate_has_its_prior_and_is_closed():
    belief = believe(np.zeros(CHAINS), 0.0)
    assert belief.gate == pytest.approx(0.3)
    assert belief.persistence == 0.0
    assert not belief.weights.any()


def test_frequencies_that_foretell_as_well_keep_the_gate_closed():
    evidence = np.full(CHAINS, 50.0)
    assert believe(evidence, 0.0).gate > 0.999
    assert believe(evidence, 50.0).gate < 0.5
    assert believe(evidence, 500.0).gate == pytest.approx(0.0)


def test_the_best_chain_has_the_weight_and_says_the_persistence():
    evidence = np.zeros(CHAINS)
    evidence[STAY == 0.6] = 40.0
    belief = believe(evidence, 0.0)
    assert belief.persistence == pytest.approx(0.6)
    assert belief.weights[STAY == 0.6] == pytest.approx(1.0)


def test_higher_temperatures_count_with_strong_persistence_only():
    evidence = np.zeros(CHAINS)
    evidence[HEAT == 2] = 60.0
    evidence[1] = 40.0  # stays with 0.6
    assert not believe(evidence, 0.0).weights[HEAT > 0].any()
    evidence[1], evidence[4] = 0.0, 40.0  # stays with 0.95
    belief = believe(evidence, 0.0)
    assert belief.weights[HEAT == 2].sum() == pytest.approx(belief.gate)


def test_temperatures_alone_do_not_open_the_gate():
    evidence = np.zeros(CHAINS)
    evidence[HEAT > 0] = 1000.0
    assert believe(evidence, 0.0).gate < 0.5


def test_what_was_not_shown_is_not_believed():
    belief = believe(np.full(CHAINS, 50.0), 0.0, shown=False)
    assert belief.gate == belief.persistence == 0.0
    assert not belief.weights.any()
