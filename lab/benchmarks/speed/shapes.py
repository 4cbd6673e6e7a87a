"""What is measured: sizes of models, and shapes of batches."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """A Llama (or another ``family``) with random weights; "smollm2": that model.

    ``head`` is the size of a head where that is not hidden / heads. The head of a Qwen2 is its
    embedding's unless ``tied`` says otherwise; that of others is not.
    """

    vocabulary: int = 4096
    hidden: int = 256
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 704
    family: str = "llama"
    head: int | None = None
    tied: bool | None = None

    @property
    def width(self) -> int:
        """Numbers of a head."""
        return self.head or self.hidden // self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A rollout: ``prompts`` of ``prompt`` tokens each, ``samples`` completions a prompt.

    With random weights a completion never ends by itself. ``mean`` makes it: so many stop tokens
    that its mean length is about that, and at most ``completion``. Without it only the
    end-of-sequence token stops, one token in the whole vocabulary. Prompts begin with one of
    ``schemas`` texts of ``schema`` tokens, as questions on databases do.
    """

    prompt: int
    completion: int
    prompts: int
    samples: int = 16
    mean: float | None = None
    schemas: int = 0
    schema: int = 0

    def __str__(self) -> str:
        length = (
            f"{self.completion}" if self.mean is None else f"{self.completion} mean {self.mean:g}"
        )
        prompt = f"{self.prompt}"
        if self.schemas:
            prompt += f" with one of {self.schemas} schemas of {self.schema}"
        return f"prompt {prompt}, completion {length}, {self.prompts} x {self.samples}"

    @property
    def rows(self) -> int:
        """Completions a rollout."""
        return self.prompts * self.samples

    @property
    def distinct_prompt(self) -> int:
        """Tokens of a prompt on average where what all of them begin with counts once."""
        return self.prompt - self.schema + self.schemas * self.schema // self.prompts

    def stop_tokens(self, vocabulary: int) -> tuple[int, ...]:
        """The tokens that end a completion, end-of-sequence (1) the first of them."""
        if self.mean is None:
            return (1,)
        wanted = round(stop_probability(self.mean, self.completion) * vocabulary)
        return tuple(range(1, 1 + max(1, wanted)))


def stop_probability(mean: float, longest: int) -> float:
    """The chance q of stopping at a token that gives mean length ``mean`` under a limit.

    **Equation**: (1 - (1 - q)^longest) / q = mean, a geometric length cut at ``longest``.

    >>> round(stop_probability(20, 64), 4)
    0.0478

    Raises:
        ValueError: ``mean`` does not lie in (1, longest).
    """
    if not 1 < mean < longest:
        raise ValueError(f"need 1 < mean < {longest}, got {mean}")
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (1 - (1 - middle) ** longest) / middle > mean:
            low = middle
        else:
            high = middle
    return low


LONG = Shape(prompt=800, completion=64, prompts=2)
STOPS = Shape(prompt=256, completion=64, prompts=4, mean=20)
SHORT = Shape(prompt=30, completion=48, prompts=8)
MANY_STOPS = Shape(prompt=220, completion=64, prompts=8, mean=12)
MANY_SHORT = Shape(prompt=30, completion=48, prompts=16)
SCHEMAS = Shape(prompt=800, completion=64, prompts=8, mean=20, schemas=8, schema=600)
"""Of 8 prompts and those of 16 stored answers half is distinct, as in a step on Spider."""
TEXT_TO_SQL = Shape(prompt=3000, completion=200, prompts=1)
AT_ONCE = {"rows_16": 16, "rows_4": 4}
"""Rows of a micro-batch of it."""
TINY = Shape(prompt=12, completion=6, prompts=2, samples=4)
"""For a smoke run."""

FIVE_MILLION = ModelSize()
QWEN2 = ModelSize(
    vocabulary=151_936,
    hidden=896,
    layers=24,
    heads=14,
    kv_heads=2,
    intermediate=4864,
    family="qwen2",
)
SMOLLM2 = ModelSize(
    vocabulary=49_152,
    hidden=576,
    layers=30,
    heads=9,
    kv_heads=3,
    intermediate=1536,
    family="smollm2",
)
TINY_MODEL = ModelSize(vocabulary=64, hidden=32, layers=2, heads=4, kv_heads=2, intermediate=48)

FEW_SHOT = Shape(prompt=100, completion=6, prompts=8, samples=8, schemas=1, schema=80)
"""The same 80 tokens of examples before every question."""
SIXTY_TOKENS = Shape(prompt=80, completion=60, prompts=4, samples=8)
REAL = {"smollm2_few_shot": FEW_SHOT, "smollm2_60": SIXTY_TOKENS}
"""Cases of SmolLM2-135M-Instruct (make smollm2), left out where it is not."""

FULL_STEP = {"long": LONG, "stops": STOPS, "short": SHORT, **REAL}
OVERHEADS = {
    "long": LONG,
    "stops": STOPS,
    "short": SHORT,
    "schemas": SCHEMAS,
    "unrelated": replace(SCHEMAS, schemas=0, schema=0),
}
SAMPLING = {"full": MANY_SHORT, "early": MANY_STOPS, **REAL}
