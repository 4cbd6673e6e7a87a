import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from safetensors.torch import load_file, save_file

from dph.model.policies import directory_fingerprint
from dph.recipe import load_recipe, save_recipe
from dph.runs.prepare import prepare
from dph.runs.training_digest import what_changed


def digest_of(recipe):
    with prepare(recipe, Path(), stage="presample") as plan:
        return plan.training_key()


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_chat_template_a_special_token_and_a_stop_token_change_it(make_recipe, tmp_path):
    recipe, model = make_recipe(), tmp_path / "model"
    seen = [digest_of(recipe)]
    (model / "chat_template.jinja").write_text("{{ messages }}")
    seen.append(digest_of(recipe))
    edit_json(model / "tokenizer_config.json", eos_token="say")
    seen.append(digest_of(recipe))
    edit_json(model / "generation_config.json", eos_token_id=[1, 3])
    seen.append(digest_of(recipe))
    assert len(set(seen)) == 4


def test_a_weight_in_the_middle_of_a_large_file_changes_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.safetensors"
    content = bytearray(3 * 2**20)
    weights.write_bytes(content)
    before = directory_fingerprint(tmp_path)
    content[len(content) // 2] = 1
    weights.write_bytes(content)
    assert directory_fingerprint(tmp_path) != before
    content[len(content) // 2] = 0
    weights.write_bytes(content)
    assert directory_fingerprint(tmp_path) == before


def test_weights_that_did_not_change_are_read_once(make_recipe, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr("dph.model.policies.sha256", lambda path: read.append(path) or "hash")
    make_recipe()
    model = tmp_path / "model"
    for _ in range(3):
        directory_fingerprint(model)
    assert [path.name for path in read].count("model.safetensors") == 1
    changed = load_file(model / "model.safetensors")
    save_file(changed, model / "model.safetensors")
    directory_fingerprint(model)
    assert [path.name for path in read].count("model.safetensors") == 2


ADAPTER = {"kind": "lora", "rank": 4, "alpha": 8.0}
NARROW = {"dtype": "bfloat16", "weights": "bfloat16"}


def test_another_setting_of_the_verifier_the_tokens_or_the_weights_changes_it(make_recipe):
    sections = [
        {},
        {"data": {"verifier_timeout": 2.0}},
        {"data": {"verifier": "letter_grader:grade_strictly"}},
        {"sampling": {"stop": ["say"]}},
        {"model": {"dtype": "bfloat16"}},
        {"model": NARROW},
        {"model": {"adapter": ADAPTER}},
    ]
    assert len({digest_of(make_recipe(**changes)) for changes in sections}) == len(sections)


def test_what_changes_no_weight_does_not_change_it(make_recipe, monkeypatch):
    monkeypatch.setattr("dph.runs.prepare.require_vllm", lambda: None)  # not on every machine
    sections = [
        {},
        {"data": {"verifier_workers": 2}},
        {"data": {"verifier_crash_limit": 0.1}},
        {
            "train": {
                "steps": 9,
                "checkpoint_every": 3,
                "keep_checkpoints": 2,
                "keep_samples": "all",
            }
        },
        {"model": {"threads": 1}},
        {"model": {"weights": "float32"}},
        {"sampling": {"engine": "vllm"}, "vllm": {"memory": 0.9}},
        {"evaluate": {"every": 1, "keep_best": "dev/greedy", "token_details": 1}},
    ]
    assert len({digest_of(make_recipe(**changes)) for changes in sections}) == 1


def test_the_settings_of_a_verifier_count_and_its_version_stands_apart(make_recipe):
    with prepare(make_recipe(), Path(), stage="presample") as job:
        name, settings = job.verifier.name, job.verifier.settings

        def digest(**settings):
            verifier = SimpleNamespace(name=name, version="other", settings=settings)
            return replace(job.key, verifier=verifier).digest()

        assert digest(**settings) == job.training_key()
        assert digest(**settings | {"timeout": 9.0}) != job.training_key()


def test_the_file_of_a_term_of_ones_own_changes_it(make_recipe, tmp_path):
    own = tmp_path / "my_terms.py"
    own.write_text("def mine(rewards):\n    return rewards\n")
    advantage = {"kind": "my_terms:mine"}
    recipe = make_recipe(method="grpo", objective={"advantage": advantage})
    data = recipe.data.model_copy(update={"modules": (tmp_path,)})
    recipe = recipe.model_copy(update={"data": data})
    before = digest_of(recipe)
    own.write_text("def mine(rewards):\n    return rewards - 1\n")
    assert digest_of(recipe) != before


def test_what_a_store_of_an_anchor_holds_changes_it_and_not_where_it_lies(make_recipe, tmp_path):
    def digest(store):
        anchor = {"divergence": "alpha", "weight": 0.1, "samples": f"pool:{store}"}
        return digest_of(make_recipe(method="grpo", objective={"anchors": {"old": anchor}}))

    for name, content in (("a", "{}"), ("b", "{}"), ("c", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(content)
    first, moved, other = (digest(tmp_path / name) for name in "abc")
    assert first == moved != other


def test_a_run_is_told_that_not_its_recipe_but_what_it_names_changed(make_recipe, tmp_path):
    recipe = make_recipe()
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert "the recipe says the same: the model's files" in what_changed(
        tmp_path / "recipe.toml", recipe
    )
    other = make_recipe(train={"steps": 2, "learning_rate": 0.5})
    assert "train.learning_rate was 0.01, now 0.5" in what_changed(tmp_path / "recipe.toml", other)


def test_a_run_of_rkl_from_when_it_was_k3_says_so_and_stays_it(make_recipe, tmp_path):
    before = make_recipe(method="rkl", objective={"kl_estimator": "k3"})
    [said] = before.objective.model_dump(mode="json")["penalties"].values()
    assert said == {"kind": "kl", "weight": 0.01, "estimator": "k3"}  # what its digest counted
    save_recipe(before, tmp_path / "recipe.toml")
    assert 'estimator = "k3"' in (tmp_path / "recipe.toml").read_text()
    again = load_recipe(tmp_path / "recipe.toml")
    assert again.objective == before.objective
    assert digest_of(again) == digest_of(before)
    now = make_recipe(method="rkl")
    assert digest_of(now) != digest_of(before)
    assert "objective.penalties.kl.estimator was 'k3', now 'unbiased'" in what_changed(
        tmp_path / "recipe.toml", now
    )


def test_a_run_of_before_settings_were_added_and_left_out_counts_what_it_counted(
    make_recipe, monkeypatch
):
    """On a CPU: so a run that was begun then goes on."""
    counted = []
    monkeypatch.setattr(
        "dph.runs.training_digest.recipe_digest", lambda *parts: counted.extend(parts) or ""
    )
    digest_of(make_recipe())
    [said] = [part for part in counted if isinstance(part, dict) and "model.dtype" in part]
    assert said["model.dtype"] == "float32"
    assert (said["sampling.max_rows"], said["sampling.cache_tokens"]) == (256, 262144)
    assert said["sampling.cuda_graphs"] is False
    assert not {"model.kernels", "model.weights", "model.adapter"} & said.keys()
