import math
from pathlib import Path

import pytest

from dph.errors import ModelError, TrainingError, is_bad_input
from dph.model.loading import load_model, load_tokenizer
from dph.model.policies import weight_fingerprint
from dph.runs.progress import Silent
from dph_corpus.base.base import BaseTrainer, config_of, parameters_of, train_base
from dph_corpus.base.checkpointed import METRICS, MODEL, begin, newest_checkpoint
from dph_corpus.base.recipes import load_lm_recipe
from small_lm import base_recipe, code_corpus

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpora")
    code_corpus(directory / "corpus")
    code_corpus(directory / "annealing", count=20)
    return directory / "corpus", directory / "annealing"


@pytest.fixture(scope="module")
def trained(corpora, tmp_path_factory):
    directory = tmp_path_factory.mktemp("base")
    train_base(base_recipe(*corpora), directory, Silent())
    return directory


def weights(directory):
    return weight_fingerprint(load_model(directory / MODEL, device="cpu"))


def test_it_leaves_a_model_with_its_card_and_the_log_and_no_checkpoints(trained):
    assert sorted(path.name for path in trained.iterdir() if not path.name.startswith(".")) == [
        *("made_from.json", METRICS, MODEL, "tokenizer", "tokens")
    ]
    assert load_tokenizer(trained / MODEL).eos_token == "<|end|>"
    card = (trained / MODEL / "README.md").read_text()
    # 6 steps and 4 of annealing, of 4 sequences of 32 tokens.
    assert "tokens learnt from the corpus: 768" in card
    assert "tokens learnt while annealing: 512" in card
    assert str(trained.parent) not in card
    assert "- base-model" in card


def test_a_finished_one_is_kept_and_another_is_refused_or_replaced(trained, corpora):
    before = (trained / MODEL / "model.safetensors").stat().st_mtime_ns
    assert train_base(base_recipe(*corpora), trained, Silent()) == trained / MODEL
    assert (trained / MODEL / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(ModelError, match="has a training that differs in settings"):
        train_base(base_recipe(*corpora, learning_rate=2e-2), trained, Silent())


def test_the_newest_whole_checkpoint_is_found_and_others_are_removed(tmp_path):
    for step, whole in ((9, True), (10, True), (11, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if whole:
            (tmp_path / f"checkpoint-{step}" / "whole").touch()
    assert newest_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-11").exists()
    assert (tmp_path / "checkpoint-9").is_dir()


def test_what_was_made_from_something_else_is_refused_by_name_or_removed(tmp_path):
    begin(tmp_path / "out", {"seed": 0, "rows": "a"}, replace=False)
    (tmp_path / "out" / "tokens").mkdir()
    with pytest.raises(ModelError, match="differs in seed; choose another directory"):
        begin(tmp_path / "out", {"seed": 1, "rows": "a"}, replace=False)
    assert not begin(tmp_path / "out", {"seed": 1, "rows": "a"}, replace=True)
    assert not (tmp_path / "out" / "tokens").exists()


def test_the_annealing_mixture_is_what_the_last_steps_learn_from(corpora, trained, tmp_path):
    train_base(base_recipe(corpora[0], corpora[0]), tmp_path, Silent())
    assert weights(tmp_path) != weights(trained)


@pytest.mark.slow
def test_without_a_mixture_annealing_continues_with_the_corpus(corpora, tmp_path):
    """At a rate that does not fall, it is nothing but more steps."""
    rates = {"steps": 3, "learning_rate": 1e-2, "final_rate": 1e-2}
    train_base(base_recipe(corpora[0], annealing_steps=3, **rates), tmp_path / "a", Silent())
    train_base(base_recipe(corpora[0], **rates | {"steps": 6}), tmp_path / "b", Silent())
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


def test_one_is_continued_with_its_own_tokenizer(trained, corpora, tmp_path):
    recipe = base_recipe(corpora[1]).model_dump(mode="json", exclude={"model", "tokenizer"})
    recipe = type(base_recipe(corpora[1])).model_validate(
        recipe | {"continued": str(trained / MODEL)}
    )
    train_base(recipe, tmp_path, Silent())
    assert not (tmp_path / "tokenizer").exists()
    assert weights(tmp_path) != weights(trained)


def test_a_rate_that_loses_the_numbers_ends_it_at_once_without_a_model(corpora, tmp_path):
    with pytest.raises(TrainingError, match=r"not finite.* step 2: .*no checkpoint .*lower"):
        train_base(base_recipe(corpora[0], learning_rate=1e9), tmp_path, Silent())
    assert not (tmp_path / MODEL).exists()
    assert newest_checkpoint(tmp_path / "checkpoints") is None


def test_the_last_good_checkpoint_stays_and_is_gone_on_from(
    corpora, trained, tmp_path, monkeypatch
):
    plain = BaseTrainer.compute_loss

    def lost(self, *arguments, **named):
        return plain(self, *arguments, **named) * (math.nan if self.state.global_step == 5 else 1.0)

    with monkeypatch.context() as patched:
        patched.setattr(BaseTrainer, "compute_loss", lost)
        with pytest.raises(TrainingError, match=r"in step 6: .*checkpoint-4") as raised:
            train_base(base_recipe(*corpora), tmp_path, Silent())
    assert not is_bad_input(raised.value), "the exit code is 1"
    assert newest_checkpoint(tmp_path / "checkpoints").name == "checkpoint-4"
    train_base(base_recipe(*corpora), tmp_path, Silent())
    assert weights(tmp_path) == weights(trained)


def test_weights_that_the_last_step_breaks_are_not_saved(corpora, tmp_path, monkeypatch):
    plain = BaseTrainer.training_step

    def breaks(self, model, *arguments, **named):
        loss = plain(self, model, *arguments, **named)
        if self.state.global_step == 5:
            next(model.parameters()).data[0] = math.inf
        return loss

    monkeypatch.setattr(BaseTrainer, "training_step", breaks)
    # All sequences at once: after them nothing of the step reads the weights.
    with pytest.raises(TrainingError, match=r"weights are not finite after step 6: .*checkpoint-4"):
        train_base(base_recipe(corpora[0], sequences_at_once=4), tmp_path, Silent())
    assert not (tmp_path / MODEL).exists()
    assert newest_checkpoint(tmp_path / "checkpoints").name == "checkpoint-4"


def test_opencoders_shapes_have_the_parameters_of_the_released_models():
    sizes = {"1.5b": 1.91e9, "8b": 7.77e9}  # of the released checkpoints
    for name, size in sizes.items():
        recipe = load_lm_recipe(RECIPES / f"opencoder-{name}-base.toml")
        config = config_of(recipe, vocabulary=recipe.tokenizer.vocabulary)
        assert parameters_of(config) == pytest.approx(size, rel=0.01)
