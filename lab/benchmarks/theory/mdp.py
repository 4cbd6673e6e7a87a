"""Tabular decision problems: values, advantages and the best policy, by linear solves.

A policy is a table [states, actions] whose rows are distributions. Rewards are discounted by gamma
and summed (not averaged), in float64.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class MDP:
    """A discounted problem with S states and A actions.

    Attributes:
        transitions: [S, A, S], P(next state | state, action).
        rewards: [S, A].
        start: [S], distribution of the first state.
        gamma: discount in [0, 1).
    """

    transitions: Array
    rewards: Array
    start: Array
    gamma: float

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise ValueError(f"gamma must lie in [0, 1), got {self.gamma}")
        if not np.allclose(self.transitions.sum(-1), 1) or not np.isclose(self.start.sum(), 1):
            raise ValueError("transitions and start must be distributions")

    @cached_property
    def states(self) -> int:
        """How many states there are."""
        return len(self.start)

    def values(self, policy: Array) -> Array:
        """V [S] of a policy: (I - gamma P_pi) V = r_pi."""
        rewards = (policy * self.rewards).sum(-1)
        return np.linalg.solve(np.eye(self.states) - self.gamma * self._chain(policy), rewards)

    def value(self, policy: Array) -> float:
        """J: the expected value of the first state."""
        return float(self.start @ self.values(policy))

    def advantages(self, policy: Array) -> Array:
        """A [S, A] of a policy: Q - V."""
        values = self.values(policy)
        return self.rewards + self.gamma * self.transitions @ values - values[:, None]

    def visits(self, policy: Array) -> Array:
        """Discounted visits [S] of a policy, which sum to 1 / (1 - gamma)."""
        chain = np.eye(self.states) - self.gamma * self._chain(policy)
        return np.asarray(np.linalg.solve(chain.T, self.start), dtype=np.float64)

    def surrogate(self, policy: Array, old: Array) -> float:
        """L of TRPO (arXiv:1502.05477, eq. 3): J(old) + E over old's visits of the advantage."""
        gain = (policy * self.advantages(old)).sum(-1)
        return self.value(old) + float(self.visits(old) @ gain)

    def best_policy(self) -> Array:
        """A deterministic policy that no other beats in any state, by policy iteration."""
        chosen = np.zeros(self.states, dtype=int)
        while True:
            advantages = self.advantages(deterministic(chosen, self.rewards.shape[1]))
            better = np.where(advantages.max(-1) > 1e-12, advantages.argmax(-1), chosen)
            if (better == chosen).all():
                return deterministic(chosen, self.rewards.shape[1])
            chosen = better

    def _chain(self, policy: Array) -> Array:
        return np.asarray(np.einsum("sa,sat->st", policy, self.transitions))


def deterministic(chosen: NDArray[np.int_], actions: int) -> Array:
    """The policy that takes one action in every state."""
    return np.eye(actions)[chosen]


def random_mdp(states: int, actions: int, gamma: float, *, seed: int) -> MDP:
    """Transitions and start uniform on the simplex, rewards uniform in [0, 1]."""
    random = np.random.default_rng(seed)
    return MDP(
        transitions=random.dirichlet(np.ones(states), (states, actions)),
        rewards=random.uniform(size=(states, actions)),
        start=random.dirichlet(np.ones(states)),
        gamma=gamma,
    )


def bandit(rewards: Array) -> MDP:
    """One state, no future."""
    return MDP(
        transitions=np.ones((1, len(rewards), 1)),
        rewards=rewards[None, :],
        start=np.ones(1),
        gamma=0.0,
    )
