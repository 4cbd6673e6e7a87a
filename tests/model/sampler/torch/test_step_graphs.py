import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from dph.model.sampler.torch.shared_forward import SharedForward, StepGraphs, cuda_capture
from dph.model.sampler.torch.waves import Wave, WaveRow
from tiny_models import build_model


class Recording(TorchDispatchMode):
    """What a CUDA graph is, on a CPU: the operations and the tensors, but no Python."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, result))
        return result

    def replay(self):
        for operation, args, kwargs, result in self.operations:
            again, _ = tree_flatten(operation(*args, **kwargs))
            for old, new in zip(tree_flatten(result)[0], again, strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def record(step):
    recording = Recording()
    before = torch.get_rng_state()
    with recording:
        output = step()
    assert torch.equal(torch.get_rng_state(), before)

    def replay():
        recording.replay()
        return output

    return replay


def test_a_step_is_captured_when_it_comes_again_and_replayed_until_its_key_changes():
    events = []

    def capture(_step):
        events.append("captured")
        return lambda: events.append("replayed")

    graphs = StepGraphs(capture)
    for key in "aabbbcb":
        graphs.run(key, lambda key=key: events.append(key))
    assert events == [
        "a",
        "captured",
        "replayed",
        "b",
        "captured",
        "replayed",
        "replayed",
        "c",
        "b",
    ]


def wave_of(*prompts, samples=2):
    rows = tuple(WaveRow(0, i, p) for p in range(len(prompts)) for i in range(samples))
    return Wave(prompts=prompts, rows=rows)


@torch.no_grad()
def logits_of(model, graphs, *, steps):
    """Logits of every step of two waves; the second joins, and rows leave."""
    forward = SharedForward(model, max_tokens=steps + 1, graphs=graphs)
    found = []
    with forward.active():
        caches = [forward.start(wave_of((3, 4, 5), (6, 7)))[0]]
        for step in range(steps):
            if step == 5:
                caches.append(forward.start(wave_of((9, 8, 7, 6), samples=3))[0])
            if step == 9:
                caches[0].select(torch.tensor([0, 3], device=model.device))
            rows = sum(cache.rows for cache in caches)
            tokens = torch.arange(rows, device=model.device) + 3 + step % 7
            found.append(forward.step(caches, tokens).clone())
    return found


@pytest.mark.parametrize("family", ["llama_gqa", "gpt2", "gemma2"])
def test_a_replayed_step_reads_nothing_but_tensors_that_stay_in_place(family):
    context = {"n_positions" if family == "gpt2" else "max_position_embeddings": 96}
    model = build_model(family, **context)
    captures = []

    def capture(step):
        captures.append(1)
        return record(step)

    replayed = logits_of(model, StepGraphs(capture), steps=70)
    # At the start, when a wave joins, when rows leave, and when the first has 64 tokens.
    assert len(captures) == 4
    plain = logits_of(model, None, steps=70)
    for ours, theirs in zip(replayed, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_graphs_give_the_logits_of_plain_steps():
    model = build_model("llama_gqa", max_position_embeddings=96).to("cuda")
    captured = logits_of(model, StepGraphs(cuda_capture), steps=70)
    for ours, theirs in zip(captured, logits_of(model, None, steps=70), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
