"""The base model: a small Llama that imitates all five annotators, trained from scratch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dph.errors import ModelError, SettingsError
from dph.files import atomic_path, make_directory, read_json, write_json
from dph.quickstart.annotators import Annotator
from dph.quickstart.arithmetic import all_sums
from dph.quickstart.muon import Muon
from dph.quickstart.packing import NO_TARGET, Block, PackedBlocks, pack_blocks
from dph.quickstart.question_sets import draw_questions
from dph.quickstart.questions import Question
from dph.quickstart.tokenizer import make_tokenizer
from dph.quickstart.world import World

STEPS = 300
QUESTIONS_PER_STEP = 34
SUMS_PER_STEP = 6
BLOCKS_AT_ONCE = 20
POOL = 6000
"""How many different SQL questions the base model learns from."""
WARM_UP_STEPS = 20
FINAL_RATE = 0.1
MATRIX_RATE = 0.02
OTHER_RATE = 4e-3
GRADIENT_NORM = 1.0
MADE_FROM = "made_from.json"


@dataclass(frozen=True, slots=True)
class Corpus:
    """What annotators are asked; they answer afresh every time."""

    questions: tuple[Question, ...]
    annotators: tuple[Annotator, ...]
    tokenizer: PreTrainedTokenizerFast

    def batches(self, rng: Random, *, steps: int) -> Iterator[list[PackedBlocks]]:
        """One batch for each step: every question with an answer by every annotator.

        A batch comes in pieces of similar length, which save padding and fit the CPU's caches.
        """
        sums = all_sums()
        for _ in range(steps):
            asked: list[tuple[str, list[str]]] = []
            for question in rng.choices(self.questions, k=QUESTIONS_PER_STEP):
                answers = [annotator.answer(question, rng) for annotator in self.annotators]
                asked.append((question.prompt, answers))
            for item in rng.choices(sums, k=SUMS_PER_STEP):
                asked.append((item.prompt, [item.annotate(rng) for _ in self.annotators]))
            blocks = sorted(self._encode(asked), key=len)
            yield [
                pack_blocks(
                    blocks[start : start + BLOCKS_AT_ONCE], pad_id=self.tokenizer.pad_token_id
                )
                for start in range(0, len(blocks), BLOCKS_AT_ONCE)
            ]

    def _encode(self, asked: list[tuple[str, list[str]]]) -> list[Block]:
        prompts = self.tokenizer([prompt for prompt, _ in asked])["input_ids"]
        flat = [answer for _, answers in asked for answer in answers]
        encoded = self.tokenizer(flat, add_special_tokens=False)["input_ids"]
        ended = iter([(*ids, self.tokenizer.eos_token_id) for ids in encoded])
        return [
            Block(tuple(prompt), tuple(next(ended) for _ in answers))
            for prompt, (_, answers) in zip(prompts, asked, strict=True)
        ]


def train_base_model(
    world: World,
    directory: Path,
    *,
    seed: int,
    steps: int = STEPS,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Train the base model of a built world and save it as a transformers directory.

    The directory appears when training is done, and is kept when it was made from the same
    world, seed and steps. The same seed and number of threads give the same weights. No
    question of the in-domain or cross-domain set is trained on; the sums are so few that all
    of them are. ``on_progress`` is called with the number of steps done since the last call.

    Raises:
        ModelError: ``directory`` holds something else.
        SettingsError: ``steps`` is below 1.
    """
    if steps < 1:
        raise SettingsError(f"the base model needs at least 1 training step, got {steps=}")
    made_from = {"world": world.fingerprint, "seed": seed, "steps": steps}
    if _is_there(directory, made_from):
        if on_progress is not None:
            on_progress(steps)
        return
    make_directory(directory.parent)
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, seed=seed)
    rng = Random(f"quickstart base model {seed}: annotators")
    batches = draw_corpus(world, tokenizer, seed=seed).batches(rng, steps=steps)
    _train(model, batches, steps=steps, on_progress=on_progress)
    with atomic_path(directory) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        write_json(temporary / MADE_FROM, made_from)


def draw_corpus(world: World, tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Corpus:
    """Draw the questions that annotators answer; none of them is a test question."""
    questions = draw_questions(
        world.databases,
        world.annotators,
        POOL,
        Random(f"quickstart base model {seed}: questions"),
        taken=world.prompts("in_domain") + world.prompts("cross_domain"),
    )
    return Corpus(tuple(questions), world.annotators, tokenizer)


def new_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> LlamaForCausalLM:
    """A Llama of about 0.4 M parameters with weights drawn from ``seed``."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):  # the constructor draws weights that we replace
        model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    into_residual = (2 * config.num_hidden_layers) ** -0.5
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            std *= into_residual
        torch.nn.init.normal_(weight, std=std, generator=generator)
    return model


def packed_logprobs(model: LlamaForCausalLM, rows: PackedBlocks) -> torch.Tensor:
    """Log-probs (nats) of all targets, row by row."""
    hidden = model.model(
        input_ids=rows.input_ids,
        position_ids=rows.positions,
        attention_mask=rows.attention,
        use_cache=False,
    ).last_hidden_state
    chosen = rows.targets != NO_TARGET
    logits = model.lm_head(hidden[chosen])
    return -torch.nn.functional.cross_entropy(logits, rows.targets[chosen], reduction="none")


def _train(
    model: LlamaForCausalLM,
    batches: Iterator[list[PackedBlocks]],
    *,
    steps: int,
    on_progress: Callable[[int], None] | None,
) -> None:
    named = dict(model.named_parameters())
    matrices = {n: p for n, p in named.items() if p.dim() == 2 and "embed" not in n}
    others = [p for n, p in named.items() if n not in matrices]
    muon = Muon(matrices.values(), learning_rate=MATRIX_RATE)
    adam = torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    model.train()
    for step, batch in enumerate(batches):
        scale = _schedule(step, steps)
        for group in adam.param_groups:
            group["lr"] = OTHER_RATE * scale
        model.zero_grad(set_to_none=True)
        targets = sum(int((rows.targets != NO_TARGET).sum()) for rows in batch)
        for rows in batch:
            loss = -packed_logprobs(model, rows).sum() / targets
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        muon.step(scale)
        adam.step()
        if on_progress is not None:
            on_progress(1)
    model.eval()


def _schedule(step: int, steps: int) -> float:
    """Warm up, then fall in a straight line to FINAL_RATE of the full rate."""
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (1 - (1 - FINAL_RATE) * step / steps)


def _is_there(directory: Path, made_from: dict[str, Any]) -> bool:
    if not directory.exists():
        return False
    marker = directory / MADE_FROM
    found = read_json(marker) if marker.exists() else None
    if found != made_from:
        raise ModelError(
            f"{directory} holds a model made from {found}, not {made_from}; "
            "choose another directory or remove it"
        )
    return True
