"""What the terms of a recipe become in TRL's own settings, and what TRL cannot do."""

import json

import pytest
from trl import GRPOConfig

from dph.engines.trl import DPHConfig
from dph.errors import SettingsError
from own_advantage import COMPARING, RELATIVE

TRLS = ("epsilon", "epsilon_high", "beta", "scale_rewards", "loss_type")


def make(tmp_path, **changes):
    values = {"output_dir": str(tmp_path), "pool": "pool", "use_cpu": True, "bf16": False}
    return DPHConfig(**{**values, **changes})


def theirs(config):
    return tuple(getattr(config, name) for name in TRLS)


def test_with_no_word_on_a_term_it_is_trls_own_and_words_may_agree(tmp_path):
    plain = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    assert theirs(make(tmp_path)) == theirs(plain)
    own = make(tmp_path, epsilon=0.1, epsilon_high=0.3, beta=0.02, scale_rewards="batch")
    assert theirs(own) == (0.1, 0.3, 0.02, "batch", "dapo")
    config = make(tmp_path, clip_low=0.1, clip_high=0.3, epsilon=0.1, epsilon_high=0.3)
    assert theirs(config)[:2] == (0.1, 0.3)
    assert make(tmp_path, objective={"overlong_filter": True}).mask_truncated_completions


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ({"surrogate": {"clip_low": 0.1, "clip_high": 0.3}}, (0.1, 0.3, 0.0, "group", "dapo")),
        ({"clip_high": 0.28}, (0.2, 0.28, 0.0, "group", "dapo")),
        (
            {"penalties": {"kl": {"weight": 0.05, "estimator": "k3"}}},
            (0.2, None, 0.05, "group", "dapo"),
        ),
        ({"advantage": {"scale": "none"}}, (0.2, None, 0.0, "none", "dapo")),
        ({"reduction": "sequence_mean"}, (0.2, None, 0.0, "group", "grpo")),
        ({"reduction": "fixed_length"}, (0.2, None, 0.0, "group", "dr_grpo")),
    ],
)
def test_a_named_term_sets_what_trl_calls_it(tmp_path, objective, expected):
    assert theirs(make(tmp_path, objective=objective)) == expected


def test_the_k3_penalty_is_k3_without_trls_factor(tmp_path):
    # TRL's default multiplies it by pi / pi_old, and that product has the gradient of k2.
    assert make(tmp_path, beta=0.05).use_bias_correction_kl is True
    penalty = {"penalties": {"kl": {"weight": 0.05, "estimator": "k3"}}}
    assert make(tmp_path, objective=penalty).use_bias_correction_kl is False
    assert make(tmp_path, method="rkl").use_bias_correction_kl is True


def test_an_entropy_penalty_is_entropy_coef_where_a_step_is_one_micro_batch(tmp_path):
    penalty = {"penalties": {"wide": {"kind": "entropy", "weight": 0.02}}}
    assert make(tmp_path, objective=penalty).entropy_coef == 0.02
    assert make(tmp_path, method="entropy_bonus").entropy_coef == 0.001
    with pytest.raises(SettingsError, match=r"got 'token_mean' and 2 \(gradient_accumulation"):
        make(tmp_path, objective=penalty, gradient_accumulation_steps=2)


def test_a_method_of_the_recipes_is_one_word(tmp_path):
    config = make(tmp_path, method="rkl")
    assert theirs(config) == (0.2, 0.28, 0.01, "group", "dapo")
    assert not config.terms.rehearses
    config = make(tmp_path, method="dph_js", eta=0.5)
    assert config.terms.anchors["rehearsal"].weight == 0.5
    assert config.terms.anchors["rehearsal"].divergence == "jensen_shannon"


