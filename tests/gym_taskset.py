"""Tasksets of verifiers without tools: questions of reasoning-gym, with its own scorer."""

import reasoning_gym
import verifiers.v1 as vf


def questions(task, **config):
    return reasoning_gym.create_dataset(task, seed=3, size=20, **config)


def taskset_of(task, **config):
    made = questions(task, **config)

    class GymData(vf.TaskData):
        entry: int

    class GymTask(vf.Task[GymData]):
        @vf.reward
        async def right(self, trace) -> float:
            return made.score_answer(trace.last_reply, made[self.data.entry])

    class GymTaskset(vf.Taskset[GymTask, vf.TasksetConfig]):
        def load(self):
            for place in range(len(made)):
                yield GymTask(GymData(prompt=made[place]["question"], entry=place))

    return GymTaskset


Sums = taskset_of("chain_sum", min_terms=2, max_terms=2)
__all__ = ["Sums"]
