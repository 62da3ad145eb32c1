from multipool.bench.speed.guard import GuardCost, measure_guard


def test_the_cost_is_what_a_guarded_batch_and_its_share_of_a_look_add():
    cost = GuardCost("tent", None, 100.0, 101.0, 1.5)
    assert (cost.percent, cost.most) == (1.375, 2.5)  # a quarter of the looks while all is well


def test_each_pair_is_measured_and_what_learns_nothing_is_never_looked_at(make_net, make_images):
    pairs = [("tent", None), ("bn", None), ("neo", None), ("rotta", "mcm")]
    found = measure_guard(make_net(), make_images(64), pairs, batch_size=8, batches=2, warm_up=1)
    assert [(cost.method, cost.memory) for cost in found] == pairs
    assert all(cost.milliseconds > 0 and cost.guarded > 0 for cost in found)
    assert [cost.look > 0 for cost in found] == [True, False, False, True]
