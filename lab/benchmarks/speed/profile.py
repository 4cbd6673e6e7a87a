"""Where the time of our update goes."""

from collections.abc import Mapping

from torch.profiler import ProfilerActivity, profile

from lab.benchmarks.speed.ours import Ours
from lab.benchmarks.speed.timing import timed
from lab.benchmarks.speed.world import World, build_model

KINDS: Mapping[str, tuple[str, ...]] = {
    "attention": ("attention", "Attention", "bmm"),
    "matrix products": ("mm", "linear"),
    "optimizer": ("adam", "Adam"),
}
"""An operation is of the first kind one of whose words its name has."""


def spent_in_update(world: World) -> dict[str, float]:
    """The share of an update's time in each kind of operation, and outside of all of them.

    "elsewhere" is Python and what the profiler itself costs.
    """
    ours = Ours(world, build_model(world))
    ours.step()
    minibatch = ours.next_minibatch()
    activities = [ProfilerActivity.CPU]
    if world.device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        seconds = timed(lambda: ours.learn(minibatch))
    name = "self_device_time_total" if world.device == "cuda" else "self_cpu_time_total"
    spent = dict.fromkeys((*KINDS, "other operations"), 0.0)
    for event in profiler.key_averages():
        spent[_kind(event.key)] += getattr(event, name) / 1e6
    # The backward pass has a thread of its own: operations may add up to more than has passed.
    whole = max(seconds, sum(spent.values()))
    spent["elsewhere"] = whole - sum(spent.values())
    return {kind: round(took / whole, 3) for kind, took in spent.items()}


def _kind(operation: str) -> str:
    for kind, words in KINDS.items():
        if any(word in operation for word in words):
            return kind
    return "other operations"
