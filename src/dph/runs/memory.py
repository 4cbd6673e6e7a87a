"""Peak memory of training and of sampling, part by part.

The tensors that a forward pass keeps for its backward pass are counted layer by layer as in the
decoders of transformers: two norms, queries, keys, values, attention, a gated or plain inner layer.
``make bench`` compares the peaks with measurements (lab/benchmarks/README.md).
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dph._base.files import read_json
from dph.errors import DataError, ModelError, SettingsError
from dph.recipe import Recipe
from dph.recipe.section import Device as Wanted
from dph.recipe.tables import ALL_LINEAR, AdapterSettings

_TOTAL = "/proc/meminfo"
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU, or the machine's own memory, in bytes."""

    name: str
    cuda: bool
    memory: float


def device_at_hand(wanted: Wanted) -> Device | None:
    """The device of ``model.device``; None if nothing is known of it."""
    if wanted != "cpu" and (gpu := _gpu()) is not None:
        return gpu
    memory = None if wanted == "cuda" else _memory()
    return None if memory is None else Device(name="this machine", cuda=False, memory=memory)


def device_of(gib: float, wanted: Wanted) -> Device:
    """A device of ``gib`` GiB: a GPU, or a machine for ``cpu``.

    >>> device_of(24, "auto").name
    'a GPU of 24 GiB'
    """
    if not 0 < gib < inf:
        raise SettingsError(f"the memory of a device is above 0 GiB, got {gib:g}")
    cuda = wanted != "cpu"
    name = f"{'a GPU' if cuda else 'a machine'} of {gib:g} GiB"
    return Device(name=name, cuda=cuda, memory=gib * 2**30)


def _gpu() -> Device | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, check=True, capture_output=True, text=True, timeout=20)
        name, _, mib = done.stdout.splitlines()[0].rpartition(",")
        return Device(name=name.strip(), cuda=True, memory=float(mib) * 2**20)
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None  # a driver without a device


def _memory() -> float | None:
    """The machine's memory, or the limit of this process."""
    try:
        lines = Path(_TOTAL).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    total = next((float(x.split()[1]) * 1024 for x in lines if x.startswith("MemTotal")), None)
    for path in map(Path, _LIMITS):
        if total is not None and path.is_file() and (text := path.read_text().strip()).isdigit():
            total = min(total, float(text))
    return total


_PREFILL, _PREFILL_ON_CPU = 8192, 2048
"""Prompt tokens that the sampler runs at once (`dph.model.sampler.torch.shared_forward`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Tokens of the largest micro-batch and of the sampler.

    ``computed`` go through the model in one forward pass if common prompts are shared, ``apart`` if
    they are not; ``scored`` of them predict a token of an answer. ``several``: an update has more
    than one such pass. The sampler's cache holds ``cached`` for ``rows`` answers, and it runs
    ``prefilled`` at once.
    """

    computed: int
    apart: int
    scored: int
    scored_apart: int
    several: bool
    cached: int
    rows: int
    prefilled: int


