"""What the terms of a recipe become in verl's own settings, and what verl cannot do."""

import pytest
from omegaconf import OmegaConf

from dph.engines.verl.settings import OWN_SURROGATE, apply_terms, own_penalties, train_settings
from dph.errors import SettingsError
from own_advantage import COMPARING, RELATIVE
from own_terms import CONFIDENT, PLAIN, READING

ACTOR = (
    *("clip_ratio_low", "clip_ratio_high", "use_kl_loss", "kl_loss_coef", "kl_loss_type"),
    *("loss_agg_mode", "policy_loss.loss_mode", "clip_ratio_c"),
)


@pytest.fixture
def applied(composed):
    """The configuration of verl after the terms were applied, twice as in a run."""

    def make(*overrides):
        config = composed("dph_train", "dph.pool=pool", *overrides)
        for _ in range(2):
            apply_terms(config, train_settings(config).objective)
        return config

    return make


def theirs(config):
    actor = config.actor_rollout_ref.actor
    return tuple(OmegaConf.select(actor, name) for name in ACTOR)


PLAINLY = (0.2, 0.2, False, 0.001, "low_var_kl", "token-mean", "vanilla", 3.0)
OFF = {7: 1e9}  # verl's dual clip, which our surrogates do not have


@pytest.mark.parametrize(
    ("overrides", "changes"),
    [
        ((), {}),
        (("dph.eta=0.3", "dph.divergence=jensen_shannon"), {}),
        (("dph.clip_high=0.28",), {1: 0.28, **OFF}),
        (("dph.clip_low=0.2", "actor_rollout_ref.actor.clip_ratio_c=3.0"), {}),
        (("+dph.objective.surrogate.clip_low=0.1",), {0: 0.1, **OFF}),
        (("dph.kl_coefficient=0.02",), {2: True, 3: 0.02}),
        (("dph.kl_coefficient=0.02", "dph.kl_estimator=k2"), {2: True, 3: 0.02, 4: "k2"}),
        (("dph.reduction=sequence_mean",), {5: "seq-mean-token-mean"}),
        ((f"+dph.objective.surrogate.kind={PLAIN}",), {6: OWN_SURROGATE, **OFF}),
        (("dph.method=rkl", "dph.kl_estimator=k3"), {1: 0.28, 2: True, 3: 0.01, **OFF}),
        (("dph.method=rkl",), {1: 0.28, 2: True, 3: 0.0, **OFF}),  # added to verl's loss
        (("dph.divergence=jensen_shannon", "dph.js_definition=true"), {2: True, 3: 0.0}),
        (("actor_rollout_ref.actor.use_kl_loss=true",), {2: True}),
        (("dph.clip_high=0.3", "actor_rollout_ref.actor.clip_ratio_high=0.3"), {1: 0.3, **OFF}),
    ],
)
def test_a_named_term_sets_what_verl_calls_it_and_the_rest_stays(applied, overrides, changes):
    expected = tuple(changes.get(i, value) for i, value in enumerate(PLAINLY))
    assert theirs(applied(*overrides)) == expected


def test_a_fixed_length_a_groups_advantage_and_dynamic_sampling_are_verls_own(applied):
    actor = applied("dph.reduction=fixed_length", "data.max_response_length=77")
    actor = actor.actor_rollout_ref.actor
    assert actor.loss_agg_mode == "seq-mean-token-sum-norm"
    assert actor.loss_scale_factor == 77
    assert applied("dph.advantage_scale=none").algorithm.norm_adv_by_std_in_grpo is False
    assert applied("dph.advantage_scale=std").algorithm.norm_adv_by_std_in_grpo is True
    own = applied(f"+dph.objective.advantage.kind={RELATIVE}").algorithm
    assert (own.adv_estimator, own.norm_adv_by_std_in_grpo) == ("grpo", True)
    groups = applied("dph.method=dapo").algorithm.filter_groups
    assert (groups.enable, groups.metric) == (True, "acc")


def test_the_first_kl_is_verls_and_other_penalties_are_added_to_its_loss(composed):
    config = composed(
        "dph_train",
        "dph.pool=pool",
        "dph.kl_coefficient=0.02",
        f"+dph.objective.penalties.mine.kind={CONFIDENT}",
        "+dph.objective.penalties.mine.weight=0.4",
    )
    assert set(own_penalties(train_settings(config).objective)) == {"mine"}
    config = composed("dph_train", "dph.pool=pool", "dph.method=rkl")
    assert set(own_penalties(train_settings(config).objective)) == {"kl"}


COEFFICIENT = "dph.kl_coefficient=0.02 ACTOR.use_kl_loss=true ACTOR.kl_loss_coef=0.03"
WIDE = "OWN.penalties.wide.kind=entropy OWN.penalties.wide.weight=0.1"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("dph.clip_high=0.28 ACTOR.clip_ratio_high=0.3", "clip_ratio_high=0.3 .* sets it to 0.28"),
        (COEFFICIENT, "kl_loss_coef=0.03 and dph.objective"),
        ("dph.method=rkl ACTOR.use_kl_loss=true", "kl_loss_coef=0.001 and dph.* sets it to 0.0"),
        ("dph.advantage_scale=std algorithm.adv_estimator=rloo", "=rloo differs from"),
        ("dph.clip_low=0.1 ACTOR.policy_loss.loss_mode=gspo", "loss_mode=gspo .* it to vanilla"),
        ("distillation.enabled=true", "distillation.enabled=true and dph.objective"),
        ("OWN.overlong_filter=true", "overlong_filter: verl counts .*TRL"),
        (
            f"OWN.surrogate.kind={READING}",
            "reads the initial policy's log-probs, which verl does not give to a surrogate",
        ),
        ("dph.method=flowrl", "advantage.kind=flowrl reads the initial policy's log-probs of"),
        (
            f"OWN.advantage.kind={COMPARING}",
            "reads the initial policy's log-probs of new samples.*`dph train` can",
        ),
        (WIDE, "penalties.wide: it needs whole next-token .*, and verl.*`dph train` can"),
        ("OWN.surrogate.kind=clip", "there is no 'clip'.*'clipped'"),
    ],
)
def test_what_verl_cannot_do_or_is_told_otherwise_is_refused(applied, overrides, message):
    words = overrides.replace("ACTOR", "actor_rollout_ref.actor").replace("OWN", "+dph.objective")
    with pytest.raises(SettingsError, match=message):
        applied(*words.split())
