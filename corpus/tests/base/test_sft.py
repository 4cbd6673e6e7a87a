import json
from itertools import pairwise

import pytest
import torch

from dph.errors import TrainingError
from dph.model.loading import load_model, load_tokenizer
from dph.model.policies import directory_fingerprint, weight_fingerprint
from dph.runs.progress import Silent
from dph_corpus.base.base import train_base
from dph_corpus.base.checkpointed import METRICS, MODEL
from dph_corpus.base.sft import IGNORED, make_trainer, read_sft_rows, train_sft
from small_corpora import rows_file
from small_lm import base_recipe, code_corpus, sft_recipe

pytest.importorskip("trl", reason="needs dph-corpus[sft]")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A base model, and a file of rows of different lengths."""
    directory = tmp_path_factory.mktemp("start")
    code_corpus(directory / "corpus")
    model = train_base(base_recipe(directory / "corpus"), directory / "base", Silent())
    lines = [{"prompt": f"def f{n}", "response": "(x): return x" * (n % 3 + 1)} for n in range(18)]
    return model, rows_file(directory / "rows.jsonl", lines)


@pytest.fixture(scope="module")
def trained(start, tmp_path_factory):
    directory = tmp_path_factory.mktemp("sft")
    train_sft(sft_recipe(*start), directory, Silent())
    return directory


def weights(directory):
    return weight_fingerprint(load_model(directory / MODEL, device="cpu"))


def test_the_gradient_of_packed_rows_is_that_of_each_row_alone(start, tmp_path):
    """Loss on responses alone, rows that do not see each other: against one forward a row."""
    recipe = sft_recipe(*start, names=("only",))
    tokenizer = load_tokenizer(start[0])
    rows = read_sft_rows([start[1]], tokenizer, chat=False, max_tokens=48)
    trainer = make_trainer(recipe, recipe.stages[0], start[0], tokenizer, rows, tmp_path)
    assert len(trainer.train_dataset) < len(rows.rows), "several rows are packed into one"
    batch = trainer.data_collator([trainer.train_dataset[0]])
    trainer.model.zero_grad()
    trainer.compute_loss(trainer.model, batch).backward()
    packed = {name: weight.grad.clone() for name, weight in trainer.model.named_parameters()}

    alone = load_model(start[0], device="cpu")
    ids, labels = batch["input_ids"][0], batch["labels"][0]
    starts = [*(batch["position_ids"][0] == 0).nonzero().flatten().tolist(), len(ids)]
    total = 0.0
    learnt = int((labels != IGNORED).sum())
    for begin, end in pairwise(starts):
        logits = alone(ids[begin:end][None]).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(
            logits, labels[begin + 1 : end], ignore_index=IGNORED, reduction="sum"
        )
    (total / learnt).backward()
    for name, weight in alone.named_parameters():
        torch.testing.assert_close(packed[name], weight.grad, rtol=1e-4, atol=1e-6)


def test_a_rate_that_loses_the_numbers_ends_a_stage_without_a_model(start, tmp_path):
    recipe = sft_recipe(*start, learning_rate=1e9, warmup_steps=0)
    with pytest.raises(TrainingError, match=r"not finite.* step 2: .*lower learning rate"):
        train_sft(recipe, tmp_path, Silent())
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["checkpoints", "made_from.json"]
    assert not (tmp_path / "narrow").exists(), "the next stage does not begin"


def test_each_stage_leaves_a_model_that_begins_with_the_one_before(trained, start):
    made = json.loads((trained / "narrow" / "made_from.json").read_text())
    assert made["initial"] == directory_fingerprint(trained / "broad" / MODEL)
    assert len({weights(trained / name) for name in ("broad", "narrow")}) == 2
    assert weights(trained / "broad") != weight_fingerprint(load_model(start[0], device="cpu"))
    assert not (trained / "broad" / "checkpoints").exists()
    assert "rows: 18" in (trained / "broad" / MODEL / "README.md").read_text()


def test_a_stage_that_was_interrupted_ends_with_the_same_weights(trained, start, tmp_path):
    class Ended(Silent):
        """Ends the run when the second stage begins."""

        def task(self, title, total, unit):
            if title == "sft narrow":
                raise KeyboardInterrupt
            return super().task(title, total, unit)

    with pytest.raises(KeyboardInterrupt):
        train_sft(sft_recipe(*start), tmp_path, Ended())
    train_sft(sft_recipe(*start), tmp_path, Silent())
    for name in ("broad", "narrow"):
        assert weights(tmp_path / name) == weights(trained / name)
        logs = [(place / name / METRICS).read_text() for place in (tmp_path, trained)]
        assert logs[0] == logs[1]
