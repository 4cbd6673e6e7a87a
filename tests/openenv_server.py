"""An OpenEnv server on loopback: guess a number. ``python openenv_server.py PORT``."""

import random
import sys

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Guess(Action):
    number: int


class Told(Observation):
    hint: str


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, most=8, **_):
        self._number = random.Random(seed).randrange(most)
        self._steps = 0
        return Told(hint=f"guess a number below {most}")

    def step(self, action, **_):
        self._steps += 1
        if action.number == self._number:
            return Told(hint="right", reward=1.0, done=True)
        return Told(hint="more" if action.number < self._number else "less", reward=0.0)

    @property
    def state(self):
        return State(step_count=self._steps)


if __name__ == "__main__":
    app = create_fastapi_app(Guessing, Guess, Told, max_concurrent_envs=16)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
