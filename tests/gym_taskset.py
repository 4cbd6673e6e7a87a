"""A taskset of verifiers without tools: chains of sums of reasoning-gym, with its own scorer."""

import reasoning_gym
import verifiers.v1 as vf

_SUMS = reasoning_gym.create_dataset("chain_sum", seed=3, size=20, min_terms=2, max_terms=2)


class SumData(vf.TaskData):
    entry: int


class SumTask(vf.Task[SumData]):
    @vf.reward
    async def right(self, trace) -> float:
        return _SUMS.score_answer(trace.last_reply, _SUMS[self.data.entry])


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        for place in range(len(_SUMS)):
            yield SumTask(SumData(prompt=_SUMS[place]["question"], entry=place))


__all__ = ["Sums"]
