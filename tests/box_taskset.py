"""A taskset of verifiers with a tool server, which changes the state that the reward reads."""

import verifiers.v1 as vf
from pydantic import Field


class BoxState(vf.State):
    opened: list[str] = Field(default_factory=list)


class BoxData(vf.TaskData):
    box: str
    inside: str


class Boxes(vf.Toolset[vf.ToolsetConfig, BoxState]):
    async def setup_task(self, task):
        self.task = task

    @vf.tool
    async def open(self, box: str) -> str:
        """Open a box and say what is inside."""
        self.state.opened.append(box)
        return self.task.inside if box == self.task.box else "nothing"


class BoxTask(vf.Task[BoxData, BoxState]):
    @vf.reward(weight=0.75)
    async def named(self, trace) -> float:
        return float(trace.last_reply == self.data.inside)

    @vf.reward(weight=0.25)
    async def looked_once(self, trace) -> float:
        told = [message.content for message in trace.tool_messages]
        return float(trace.state.opened == [self.data.box] and told == [self.data.inside])

    @classmethod
    def toolsets(cls, _):
        return [Boxes(vf.ToolsetConfig())]


class BoxTaskset(vf.Taskset[BoxTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            data = BoxData(
                prompt=f"What is in box {number}?",
                system_prompt="Open boxes.",
                box=str(number),
                inside=f"thing {number}",
            )
            yield BoxTask(data)
            number += 1


__all__ = ["BoxTaskset"]
