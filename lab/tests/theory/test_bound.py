import math
from itertools import product

import numpy as np
import pytest

from lab.benchmarks.theory.bound import (
    C_F,
    Policies,
    bonus,
    divergence,
    kl,
    margin,
    near_the_reference,
    theorem_1,
    total_variation,
    trust_region,
)
from lab.benchmarks.theory.mdp import MDP, bandit, deterministic, random_mdp

P, Q = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])


def three(mdp, seed):
    states, actions = mdp.rewards.shape
    random = np.random.default_rng(seed)
    tables = [random.dirichlet(np.ones(actions), states) for _ in range(3)]
    return Policies(policy=tables[0], old=tables[1], reference=tables[2])


def test_divergences_by_hand():
    forward = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    reverse = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert divergence("forward_kl", P, Q) == pytest.approx([forward])
    assert divergence("reverse_kl", P, Q) == pytest.approx([reverse])
    u = P / Q  # the generator of the package's Jensen-Shannon
    by_generator = (Q * (u * np.log(u) - (u + 1) * np.log((u + 1) / 2))).sum(-1)
    assert divergence("jensen_shannon", P, Q) == pytest.approx(by_generator)
    assert total_variation(P, Q) == pytest.approx([0.25])


def test_what_one_side_lacks_is_infinitely_far_and_what_both_lack_is_not():
    assert kl(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])) == [math.inf]
    assert kl(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]])) == [0.0]


@pytest.mark.parametrize("name", C_F)
def test_the_constants_bound_the_total_variation(name):
    random = np.random.default_rng(0)
    p, q = (random.dirichlet(np.full(3, 0.3), 2000) for _ in range(2))
    assert (total_variation(p, q) ** 2 <= C_F[name] * divergence(name, p, q) + 1e-12).all()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("name", C_F)
def test_trust_region_and_reference_bound_hold_for_any_three_policies(gamma, name):
    for seed in range(30):
        mdp = random_mdp(3, 3, gamma, seed=seed)
        policies = three(mdp, seed)
        assert trust_region(mdp, policies).holds
        assert near_the_reference(mdp, policies, name=name).holds


def test_the_trust_region_bound_is_tight_enough_to_fail_at_a_fiftieth():
    # Otherwise the test above would say nothing about the constants.
    found = 0
    for seed in range(200):
        mdp = random_mdp(2, 2, 0.5, seed=seed)
        old = np.random.default_rng(seed).dirichlet(np.ones(2), 2)
        policies = Policies(policy=0.9 * old + 0.1 * old[:, ::-1], old=old, reference=old)
        bound = trust_region(mdp, policies)
        found += bound.left < bound.right / 50 - 1e-12
    assert found


def test_the_reference_bound_by_hand():
    # Rewards 1 and 0, old right half the time, reference always, policy three times in ten.
    policies = Policies(
        policy=np.array([[0.3, 0.7]]), old=np.array([[0.5, 0.5]]), reference=np.array([[1.0, 0.0]])
    )
    bound = near_the_reference(bandit(np.array([1.0, 0.0])), policies, name="forward_kl")
    assert bound.left == pytest.approx(0.3 - 0.5)
    # delta = 1 - 0.5 over the old policy; eps_ref = |0 - 1|; KL(ref || pi) = -log 0.3.
    assert bound.right == pytest.approx(0.5 - 2 * math.sqrt(0.5 * -math.log(0.3)))


def test_a_reference_margin_over_the_policy_means_that_the_reference_is_better():
    held = 0
    for seed in range(200):
        mdp = random_mdp(2, 3, 0.8, seed=seed)
        policies = three(mdp, seed)
        delta = margin(mdp, policies, over="policy")
        held += delta > 0
        reference, policy = mdp.value(policies.reference), mdp.value(policies.policy)
        assert reference >= policy + delta / (1 - 0.8) - 1e-9
    assert held > 10


def test_the_bonus_and_the_right_side_by_hand():
    mdp = random_mdp(2, 2, 0.5, seed=4)
    policies = three(mdp, 4)
    alpha_2 = max(divergence("forward_kl", policies.policy, policies.reference))
    eps_ref = abs(mdp.advantages(policies.reference)).max()
    eps_f = bonus(mdp, policies, delta=0.3, name="forward_kl")
    assert eps_f == pytest.approx(0.3 / 0.5 - 0.5 * 0.5 * alpha_2 * eps_ref / 0.25)
    alpha_1 = max(kl(policies.policy, policies.old))
    eps_pi = abs(mdp.advantages(policies.policy)).max()
    right = theorem_1(mdp, policies, eps_f=eps_f).right
    assert right == pytest.approx(-2 * 0.5 * alpha_1 * eps_pi / 0.25 + eps_f)


def policy_of(mdp, seed=0):
    states, actions = mdp.rewards.shape
    return np.random.default_rng(seed).dirichlet(np.ones(actions), states)


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
