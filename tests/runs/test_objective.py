import math

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import LossBatch, mixed_loss
from dph.loss.objectives.objective import needs_whole_step
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from short_objective import from_settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "[]"),
        ({"divergence": "alpha", "alpha": 0.3, "eta": 1.0}, "[Alpha(alpha=0.3)]"),
        (
            {"divergence": "forward_kl", "forward_kl_form": "nll", "eta": 1},
            "[ForwardKL(form='nll')]",
        ),
        ({"divergence": "jensen_shannon", "eta": 1.0}, "[JensenShannon()]"),
        ({"divergence": "jensen_shannon", "eta": 0.0}, "[]"),
        ({"js_definition": True, "eta": 1.0}, "[JensenShannonDefinition()]"),
    ],
)
def test_settings_choose_the_divergence(settings, expected):
    assert repr([a.divergence for a in from_settings(**settings).anchors.values()]) == expected


OWN = """
import torch

def relative(rewards):
    mean = rewards.mean(-1, keepdim=True)
    return torch.where(mean > 0, (rewards - mean) / mean, 0.0)

def powered(rewards, power=1.0):
    return relative(rewards) ** power

class Entropy:
    reads_reference = False

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, tokens):
        return self.scale * tokens.logprobs

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_terms_of_a_user.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_terms_of_a_user"


def test_a_users_function_is_the_term_itself_and_gets_its_parameters_by_name(own):
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    plain = from_settings(advantage={"kind": f"{own}:relative"})
    assert plain.advantage(rewards).tolist() == [[1, -1, -1, 1], [0, 0, 0, 0]]
    squared = from_settings(advantage={"kind": f"{own}:powered", "power": 2.0})
    assert squared.advantage(rewards).tolist() == [[1, 1, 1, 1], [0, 0, 0, 0]]


def test_a_class_of_ones_own_is_made_with_its_parameters_and_needs_a_reference_if_it_says_so(own):
    settings = ObjectiveSettings(
        penalties={"entropy": {"kind": f"{own}:Entropy", "weight": 0.5, "scale": 2.0}}
    )
    objective = make_objective(settings)
    assert objective.penalties["entropy"].penalty.scale == 2.0
    assert objective.needs_all_samples
    assert not settings.needs_reference_model
    assert from_settings(surrogate={"kind": f"{own}:relative"}).needs_all_samples
    assert not from_settings(surrogate={"clip_high": 0.3}).needs_all_samples


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("relative", {"power": 2.0}, "takes no 'power'"),
        ("Entropy", {}, r"cannot be made with \{\}: .*'scale'"),
        ("number", {}, "is not callable"),
        ("nothing", {}, "has no 'nothing'"),
    ],
)
def test_what_cannot_be_a_term_is_refused_with_the_reason(own, kind, more, message):
    settings = ObjectiveSettings(advantage={"kind": f"{own}:{kind}", **more})
    with pytest.raises(SettingsError, match=message):
        make_objective(settings)


def test_every_anchor_has_rows_and_a_denominator_of_its_own():
    # u = 1/2 on the first store's only token, 1/4 on both tokens of the second's.
    logprobs = torch.tensor([[-1.0, math.nan], [-2.0, math.nan], [-3.0, -4.0]]).double()
    gap = torch.tensor([[0.0, math.nan], [math.log(2), math.nan], [math.log(4), math.log(4)]])
    batch = LossBatch(
        logprobs=logprobs,
        old_logprobs=logprobs.clone(),
        ref_logprobs=logprobs + gap,
        mask=torch.tensor([[True, False], [True, False], [True, True]]),
        advantages=torch.tensor([1.0, math.nan, math.nan]).double(),
        source=torch.tensor([0, 1, 2]),
        weights=torch.tensor([1.0, 1.0, 0.5]),
    )
    objective = from_settings(
        anchors={
            "near": {"divergence": "forward_kl", "weight": 0.1},
            "far": {"divergence": "forward_kl", "form": "nll", "weight": 0.2},
        }
    )
    loss = mixed_loss(batch, objective)
    near, far = math.log(2) - 0.5, math.log(4)  # k3 at 1/2; -log u
    assert loss.anchors["near"].item() == pytest.approx(near)
    assert loss.anchors["far"].item() == pytest.approx(far)
    assert loss.total.item() == pytest.approx(-1 + 0.1 * near + 0.2 * far)


@pytest.mark.parametrize(
    ("settings", "logprobs", "tables"),
    [
        ({}, False, False),
        ({"kl_coefficient": 0.1}, True, False),
        ({"penalties": {"p": {"kind": "entropy", "weight": 0.1}}}, False, False),
        ({"penalties": {"p": {"kind": "exact_forward_kl", "weight": 0.1}}}, False, True),
        ({"divergence": "jensen_shannon", "js_definition": True, "eta": 0.1}, True, False),
        ({"advantage": {"kind": "flowrl"}}, True, False),
        ({"surrogate": {"kind": "flow_balance"}}, False, False),
    ],
)
def test_what_is_asked_of_the_initial_policy_is_what_terms_read(settings, logprobs, tables):
    objective = make_objective(ObjectiveSettings(**settings))
    assert objective.reads_reference_logprobs is logprobs
    assert ObjectiveSettings(**settings).needs_reference_model is (logprobs or tables)
    assert objective.reads_reference_tables is tables


def test_engines_that_see_log_probs_alone_are_told_which_terms_need_more():
    settings = ObjectiveSettings(
        penalties={"wide": {"kind": "entropy", "weight": 0.1}, "kl": {"weight": 0.1}},
        anchors={"old": {"divergence": "alpha", "weight": 0.1}},
    )
    assert list(needs_whole_step(make_objective(settings))) == ["penalties.wide"]
    assert needs_whole_step(make_objective(ObjectiveSettings(eta=0.1, divergence="alpha"))) == {}
