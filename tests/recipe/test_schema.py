from pathlib import Path

import pytest
from pydantic import ValidationError

from dph.recipe import METHODS, STRENGTHS, load_recipe, recipe_toml
from dph.recipe.keys import keys_of, known_keys
from dph.recipe.objective import AnchorSettings, ObjectiveSettings
from dph.recipe.section import flat
from minimal_recipe import require_refused, resolved


def test_a_recipe_needs_a_model_and_problems_and_cannot_be_changed_after_it_was_checked():
    recipe = resolved()
    assert (recipe.method, recipe.model.path) == ("dph_f", "m")
    with pytest.raises(ValidationError):
        recipe.train.steps = 3


REFUSED = {
    'train.steps="10"': r"train\.steps: .*integer.*'10'",
    "data.chat=1": r"data\.chat",
    **{f"train.learning_rate={r}": r"train\.learning_rate" for r in ("nan", "inf", "-1.0", "0.0")},
    'data.math_phrases=[" "]': "math_phrases",
    "presample.threshold=9": "threshold=9, samples=8",
    "evaluate.k=[1, 64]": "k is at most samples, got k=64, samples=32",
    "evaluate.k=[]": r"evaluate\.k",
    "method=grpo; objective.eta=0.1": r"needs objective\.anchors\.rehearsal\.divergence",
    "objective.js_definition=true; objective.divergence=forward_kl": "js_definition needs",
    "train.minibatches=5; train.problems_per_step=4": "minibatches=5, problems_per_step=4",
    "train.betas=[0.9, 1.0]": "betas must lie in",
    "train.betas=[-0.1, 0.9]": "betas must lie in",
    "method=dapo; sampling.max_tokens=2": "is less than one token",
    "objective.overlong_buffer=0.5; objective.advantage.kind=maxrl": (
        "other than 0 and 1, .*'maxrl' counts right answers"
    ),
    "method=maxrl; data.verifier=sql; data.sql_rule=cartesian": "'cartesian' gives .*'maxrl' count",
    "method=dhp_f": r"one of 'grpo', .*'dhp_f'; did you mean 'dph_f'",
    'model.weights="nf4"': r'weights = "nf4" are frozen: add \[model.adapter\]',
    'model={path="m", weights="nf4", dtype="float32", adapter={kind="lora"}}': (
        'weights = "nf4" needs computation in bfloat16'
    ),
    'model={path="m", weights="nf4", adapter={kind="lora"}}; sampling.engine=vllm': (
        'sampling.engine = "vllm" reads whole weights'
    ),
    "sampling.max_rows=0": "max_rows: should be 'auto' or a number above 0, got 0",
    "sampling.cache_tokens=all": "or a number above 0, got 'all'",
    **{
        f"method=pass_at_k; objective.advantage.k={k}": r"objective\.advantage"
        for k in ("2.5", '"2"', "0")
    },
    **{
        f"train.keep_samples={kept}": "keep_samples: should be 'all', 'none' or a num"
        for kept in ("some", "0", "-1", "1.5", "true")
    },
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_setting_that_cannot_be_is_refused(overrides):
    require_refused(REFUSED[overrides], overrides)


def test_settings_follow_those_that_they_depend_on():
    for samples, threshold in ((1, 1), (4, 4), (8, 7), (16, 14), (32, 28)):
        assert resolved(f"presample.samples={samples}").presample.threshold == threshold
    for samples, ks in ((1, (1,)), (8, (1, 8)), (20, (1, 8, 16))):
        assert resolved(f"evaluate.samples={samples}").evaluate.k == ks
    for own, seed in (("", 3), ("; presample.seed=0", 0), ("; presample.seed=7", 7)):
        assert resolved(f"seed=3{own}").presampling_seed == seed
    assert resolved("method=dapo; sampling.max_tokens=3").objective.overlong_buffer == 0.2
    assert resolved("objective.overlong_buffer=0.5").objective.advantage.chosen == "group"
    recipe = resolved("method=pass_at_k; objective.advantage.k=2.0")
    assert recipe.objective.advantage.parameters == {"k": 2}
    for kept in ("all", "none", 1, 64):
        assert resolved(f"train.keep_samples={kept}").train.keep_samples == kept


NEEDS = {
    "pool": "alpha dph_f dph_js",
    "reference": "rkl flowrl exact_rkl exact_fkl",
    "pool reference": "dph_js_definition",
    "": "grpo dapo maxrl ucpo entropy_bonus",
}


@pytest.mark.parametrize("needs", NEEDS)
def test_only_the_methods_that_need_them_get_a_pool_and_a_reference_model(needs):
    for method in NEEDS[needs].split():
        recipe = resolved(f"method={method}")
        assert recipe.objective.rehearses is recipe.needs_pool is ("pool" in needs), method
        assert recipe.objective.needs_reference_model is ("reference" in needs), method


def test_every_setting_is_listed_once_with_a_one_line_meaning():
    keys = [key.name for key in keys_of(None)]
    assert len(keys) == len(set(keys))
    assert all(meaning and "\n" not in meaning for meaning in known_keys().values())
    assert "data.sets.*.path" in keys


@pytest.mark.parametrize(
    ("advantage", "needed"),
    [("kind=pass_at_k k=8", 9), ("kind=pkpo k=9", 9), ("kind=pkpo k=8 baseline=leave_one_out", 9)],
)
def test_a_group_is_large_enough_for_the_subsets_of_an_advantage(advantage, needed):
    said = "; ".join(f"objective.advantage.{each}" for each in advantage.split())
    require_refused(f"k=. .*at least {needed} samples", f"method=grpo; {said}")
    assert resolved(f"method=grpo; {said}; train.samples_per_problem={needed}")


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_nothing_but_plain_settings_and_its_strength_is_one_of_them(method):
    named = resolved(f"method={method}")
    assert named.method == method
    assert named == resolved(f"method={method}", **METHODS[method])
    if STRENGTHS[method]:
        assert isinstance(dict(flat(named.model_dump()))[STRENGTHS[method]], float | int)


def test_the_coefficients_are_those_of_the_papers_and_the_recipe_wins_over_its_method():
    for method, eta in (("alpha", 0.01), ("dph_f", 0.01), ("dph_js", 0.2)):
        assert METHODS[method]["objective"]["anchors"]["rehearsal"]["weight"] == eta
    assert METHODS["dph_js_definition"]["objective"]["anchors"]["rehearsal"]["weight"] == 0.2
    assert METHODS["grpo"]["objective"] == {"surrogate": {"clip_low": 0.2, "clip_high": 0.2}}
    assert METHODS["dapo"]["objective"]["surrogate"]["clip_high"] == 0.28
    assert METHODS["dapo"]["objective"]["dynamic_sampling"]
    anchor = resolved("method=dph_f; objective.eta=0.3").objective.anchors["rehearsal"]
    assert (anchor.weight, anchor.divergence) == (0.3, "forward_kl")
    # arXiv:2509.15207; beta = 15 in the authors' code, and a mean over answers, not tokens
    objective = resolved("method=flowrl").objective
    assert objective.advantage.parameters == {"beta": 15.0, "scale": "std"}
    assert (objective.surrogate.kind, objective.reduction) == ("flow_balance", "sequence_mean")
    assert objective.surrogate.parameters == {"clip_low": 0.2, "clip_high": 0.2}


SETS = {"train": "t", "sets": {"dev": "d", "test": "e"}}


def evaluation(overrides=""):
    return resolved(overrides, data=SETS).evaluate


def test_measurements_during_training_are_those_that_are_asked_for():
    settings = evaluation()
    assert (settings.every, settings.keep_best, settings.token_details) == (0, None, 0)
    assert settings.best_by is None
    assert evaluation("evaluate.every=5; evaluate.during.samples=4").during.k == (1,)
    assert evaluation("evaluate.every=5; evaluate.during.samples=8").during.k == (1, 8)
    every = evaluation("evaluate.every=5")
    assert every.during_sets(["dev", "test"]) == ("dev", "test")
    some = evaluation('evaluate.every=5; evaluate.during.sets=["test"]')
    assert some.during_sets(["dev", "test"]) == ("test",)
    for score, by in (("mean", (None, "mean")), ("dev/greedy", ("dev", "greedy"))):
        assert evaluation(f"evaluate.every=1; evaluate.keep_best={score}").best_by == by


UNMEASURED = {
    "keep_best=loss": "should be greedy, mean or pass_at_<k>, .*got 'loss'",
    "keep_best=mean": "keep_best='mean' needs every > 0",
    "result=best": "result='best' needs keep_best",
    "result=last": "'newest' or 'best'",
    "every=2000; keep_best=mean; result=best": (
        "evaluate.result='best' measures nothing with evaluate.every=2000, .*train.steps="
    ),
    "every=1; keep_best=pass_at_4": r"is not measured: during.k=\[1, 8\]",
    "every=1; keep_best=greedy; during.greedy=false": "is not measured: during.greedy=false",
    "every=1; keep_best=train/mean": "names the set 'train'; the measured sets are dev, test",
    'every=1; during.sets=["x"]': "names 'x'; .* has: dev, test",
    "during.samples=2; during.compared=3": "compared=3, samples=2",
    "during.samples=2; during.k=[4]": "got k=4, samples=2",
    "samples=2; token_details=3": "token_details=3, samples=2",
    "every=-1": "every",
}


@pytest.mark.parametrize("evaluate", UNMEASURED)
def test_what_cannot_be_measured_is_refused(evaluate):
    overrides = ";".join(f"evaluate.{each.strip()}" for each in evaluate.split(";"))
    require_refused(UNMEASURED[evaluate], overrides, data=SETS)


def test_without_a_set_there_is_nothing_to_measure():
    require_refused("evaluate.every=3 measures nothing: name a set", "evaluate.every=3")


@pytest.mark.parametrize("there", [True, False])
def test_auto_is_decided_by_the_device_and_by_the_packages_that_are_installed(monkeypatch, there):
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda _: there or None)
    cpu, gpu = (resolved().on_device(cuda=cuda) for cuda in (False, True))
    assert (cpu.model.dtype, cpu.model.kernels) == ("float32", "torch")
    assert (cpu.sampling.max_rows, cpu.sampling.cache_tokens) == (256, 262144)
    kernels = "liger" if there else "torch"
    assert (gpu.model.dtype, gpu.model.kernels) == ("bfloat16", kernels)
    assert (gpu.sampling.max_rows, gpu.sampling.cache_tokens) == ("auto", "auto")
    assert resolved().on_device(cuda=True, bfloat16=False).model.dtype == "float32"


