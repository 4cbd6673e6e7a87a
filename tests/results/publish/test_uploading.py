import pytest
import torch
from safetensors.torch import load, load_file

from dph.errors import ModelError, SettingsError
from dph.model.hub import model_snapshot
from dph.recipe import resolve_recipe, save_recipe
from dph.results.publish import push, read_finished_run
from dph.runs.prepare import prepare
from dph.runs.progress import Silent
from dph.runs.training_stage import train_stage
from dph.runs.written_models import export
from dph.tasks.problems import save_problems
from finished_runs import TOKENS, WEIGHTS, measure

# Of huggingface_hub, which gives httpx the bytes of a file under an older name.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
UPLOADED = {"config.json", "model.safetensors", "tokenizer.json", "README.md", "recipe.toml"}


@pytest.fixture
def logged_in(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_loopback")
    return hub


def test_a_checkpoint_arrives_whole_without_what_is_only_for_training(logged_in, finished):
    url = push(read_finished_run(finished), "me/words")
    files = logged_in.files("me/words")
    assert files.keys() == {*UPLOADED, ".gitattributes"}
    assert files["model.safetensors"] == WEIGHTS
    assert files["tokenizer.json"] == TOKENS
    card = files["README.md"].decode()
    assert "# me/words" in card
    assert 'from_pretrained("me/words")' in card
    assert url.startswith(f"{logged_in.url}/me/words/commit/")
    directory = model_snapshot("me/words", None, fetch=True)
    assert (directory / "model.safetensors").read_bytes() == WEIGHTS
    assert not logged_in.repositories["models", "me/words"].private
    commits = [path for method, path in logged_in.requests if "/commit/" in path]
    assert commits == ["/api/models/me/words/commit/main"]


@pytest.fixture
def adapted(tmp_path, make_model, tokenizer, problems):
    """The directory of a run that trained an adapter for two steps."""
    make_model().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    save_problems(tmp_path / "train.jsonl", problems)
    adapter = {"kind": "lora", "rank": 2}
    table = {
        "name": "letters",
        "method": "grpo",
        "model": {"path": str(tmp_path / "model"), "device": "cpu", "adapter": adapter},
        "data": {"train": str(tmp_path / "train.jsonl"), "verifier": "letter_grader:grade"},
        "sampling": {"max_tokens": 8},
        "train": {"steps": 2, "problems_per_step": 6, "learning_rate": 0.05},
    }
    recipe, run = resolve_recipe(table), tmp_path / "run"
    run.mkdir()
    with prepare(recipe, run, stage="train") as plan:
        trained = train_stage(plan, Silent())
    save_recipe(recipe, run / "recipe.toml")
    measure(run, trained.checkpoint)
    return run


@pytest.mark.slow
def test_an_adapter_arrives_merged_as_a_model_that_anybody_loads(logged_in, adapted, tmp_path):
    push(read_finished_run(adapted), "me/letters")
    files = logged_in.files("me/letters")
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files.keys()
    assert not [name for name in files if "adapter" in name or "optimizer" in name]
    assert str(tmp_path).encode() not in b"".join(files.values())
    ours = load(files["model.safetensors"])
    theirs = load_file(export(adapted, tmp_path / "out") / "model.safetensors")
    base = load_file(tmp_path / "model" / "model.safetensors")
    assert ours.keys() == theirs.keys() == base.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert any(not torch.equal(ours[name], base[name]) for name in base)
    assert [path.name for path in (adapted / "checkpoints").rglob("model.safetensors")] == []


def test_weights_under_other_names_do_not_stay_beside_the_new_ones(logged_in, finished):
    parts = {"model-00001-of-00002.safetensors": b"", "model.safetensors.index.json": b""}
    logged_in.push("me/words", {**parts, "a.txt": b"", "model.safetensors": b"old"})
    push(read_finished_run(finished), "me/words")
    assert logged_in.files("me/words").keys() == {*UPLOADED, "a.txt"}


def test_a_card_of_ones_own_is_uploaded_as_it_is_and_privately_where_that_is_asked(
    logged_in, finished
):
    (finished / "README.md").write_text("# Mine\n")
    push(read_finished_run(finished), "me/words", private=True)
    assert logged_in.files("me/words")["README.md"] == b"# Mine\n"
    assert logged_in.repositories["models", "me/words"].private


def test_weights_that_do_not_arrive_are_told_and_nothing_is_committed(logged_in, finished):
    logged_in.full = True
    with pytest.raises(ModelError, match=r"push to me/words: .*model\.safetensors") as refusal:
        push(read_finished_run(finished), "me/words")
    assert "\n" not in str(refusal.value)
    assert logged_in.files("me/words").keys() == {".gitattributes"}


def test_whoever_is_not_logged_in_is_told_how(hub, finished):
    with pytest.raises(ModelError, match=r"push to me/words: .* 401.*: log in"):
        push(read_finished_run(finished), "me/words")
    assert hub.repositories == {}


@pytest.mark.parametrize("name", ["words", "/me/words", "a/b/c"])
def test_a_name_without_an_owner_is_refused_before_anything_is_sent(hub, finished, name):
    with pytest.raises(SettingsError, match="<owner>/<name>, got"):
        push(read_finished_run(finished), name)
    assert hub.requests == []
