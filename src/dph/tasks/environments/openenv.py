"""A client of an OpenEnv server as an environment.

    [environment]
    path = "dph.tasks.environments.openenv:OpenEnv"
    columns = { base_url = "http://127.0.0.1:8000" }

A server keeps one session for each connection, so every trajectory has its own.
"""

import json
import random
from collections.abc import Mapping
from typing import Any

from dph.errors import SettingsError


class OpenEnv:
    """One session: ``step`` takes an action, rewards of all steps are summed."""

    async def reset(
        self, base_url: str, reset: Mapping[str, Any] | None = None, **columns: Any
    ) -> str:
        """Connect and begin; the column ``reset`` holds arguments for the server's own reset."""
        try:
            from openenv.core import GenericEnvClient  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise SettingsError(f"OpenEnv needs openenv-core: {error}") from error
        del columns
        self._client = GenericEnvClient(base_url=base_url)
        await self._client.connect()
        seed = random.getrandbits(31)  # the same for all members of a group
        begun = await self._client.reset(**{"seed": seed, **(reset or {})})
        self._over, self._worth = bool(begun.done), float(begun.reward or 0.0)
        return f"\n{_text(begun.observation)}"

    async def step(self, action: dict[str, Any]) -> str:
        """Take an action and observe what it leads to.

        Args:
            action: The fields of the action, by name.
        """
        if self._over:
            raise ValueError("the episode is over")
        done = await self._client.step(action)
        self._over = bool(done.done)
        self._worth += float(done.reward or 0.0)
        said = _text(done.observation)
        return f"{said}\nThe episode is over." if self._over else said

    async def get_reward(self) -> float:
        """The sum of all rewards, which must lie in [0, 1]."""
        await self._client.disconnect()
        return self._worth


def _text(observation: Any) -> str:
    return observation if isinstance(observation, str) else json.dumps(observation, default=str)
