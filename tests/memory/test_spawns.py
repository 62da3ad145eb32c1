from multipool.memory import SPAWNS


def test_gated_spawning_compares_strictly():
    assert SPAWNS["always"](0.0, 1.0)
    assert SPAWNS["gated"](1.1, 1.0)
    assert not SPAWNS["gated"](1.0, 1.0)