def load_of(recipe: Recipe, *, prompt: int, common: int = 0, cuda: bool = False) -> Load:
    """The load of a recipe whose longest prompt has ``prompt`` tokens, on a GPU or a CPU.

    All prompts begin with the same ``common`` tokens (examples, a template), which are run once.
    """
    recipe = recipe.on_device(cuda=cuda)
    train, answer, sampling = recipe.train, recipe.answer_tokens, recipe.sampling
    groups = -(-train.problems_per_step // train.minibatches)
    rows = groups * train.samples_per_problem
    row, budget, own = prompt + answer, train.microbatch_tokens, prompt - common
    anchors = recipe.objective.active_anchors.values()
    stored = sum(anchor.per_step or train.rehearsal_per_step for anchor in anchors)
    stored = -(-stored // train.minibatches)
    shared = common + groups * own + rows * answer + stored * (own + answer)
    apart = (rows + stored) * row
    computed, unshared = (max(row, min(tokens, budget)) for tokens in (shared, apart))
    drawn = train.problems_per_step * train.samples_per_problem
    side_by_side = drawn if sampling.max_rows == "auto" else min(drawn, sampling.max_rows)
    prompts = -(-side_by_side // train.samples_per_problem)
    cached = prompts * prompt + side_by_side * max(answer - 1, 1)
    if sampling.cache_tokens != "auto":
        cached = min(cached, max(sampling.cache_tokens, row))
    at_once = _PREFILL if cuda else _PREFILL_ON_CPU
    return Load(
        computed=computed,
        apart=unshared,
        scored=(rows + stored) * answer * computed // max(shared, 1),
        scored_apart=unshared * answer // row,
        several=shared > budget,
        cached=cached,
        rows=side_by_side,
        prefilled=max(prompt, min(common + prompts * own, at_once)) if drawn else 0,
    )


_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes of a decoder, all in numbers, not bytes.

    ``queries`` and ``keys`` are heads x size of a head. ``linear`` are (inputs, outputs) of every
    weight matrix inside the layers, by name. ``largest`` is the size of the largest tensor.
    ``plain_head``: logits are nothing but products, so that they can be made block by block.
    """

    parameters: int
    vocabulary: int
    hidden: int
    layers: int
    queries: int
    keys: int
    inner: int
    gated: bool
    linear: Mapping[str, tuple[int, int]]
    largest: int
    plain_head: bool = True

    @property
    def head(self) -> int:
        """Numbers in the output layer."""
        return self.vocabulary * self.hidden

    @property
    def matrices(self) -> int:
        """Numbers in the weight matrices of the layers."""
        return sum(map(prod, self.linear.values()))

    def targets(self, adapter: AdapterSettings) -> list[tuple[int, int]]:
        """(inputs, outputs) of every matrix that gets an adapter."""
        names = adapter.targets
        return [
            size
            for name, size in self.linear.items()
            if names == ALL_LINEAR or name.removesuffix(".weight").rpartition(".")[2] in names
        ]

    def adapter_parameters(self, adapter: AdapterSettings) -> int:
        """Numbers that an adapter trains."""
        lengths = adapter.kind == "dora"
        return sum(
            adapter.rank * (inputs + outputs) + outputs * lengths
            for inputs, outputs in self.targets(adapter)
        )


def read_shape(directory: Path) -> ModelShape:
    """The sizes of the model in ``directory``, from its config and the headers of its weights."""
    try:
        whole = read_json(directory / "config.json")
        config = whole.get("text_config", whole)
        shapes, linear = _shapes(directory), dict[str, tuple[int, int]]()
        for name, shape in shapes.items():
            if len(shape) == 2 and name.endswith(".weight") and _LAYER.search(name):
                rows, columns = shape
                transposed = config.get("model_type") == "gpt2"
                linear[name] = (rows, columns) if transposed else (columns, rows)
        hidden = int(_first(config, "hidden_size", "n_embd"))
        heads = int(_first(config, "num_attention_heads", "n_head"))
        head = int(config.get("head_dim") or hidden // heads)
        inner = _first(config, "intermediate_size", "n_inner", default=None) or 4 * hidden
        return ModelShape(
            parameters=sum(map(prod, shapes.values())),
            vocabulary=int(config["vocab_size"]),
            hidden=hidden,
            layers=int(_first(config, "num_hidden_layers", "n_layer")),
            queries=heads * head,
            keys=int(config.get("num_key_value_heads") or heads) * head,
            inner=int(inner),
            gated=any("gate_proj" in name or "gate_up_proj" in name for name in shapes),
            linear=linear,
            largest=max(map(prod, shapes.values())),
            plain_head=all(config.get(key) in (None, 1) for key in _CHANGES_LOGITS),
        )
    except (DataError, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ModelError(f"{directory}: the sizes of the model are not known: {error}") from error


_CHANGES_LOGITS = ("final_logit_softcapping", "logits_scaling", "logit_scale")


def _shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(directory.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118  # it is no mapping
                    shapes[name] = tuple(file.get_slice(name).get_shape())
        except SafetensorError as error:
            raise ValueError(f"{path.name} is damaged: {error}") from error
    if not shapes:
        raise ValueError("there are no weights (*.safetensors)")
    return shapes


def _first(config: Mapping[str, Any], *names: str, default: Any = ...) -> Any:
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is ...:
        raise KeyError(f"the config names none of {', '.join(names)}")
    return default


_TABLE = 2**24
"""Logits above which they are computed in blocks (`dph.model.forward.logprobs`)."""
_BLOCK, _BLOCK_ON_CPU = (2**27, 4096), (2**20, 2048)
"""Logits and tokens of a block (`dph.model.forward.over_vocabulary`)."""
_STATISTIC, _STATISTIC_ON_CPU, _TABLES = 2**26, 2**24, 10
"""Numbers in a table of a term over the vocabulary (`dph.model.forward.over_vocabulary`), and
the number of such tables, half of them the term's."""
_OVER_VOCABULARY = {"entropy", "exact_reverse_kl", "exact_forward_kl"}
_BYTES_PER_LOGIT = 18
"""Bytes of a logit in a step on a GPU (`dph.model.sampler.torch.waves`)."""
_OF_FREE = 0.85
"""Share of a GPU's free memory that the sampler fills if its rows are ``auto``."""
_STATES_8_BIT = 2 * (1 + 4 / 256)
"""Bytes of a number's state in 8-bit AdamW: two codes, and a scale for every 256 of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes. ``weights`` are of the policy, an adapter, and the initial policy if it is needed.

    ``activations`` are of the largest micro-batch, with its logits and the weights that autocast
    narrows; without shared prompts they would be ``activations_apart``. ``step`` is the temporary
    memory of the optimizer's step, ``logits`` that of drawing a token. ``vllm`` is the memory of
    vLLM on a GPU while pre-sampling and evaluating.

    With verl, ``gpus`` share the weights (0: this package's own loop); all bytes are of one of
    them, and ``gathered`` are weights and gradients that are whole for a moment.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    activations_apart: float
    step: float
    cache: float
    logits: float
    vllm: float
    several: bool
    head: float
    """The gradient of the output layer, which exists while the activations still do."""
    gpus: int = 0
    gathered: float = 0.0

    @property
    def training(self) -> float:
        """The peak of an update after the first: of its backward pass, or of its step."""
        made = self.gradients if self.several else min(self.head, self.gradients)
        backward = self.activations + self.gathered + made
        return self.weights + self.optimizer + max(backward, self.gradients + self.step)

    @property
    def sampling(self) -> float:
        """The peak of drawing a step's answers, on torch or in verl."""
        drawing = self.vllm if self.gpus else self.cache + self.logits
        return self.weights + self.optimizer + drawing

    @property
    def peak(self) -> float:
        return max(self.training, self.sampling)


def estimate(
    recipe: Recipe, shape: ModelShape, load: Load, *, cuda: bool = False, gpu: float = 0.0
) -> MemoryEstimate:
    """The memory of a recipe's training and sampling, without the libraries themselves.

    ``gpu`` are the bytes of the device. Computed as: the sizes of all tensors that exist at the
    same time, with answers of full length.
    """
    recipe = recipe.on_device(cuda=cuda)
    model = recipe.model
    trained, gradient, extra = shape.parameters, float(_width(recipe)), 0.0
    if model.adapter is not None:
        trained, gradient = shape.adapter_parameters(model.adapter), 4.0
        extra = 4.0 * trained
    states = _STATES_8_BIT if gradient == 2 else 8.0
    apart = activations(
        recipe, shape, load.apart, _head(recipe, shape, load.scored_apart, cuda=cuda)
    )
    shared = activations(recipe, shape, load.computed, _head(recipe, shape, load.scored, cuda=cuda))
    weights = _weights(recipe, shape) * _models(recipe) + extra
    narrowed = 0.0 if model.adapter is not None else _narrowed(recipe, shape.matrices + shape.head)
    cache = load.cached * 2.0 * shape.layers * shape.keys * _products(recipe)
    logits, drawn = _sampling(recipe, shape, load, cuda=cuda), 1.0
    if recipe.sampling.max_rows == "auto" and gpu:  # further rows wait
        free = max(gpu - weights - trained * states - narrowed, 0.0)
        drawn = min(1.0, _OF_FREE * free / (cache + logits))
    return MemoryEstimate(
        weights=weights,
        gradients=trained * gradient,
        optimizer=trained * states,
        activations=apart if recipe.train.shared_prompts == "never" else shared,
        activations_apart=apart,
        step=_step(trained, shape, adapter=model.adapter is not None, states=states, cuda=cuda),
        cache=drawn * cache,
        logits=drawn * logits + narrowed,
        vllm=recipe.vllm.memory * gpu if recipe.sampling.engine == "vllm" else 0.0,
        several=load.several,
        head=0.0 if model.adapter is not None else shape.head * 4.0,
    )


def _width(recipe: Recipe) -> int:
    """Bytes of a number outside matrix products: in a norm, and between layers."""
    return 4 if recipe.model.weights == "float32" else 2


def _weights(recipe: Recipe, shape: ModelShape) -> float:
    """Bytes of a set of weights; of 4-bit matrices with the scales of blocks of 64, and of 256."""
    whole = float(_width(recipe) * shape.parameters)
    if recipe.model.weights != "nf4":
        return whole
    return whole - (2 - 1 / 2 - 1 / 64 - 4 / 64 / 256) * shape.matrices


def _models(recipe: Recipe) -> int:
    """Number of sets of weights: the policy's, and the initial policy's if that is needed too."""
    if recipe.model.adapter is not None:
        return 1
    compared = bool(recipe.evaluate.every and recipe.evaluate.during.compared)
    return 1 + (compared or recipe.objective.reads_reference(recipe.data.modules))


def _products(recipe: Recipe) -> int:
    """Bytes of a number in matrix products."""
    return 2 if recipe.model.dtype == "bfloat16" else 4


def activations(recipe: Recipe, shape: ModelShape, tokens: int, head: float) -> float:
    """Bytes that a pass over ``tokens`` keeps and makes, with ``head`` of its logits."""
    layer = tokens * _layer(recipe, shape)
    # Temporary tensors of a layer's backward pass, which begins when the logits are gone.
    moving: float = tokens * _products(recipe) * (2 * shape.inner + 2 * shape.hidden)
    narrowed = _narrowed(recipe, shape.matrices)
    adapter, copies = recipe.model.adapter, 0.0
    if recipe.model.weights == "nf4":  # restored from four bits, one matrix at a time
        copies += 2.0 * max(map(prod, shape.linear.values()))
    if adapter is not None and adapter.kind == "dora":  # the product of the small matrices
        copies += 1.4 * 4.0 * sum(inputs * outputs for inputs, outputs in shape.targets(adapter))
    if recipe.model.gradient_checkpointing:  # a layer and its narrowed weights are made again
        kept = shape.layers * tokens * shape.hidden * _width(recipe)
        return kept + copies + max(moving + layer + narrowed / shape.layers, head, narrowed)
    return shape.layers * layer + narrowed + copies + max(moving, head)


def _layer(recipe: Recipe, shape: ModelShape) -> float:
    """Bytes that a layer keeps of a token for its backward pass."""
    b, h, width = _products(recipe), shape.hidden, _width(recipe)
    liger, adapter = recipe.model.kernels == "liger", recipe.model.adapter
    frozen = adapter is not None
    # Each of two norms keeps its input in float32, and the normalised values if it has a gradient.
    norms = 2 * h * width if liger else 2 * h * (4 + width * (not frozen))
    attention = b * (2 * shape.queries + 2 * shape.keys)
    inner = b * (4 - liger if shape.gated else 3) * shape.inner
    if not frozen or b == 4:  # inputs of products; autocast narrows a copy of each
        norms += b * h * (2 if b == width else 4 + shape.gated)
    else:  # adapters keep their own
        inner -= b * shape.inner
    adapted = 0.0
    if adapter is not None:
        for inputs, outputs in shape.targets(adapter):
            adapted += b * adapter.rank
            if b == 2:  # widened for the adapter and narrowed again for its product
                adapted += b * inputs
            if adapter.kind == "dora":  # its scale multiplies both outputs
                adapted += 2 * b * outputs
    return norms + attention + inner + adapted / shape.layers


def _head(recipe: Recipe, shape: ModelShape, scored: int, *, cuda: bool) -> float:
    """Logits of a training pass: the table, its softmax and its gradient, or blocks of it."""
    numbers, b = scored * shape.vocabulary, _products(recipe)
    if numbers <= _TABLE or not shape.plain_head:
        copies = 3 + (recipe.sampling.temperature != 1)
        return 4.0 * copies * numbers + _narrowed(recipe, shape.head)
    block, most = _BLOCK if cuda else _BLOCK_ON_CPU
    tokens = min(scored, most)
    words = min(block // tokens, shape.vocabulary)
    both = 4.0 + b * (b == 2)  # in float32, and for products in 16 bits
    blocks = (tokens * words + scored * shape.hidden) * both
    # Weights, and the parts that are added to their gradient.
    blocks += _narrowed(recipe, words * shape.hidden)
    blocks += 4.0 * words * shape.hidden * (recipe.model.adapter is None)
    kinds = {penalty.kind for penalty in recipe.objective.active_penalties.values()}
    if kinds & _OVER_VOCABULARY:
        table = min(numbers, _STATISTIC if cuda else _STATISTIC_ON_CPU)
        return max(blocks, 4.0 * _TABLES * table)
    return blocks


def _narrowed(recipe: Recipe, numbers: int) -> float:
    """Bytes of the copies that autocast makes of weights in float32."""
    return 2.0 * numbers * (_width(recipe) == 4 and _products(recipe) == 2)


def _step(trained: int, shape: ModelShape, *, adapter: bool, states: float, cuda: bool) -> float:
    """Temporary memory of AdamW; torch's fused kernel needs none."""
    if cuda or not (adapter or states < 8):
        return 0.0
    return 20.0 * shape.largest if states < 8 else 8.0 * trained


def _sampling(recipe: Recipe, shape: ModelShape, load: Load, *, cuda: bool) -> float:
    """Bytes of a prefill's layer or of a step's logits, with their sums, whichever is larger."""
    logit = _BYTES_PER_LOGIT if cuda else 4.0 * (3 + (_products(recipe) == 2))
    prefill = load.prefilled * _products(recipe) * (3 * shape.inner + 4 * shape.hidden)
    return max(load.rows * shape.vocabulary * logit, prefill)
