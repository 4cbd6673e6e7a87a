"""Replaying a decoding step as a CUDA graph while only the contents of its tensors change.

At small batches a GPU decodes faster than Python can launch its kernels; a graph launches all of
them at once. Written without a GPU at hand: tests on a CPU cover when a step is captured and
that it reads only tensors that stay in place, but not `cuda_capture` itself.
"""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

Step = Callable[[], Tensor]


def cuda_capture(step: Step) -> Step:
    """Record the kernels of ``step``; the result runs them and returns the same tensor again."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


class StepGraphs:
    """Captures a step the second time that it comes with the same key, and replays it from then on.

    The first time it runs as it is: that warms up libraries, and a shape that does not come again
    costs nothing. Only the newest graph is kept.
    """

    def __init__(self, capture: Callable[[Step], Step] = cuda_capture) -> None:
        self._capture = capture
        self._key: Hashable = None
        self._replay: Step | None = None

    def knows(self, key: Hashable) -> bool:
        """Whether the last step had this key."""
        return key == self._key

    def run(self, key: Hashable, step: Step) -> Tensor:
        """Run ``step``; with an equal key it must read and write the same tensors."""
        if not self.knows(key):
            self._key, self._replay = key, None
            return step()
        if self._replay is None:
            self._replay = self._capture(step)
        return self._replay()
