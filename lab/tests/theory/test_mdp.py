from itertools import product

import numpy as np
import pytest

from lab.benchmarks.theory.mdp import MDP, bandit, deterministic, random_mdp


def policy_of(mdp, seed=0):
    states, actions = mdp.rewards.shape
    return np.random.default_rng(seed).dirichlet(np.ones(actions), states)


def test_a_loop_of_reward_one_is_worth_the_geometric_series():
    mdp = MDP(transitions=np.ones((1, 1, 1)), rewards=np.ones((1, 1)), start=np.ones(1), gamma=0.75)
    assert mdp.value(np.ones((1, 1))) == pytest.approx(4.0)
    assert mdp.visits(np.ones((1, 1))) == pytest.approx([4.0])


def test_a_path_by_hand():
    # State 0: "stay" pays 0, "go" pays 1 and leads to state 1, which pays 2 for ever.
    transitions = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = MDP(
        transitions=transitions,
        rewards=np.array([[0.0, 1.0], [2.0, 2.0]]),
        start=np.array([1.0, 0.0]),
        gamma=0.5,
    )
    go = deterministic(np.array([1, 0]), 2)
    assert mdp.values(go) == pytest.approx([3.0, 4.0])  # 1 + 4 / 2, and 2 / (1 - 1/2)
    # To stay once: 0 + 3 / 2, which is 3 / 2 less than to go.
    assert mdp.advantages(go)[0] == pytest.approx([-1.5, 0.0])
    assert (mdp.best_policy()[0] == [0.0, 1.0]).all()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
def test_policy_iteration_finds_the_best_of_all_deterministic_policies(gamma):
    for seed in range(5):
        mdp = random_mdp(3, 3, gamma, seed=seed)
        every = [deterministic(np.array(c), 3) for c in product(range(3), repeat=3)]
        assert mdp.value(mdp.best_policy()) == pytest.approx(max(map(mdp.value, every)))


@pytest.mark.parametrize("gamma", [0.0, 0.6, 0.99])
def test_two_policies_differ_by_the_advantages_where_the_one_goes(gamma):
    mdp = random_mdp(4, 3, gamma, seed=1)
    new, old = policy_of(mdp, 1), policy_of(mdp, 2)
    gained = mdp.visits(new) @ (new * mdp.advantages(old)).sum(-1)
    assert mdp.value(new) - mdp.value(old) == pytest.approx(gained, rel=1e-9)


def test_the_surrogate_is_the_value_for_the_old_policy_itself_and_on_a_bandit():
    mdp = random_mdp(4, 3, 0.9, seed=2)
    old = policy_of(mdp)
    assert mdp.surrogate(old, old) == pytest.approx(mdp.value(old))
    arms = bandit(np.array([0.2, 1.0, 0.4]))
    new, old = policy_of(arms, 1), policy_of(arms, 2)
    assert arms.surrogate(new, old) == pytest.approx(arms.value(new))


def test_visits_sum_to_the_horizon():
    mdp = random_mdp(4, 3, 0.9, seed=3)
    assert mdp.visits(policy_of(mdp)).sum() == pytest.approx(10.0)


def test_a_discount_of_one_is_refused():
    with pytest.raises(ValueError, match="gamma must lie in"):
        random_mdp(2, 2, 1.0, seed=0)