def test_a_recipe_is_named_by_its_path_and_json_text_is_the_same_as_a_table(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        """
        method = "dph_f"
        model.path = "model"
        data.train = "train.jsonl"
        [objective.advantage]
        scale = "none"
        [objective.anchors.rehearsal]
        weight = 0.3
        """
    )
    config = make(tmp_path, objective=str(path))
    assert make(tmp_path, objective=path).terms == config.terms
    assert theirs(config) == (0.2, 0.28, 0.0, "none", "dapo")
    assert config.terms.anchors["rehearsal"].weight == 0.3
    table = {"anchors": {"far": {"divergence": "alpha", "alpha": 0.3, "weight": 0.2}}}
    ours = make(tmp_path, objective=json.dumps(table))
    assert ours.terms == make(tmp_path, objective=table).terms
    assert make(tmp_path, objective=ours.terms).terms == ours.terms
    saved = json.loads(make(tmp_path, eta=0.3).to_json_string())
    assert saved["objective"]["anchors"]["rehearsal"]["weight"] == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_high": 0.28, "epsilon_high": 0.3}, r"epsilon_high=0.3 and objective.surrogate"),
        ({"kl_coefficient": 0.1, "beta": 0.2}, r"beta=0.2 and objective.penalties"),
        ({"advantage_scale": "none", "scale_rewards": "batch"}, r"scale_rewards='batch' and"),
        (
            {"method": "rkl", "importance_sampling_level": "sequence"},
            r"importance_sampling_level='sequence' and objective.penalties",
        ),
        (
            {"objective": {"reduction": "fixed_length"}, "loss_type": "grpo"},
            r"loss_type='grpo' and objective.reduction, which sets it to 'dr_grpo'",
        ),
        ({"clip_low": 0.1, "loss_type": "cispo"}, r"loss_type='cispo' differs from the surrogate"),
        (
            {"objective": {"advantage": {"kind": RELATIVE}}, "scale_rewards": "none"},
            r"scale_rewards='none' shapes TRL's own advantages",
        ),
        ({"objective": {"eta": 0.1}, "eta": 0.2}, r"rehearsal.weight is 0.1, and also 0.2"),
    ],
)
def test_what_is_said_twice_has_to_be_the_same(tmp_path, changes, message):
    with pytest.raises(SettingsError, match=message):
        make(tmp_path, **changes)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ({"surrogate": {"kind": RELATIVE}}, r"objective.surrogate.*`dph train` and verl can"),
        ({"penalties": {"mine": {"kind": RELATIVE, "weight": 1.0}}}, r"penalties.mine.*verl can"),
        (
            {"kl_coefficient": 0.1, "kl_estimator": "k2"},
            r"'kl': 'k2'.*k3 or unbiased: `dph train` and verl support all",
        ),
        (
            {
                "kl_coefficient": 0.1,
                "penalties": {"more": {"weight": 0.1, "estimator": "unbiased"}},
            },
            r"'more': 'unbiased', 'kl': 'k3'.*TRL has one KL term",
        ),
        ({"overlong_buffer": 0.2}, r"get_soft_overlong_punishment.*`dph train`"),
        ({"dynamic_sampling": True}, r"dynamic_sampling=True: .*`dph train`"),
        (
            {"anchors": {"js": {"divergence": "jensen_shannon_definition", "weight": 0.1}}},
            r"objective.anchors.js: .*`dph train`",
        ),
        ({"advantage": {"kind": "no_such_module:x"}}, r"cannot import 'no_such_module'"),
        ({"surrogate": {"kind": "unclipped"}}, r"objective.surrogate = 'unclipped'.* and verl can"),
        (
            {"penalties": {"near": {"kind": "exact_reverse_kl", "weight": 0.1}}},
            r"penalties.near: it needs whole next-token distributions.*; `dph train` can",
        ),
        (
            {
                "penalties": {"wide": {"kind": "entropy", "weight": 0.1}},
                "reduction": "sequence_mean",
            },
            r"entropy_coef only with reduction = 'token_mean' .*, got 'sequence_mean' and 1",
        ),
        ({"advantage": {"kind": "grupo"}}, r"there is no 'grupo'.*'group'"),
        (
            {"advantage": {"kind": "flowrl"}},
            r"'flowrl': it reads the initial policy's log-probs of",
        ),
        ({"advantage": {"kind": COMPARING}}, r"it reads the initial policy's log-probs of new"),
        (
            {"advantage": {"kind": "ucpo"}, "overlong_filter": True},
            r"'ucpo' reads the log-probs of all samples, and mask_truncated_completions=True",
        ),
    ],
)
def test_what_trl_cannot_do_is_refused_with_who_can(tmp_path, objective, message):
    with pytest.raises(SettingsError, match=message):
        make(tmp_path, objective=objective)