@pytest.mark.parametrize("cuda", [True, False])
def test_what_a_recipe_says_stays_and_narrow_weights_compute_in_bfloat16(cuda):
    said = resolved(
        "model.dtype=float32; model.kernels=liger; sampling.max_rows=3; sampling.cache_tokens=400"
    )
    assert said.on_device(cuda=cuda) == said
    for weights in ("bfloat16", "nf4"):
        narrow = resolved(f'model.weights={weights}; model.adapter={{kind="lora"}}')
        assert narrow.on_device(cuda=cuda, bfloat16=False).model.dtype == "bfloat16"


def anchor(samples):
    return AnchorSettings(divergence="forward_kl", weight=0.1, samples=samples)


def test_stored_samples_are_those_of_the_runs_pool_or_of_a_directory():
    for samples, read in (("pool", None), ("pool:runs/a/pool", Path("runs/a/pool"))):
        found = anchor(samples)
        assert found.pool == read
        assert ObjectiveSettings(anchors={"one": found}).rehearses_pool == (samples == "pool")
    for samples in ("", "pools", "pool:", "shop:kept", "recent:4"):
        with pytest.raises(ValueError, match=r"'pool' or 'pool:DIRECTORY', got"):
            anchor(samples)


def test_a_directory_starts_at_the_recipe_and_a_typed_one_where_it_is_typed(tmp_path):
    recipe = tmp_path / "task" / "recipe.toml"
    recipe.parent.mkdir()
    recipe.write_text(
        '[model]\npath = "m"\n[data]\ntrain = "t.jsonl"\n[objective.anchors.old]\n'
        'divergence = "alpha"\nsamples = "pool:../other/pool"\n'
    )
    found = load_recipe(recipe)
    assert found.objective.anchors["old"].pool == recipe.parent / "../other/pool"
    recipe.write_text(recipe_toml(found))
    assert load_recipe(recipe) == found
    typed = load_recipe(recipe, overrides=["objective.anchors.old.samples=pool:here"])
    assert typed.objective.anchors["old"].pool == Path.cwd() / "here"
