"""Named stores as a stage of a run: made beside the pool, kept, continued, and refused."""

import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from dph.errors import DataError, ModelError, PoolError, SettingsError, VerifierError
from dph.model.policies import load_policy
from dph.records import Problem
from dph.runs.plan import open_plan
from dph.runs.presample.manifest import read_manifest
from dph.runs.presample.stores import making, store
from dph.runs.presample.stores import values as valuing
from dph.runs.presample.stores.groups import answer_trie, branch_values
from dph.runs.presample.stores.store import load_store, stored_groups, stored_values, stored_weights
from dph.runs.presampling_stage import pool_source
from dph.runs.progress import Silent
from dph.runs.store_stage import store_stage, stored_samples
from dph.tasks.problems import save_problems
from letter_grader import grade

UNLABELLED = tuple(
    Problem(
        problem_id=f"u{i}",
        prompt=f"say {'fedcba'[i % 6]} {'fedcba'[i // 6]} f",
        answer={"part": "others" if i % 2 else "trained"},
    )
    for i in range(12)
)


@pytest.fixture
def store_recipe(make_recipe, tmp_path):
    """A recipe with one anchor on a store of unlabelled prompts, and what it changes of that."""

    def make(*, anchor=None, **store):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        table = {"file": str(tmp_path / "unlabelled.jsonl"), "answers": 3, "top": 2, **store}
        return make_recipe(
            "grpo",
            stores={"broad": {k: v for k, v in table.items() if v is not None}},
            objective={
                "anchors": {
                    "broad": {
                        "divergence": "distribution_kl",
                        "weight": 0.15,
                        "samples": "store:broad",
                        **(anchor or {}),
                    }
                }
            },
        )

    return make


@pytest.fixture
def make_stores(tmp_path):
    def make(recipe, directory="run"):
        with open_plan(recipe, tmp_path / directory) as plan:
            return store_stage(plan, Silent())

    return make


def files_of(directory):
    """All but how long it took, which is another each time."""
    files = [p for p in directory.rglob("*") if p.is_file() and ".seconds." not in p.name]
    return {p.relative_to(directory): p.read_bytes() for p in files}


def test_a_store_holds_every_answer_with_the_models_own_distributions(
    store_recipe, make_stores, make_model, tmp_path
):
    manifest = make_stores(store_recipe())["broad"]
    assert (manifest.counts.prompts, manifest.counts.answers) == (12, 36)
    samples = load_store(tmp_path / "run" / "stores" / "broad")
    assert len(samples) == 36
    model = make_model()
    for sample in samples[::7]:
        ids = torch.tensor([[*sample.prompt_ids, *sample.completion_ids]])
        with torch.no_grad():
            table = model(ids).logits[0, len(sample.prompt_ids) - 1 : -1].log_softmax(-1)
        for t, token in enumerate(sample.completion_ids):
            assert token in sample.token_ids[t]
            assert set(table[t].topk(2).indices.tolist()) <= set(sample.token_ids[t])
            chosen = table[t, list(sample.token_ids[t])]
            rest = 1 - chosen.double().exp().sum().item()
            np.testing.assert_allclose(sample.logprobs[t], chosen, atol=4e-3)  # float16 near -4
            np.testing.assert_allclose(np.exp(sample.log_tails[t]), rest, atol=1e-3)
            total = np.exp(sample.logprobs[t]).sum() + np.exp(sample.log_tails[t])
            assert total == pytest.approx(1, abs=1e-12)
        own = table.gather(1, torch.tensor(sample.completion_ids)[:, None])[:, 0]
        np.testing.assert_allclose(sample.ref_logprobs, own, atol=1e-5)


def test_tokens_of_other_answers_to_the_prompt_are_told_apart_where_they_part(
    store_recipe, make_stores, tmp_path
):
    make_stores(store_recipe(top=1, answers=6))
    samples = load_store(tmp_path / "run" / "stores" / "broad")
    for sample in samples:
        for other in samples:
            if other.problem_id == sample.problem_id:
                both = zip(sample.completion_ids, other.completion_ids, strict=False)
                same = next((t for t, (a, b) in enumerate(both) if a != b), None)
                if same is not None:
                    assert other.completion_ids[same] in sample.token_ids[same]


def test_all_tokens_leave_no_tail(store_recipe, make_stores, tokenizer, tmp_path):
    make_stores(store_recipe(top="all"))
    for sample in load_store(tmp_path / "run" / "stores" / "broad"):
        assert all(len(ids) == len(tokenizer) for ids in sample.token_ids)
        assert all(tail == -np.inf for tail in sample.log_tails)


def test_a_killed_store_goes_on_to_the_same_bytes(store_recipe, make_stores, monkeypatch, tmp_path):
    monkeypatch.setattr(making, "CHUNK", 5)
    monkeypatch.setattr("dph.runs.store_stage.CHUNK", 5)
    make_stores(store_recipe(), "whole")
    draw, calls = making._draw, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return draw(*arguments)

    monkeypatch.setattr(making, "_draw", killed)
    with pytest.raises(KeyboardInterrupt):
        make_stores(store_recipe(), "killed")
    assert not (tmp_path / "killed" / "stores" / "broad").exists()
    make_stores(store_recipe(), "killed")
    assert len(calls) == 4  # two chunks were kept, the third was drawn again
    whole, gone_on = (files_of(tmp_path / name / "stores") for name in ("whole", "killed"))
    assert gone_on == whole


def test_a_finished_store_is_kept_and_another_ones_place_is_refused(
    store_recipe, make_stores, monkeypatch
):
    first = make_stores(store_recipe())
    monkeypatch.setattr(making, "_draw", lambda *_: pytest.fail("drawn"))
    assert make_stores(store_recipe()) == first
    with pytest.raises(PoolError, match="answers was 3, this run has 4"):
        make_stores(store_recipe(answers=4))


def test_another_tilt_draws_nothing_again(store_recipe, make_stores, monkeypatch):
    make_stores(store_recipe())
    monkeypatch.setattr(making, "_draw", lambda *_: pytest.fail("drawn"))
    recipe = store_recipe()
    assert make_stores(recipe)["broad"].counts.prompts == 12


def test_only_stores_that_training_reads_are_made(store_recipe, make_stores, tmp_path):
    assert make_stores(store_recipe(anchor={"weight": 0.0})) == {}
    assert not (tmp_path / "run").exists()


def test_prompts_of_a_test_are_refused_unless_the_set_is_named(
    store_recipe, make_stores, tmp_path, problems
):
    file = tmp_path / "tests_too.jsonl"
    save_problems(file, [*UNLABELLED[:3], *problems[:2]])
    with pytest.raises(DataError, match="2 of 5 prompts are prompts of the evaluation set 'dev'"):
        make_stores(store_recipe(file=str(file)))
    allowed = store_recipe(file=str(file), allow_overlap=["dev"])
    assert make_stores(allowed)["broad"].counts.prompts == 5
    with pytest.raises(SettingsError, match="there is no set 'test'; there is: dev"):
        make_stores(store_recipe(file=str(file), allow_overlap=["test"]))


def test_a_store_without_its_file_is_refused_in_one_sentence(store_recipe, make_stores):
    with pytest.raises(SettingsError, match=r"needs stores\.broad\.file"):
        make_stores(store_recipe(file=None))


def test_columns_choose_among_the_rows(store_recipe, make_stores, tmp_path):
    make_stores(store_recipe(only={"part": "others"}, limit=4))
    found = {s.problem_id for s in load_store(tmp_path / "run" / "stores" / "broad")}
    assert found == {"u1", "u3", "u7", "u9"}
    with pytest.raises(DataError, match="no row has the column 'side'"):
        make_stores(store_recipe(only={"side": "others"}), "another")


def test_an_anchor_gets_the_samples_of_the_store_it_names(store_recipe, make_stores, tmp_path):
    recipe = store_recipe()
    make_stores(recipe)
    with open_plan(recipe, tmp_path / "run") as plan:
        model = load_policy(Path(recipe.model.path), plan.recipe.model, initial=plan.initial)
        source = pool_source(plan, model)
        stored = stored_samples(plan, None, source, initial=True)
        assert stored == {"broad": load_store(tmp_path / "run" / "stores" / "broad")}
        colder = source.model_copy(update={"temperature": 0.5})
        with pytest.raises(PoolError, match=r"temperature was 1\.0, this run has 0\.5"):
            stored_samples(plan, None, colder, initial=True)


def test_a_changed_file_is_refused(store_recipe, make_stores, tmp_path):
    make_stores(store_recipe())
    path = tmp_path / "run" / "stores" / "broad"
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["groups.parquet"] = "0" * 64
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(PoolError, match=r"groups\.parquet is not the file that was written"):
        load_store(path)


COMPARED = {"tilt": 4.0, "agreement": "own_agreement:first_letter"}


def test_a_tilt_compares_the_answers_that_are_there_and_draws_nothing(
    store_recipe, make_stores, monkeypatch, tmp_path
):
    path = tmp_path / "run" / "stores" / "broad"
    make_stores(store_recipe(answers=6))
    plain, drawn = load_store(path), (path / "groups.parquet").read_bytes()
    with pytest.raises(PoolError, match="needs answers that were compared"):
        load_store(path, tilt=4.0)
    monkeypatch.setattr(making, "_draw", lambda *_: pytest.fail("drawn"))
    manifest = make_stores(store_recipe(answers=6, **COMPARED))["broad"]
    assert (path / "groups.parquet").read_bytes() == drawn
    assert load_store(path, tilt=0.0) == plain != load_store(path, tilt=4.0)
    assert 0 < manifest.counts.prompts_that_agree <= 1
    assert 0 < manifest.counts.agreement < 1
    assert make_stores(store_recipe(answers=6)) == {"broad": manifest}  # more than it needs


def test_agreement_is_the_share_of_the_other_answers_with_the_same_key(
    store_recipe, make_stores, tmp_path
):
    make_stores(store_recipe(answers=4, **COMPARED))
    path = tmp_path / "run" / "stores" / "broad"
    values = stored_values(path)
    for group in stored_groups(path):
        texts = group.answered
        for index, value in enumerate(values[group.problem.problem_id]):
            own = texts[index]
            others = [t for i, t in enumerate(texts) if i != index]
            same = sum(bool(own and t and own[0] == t[0]) for t in others)
            assert value.agreement == pytest.approx(same / 3)


def test_a_tilt_makes_answers_that_agree_likelier(store_recipe, make_stores, tmp_path):
    make_stores(store_recipe(answers=8, top="all", **COMPARED))
    path = tmp_path / "run" / "stores" / "broad"
    plain, tilted = (load_store(path, tilt=tilt) for tilt in (0.0, 4.0))
    worth = {
        (problem_id, index): value.agreement
        for problem_id, group in stored_values(path).items()
        for index, value in enumerate(group)
    }
    first = []
    for before, after in zip(plain, tilted, strict=True):
        place = before.token_ids[0].index(before.completion_ids[0])
        change = after.logprobs[0][place] - before.logprobs[0][place]
        first.append((worth[before.problem_id, before.sample_index], change))
    assert np.corrcoef(*zip(*first, strict=True))[0, 1] > 0.5


@pytest.mark.parametrize("values", ["agreement", "distinct", "majority", "correct"])
@pytest.mark.parametrize("tilt", [0.5, 3.0])
def test_first_tokens_part_by_the_worth_of_their_answers_to_the_power_of_the_tilt(
    store_recipe, make_stores, tmp_path, values, tilt
):
    train = {"prompts": "train", "file": None, "tilt": tilt, "values": values, "answers": 12}
    make_stores(store_recipe(top="all", **({} if values == "correct" else COMPARED) | train))
    path = tmp_path / "run" / "stores" / "broad"
    plain, tilted = (load_store(path, tilt=t, values=values) for t in (0.0, tilt))
    by_prompt = {}
    for before, after in zip(plain, tilted, strict=True):
        by_prompt.setdefault(before.problem_id, (before, after))
    apart = 0
    for group in stored_groups(path):
        trie = answer_trie(group.completions)
        worth = branch_values(trie, worth_by_hand(group, values))
        before, after = by_prompt[group.problem.problem_id]
        moved = np.subtract(after.logprobs[0], before.logprobs[0])
        moved -= moved[before.token_ids[0].index(group.completions[0][0])]
        own = worth[trie.children[0][group.completions[0][0]]]
        for token, child in trie.children[0].items():
            change = moved[before.token_ids[0].index(token)]
            assert change == pytest.approx(tilt * np.log(worth[child] / own), abs=1e-6)
            apart += worth[child] != own
    assert apart


def worth_by_hand(group, values):
    """What each answer weighs; cut-off ones agree with nobody."""
    texts = group.answered
    if values == "correct":
        return [float(t is not None and grade(t, group.problem)) for t in texts]
    all_texts = [text or "" for text in group.texts]
    if values == "majority":
        sizes = Counter(text[0] for text in texts if text)
        most = max([2, *sizes.values()])
        return [float(bool(text) and sizes[text[0]] == most) for text in texts]
    found = []
    for index, text in enumerate(texts):
        others = [(i, t) for i, t in enumerate(texts) if i != index]
        if values == "distinct":
            firsts = {t: i for i, t in reversed(list(enumerate(all_texts)))}
            others = [(i, texts[i]) for t, i in firsts.items() if t != all_texts[index]]
        same = sum(bool(text and t and text[0] == t[0]) for _, t in others)
        found.append(same / max(1, len(others)))
    return found


def weights_of(path, values):
    groups, manifest = stored_groups(path), read_manifest(path, "store")
    return stored_weights(path, manifest, values, groups)


@pytest.mark.parametrize(
    ("values", "of"), [("shuffled", "agreement"), ("shuffled_distinct", "distinct")]
)
def test_shuffled_values_are_those_of_the_prompt_in_an_order_that_its_seed_and_id_decide(
    store_recipe, make_stores, monkeypatch, tmp_path, values, of
):
    make_stores(store_recipe(answers=8, **COMPARED, values=values))
    path = tmp_path / "run" / "stores" / "broad"
    plain, found = (weights_of(path, name) for name in (of, values))
    assert {k: Counter(v) for k, v in found.items()} == {k: Counter(v) for k, v in plain.items()}
    told_apart = [key for key in plain if len(set(plain[key])) > 1]
    assert sum(found[key] != plain[key] for key in told_apart) > len(told_apart) / 2
    assert load_store(path, tilt=4.0, values=values) != load_store(path, tilt=4.0, values=of)
    # Fewer prompts, in other pieces, made by a run that was stopped: the same for each of them.
    monkeypatch.setattr(making, "CHUNK", 2)
    make_stores(store_recipe(answers=8, limit=4), "fewer")
    make_stores(store_recipe(answers=8, limit=4, **COMPARED, values=values), "fewer")
    some = weights_of(tmp_path / "fewer" / "stores" / "broad", values)
    assert len(some) == 4
    assert some == {key: found[key] for key in some}


def test_of_a_gold_that_cannot_be_used_a_cut_off_answer_is_not_wrong_either(
    store_recipe, make_stores, tmp_path
):
    # Cut-off answers have no verdict of their own; where others have one, they are wrong.
    train = {"prompts": "train", "file": None, "answers": 8}
    recipe = store_recipe(**train, values="correct", targets="answers")
    recipe = recipe.model_copy(
        update={"data": recipe.data.model_copy(update={"verifier": "letter_grader:bad_gold"})}
    )
    make_stores(recipe)
    path = tmp_path / "run" / "stores" / "broad"
    values = stored_values(path)
    finished = {g.problem.problem_id: any(g.finished) for g in stored_groups(path)}
    cut_off = {g.problem.problem_id for g in stored_groups(path) if not all(g.finished)}
    for name, own in values.items():
        assert {value.correct for value in own} == {None if finished[name] else False}
    assert any(finished[name] for name in cut_off)


def test_ungradable_prompts_weigh_nothing_and_a_store_of_them_alone_is_refused(
    store_recipe, make_stores, monkeypatch, tmp_path
):
    train = {"prompts": "train", "file": None, "answers": 8}
    make_stores(store_recipe(**train, values="correct", targets="answers"))
    path = tmp_path / "run" / "stores" / "broad"
    before, known = weights_of(path, "correct"), stored_values(path)
    one = next(key for key, weights in before.items() if any(weights))
    none = {key: [replace(value, correct=None) for value in own] for key, own in known.items()}
    monkeypatch.setattr(store, "stored_values", lambda _: {**known, one: none[one]})
    assert weights_of(path, "correct") == {**before, one: [0.0] * 8}
    monkeypatch.setattr(store, "stored_values", lambda _: none)
    with pytest.raises(PoolError, match="no answer could be graded"):
        weights_of(path, "correct")


@pytest.mark.parametrize("values", ["majority", "correct"])
def test_answers_as_targets_are_those_that_were_voted_for_or_are_right(
    store_recipe, make_stores, tmp_path, values
):
    agreement = {} if values == "correct" else {"agreement": COMPARED["agreement"]}
    train = {"prompts": "train", "file": None, "values": values, "answers": 8, **agreement}
    recipe = store_recipe(targets="answers", **train)
    make_stores(recipe)
    path = tmp_path / "run" / "stores" / "broad"
    wanted = [
        (group.problem.problem_id, index, completion)
        for group in stored_groups(path)
        for index, (completion, worth) in enumerate(
            zip(group.completions, worth_by_hand(group, values), strict=True)
        )
        if worth
    ]
    found = load_store(path, values=values, targets="answers")
    assert [(s.problem_id, s.sample_index, s.completion_ids) for s in found] == wanted
    assert 0 < len(wanted) < 8 * len(stored_groups(path))
    with open_plan(recipe, tmp_path / "run") as plan:
        model = load_policy(Path(recipe.model.path), plan.recipe.model, initial=plan.initial)
        source = pool_source(plan, model)
        stored = stored_samples(plan, None, source, initial=True)
    assert stored == {"broad": found}


def test_a_store_of_which_no_answer_is_chosen_is_refused(store_recipe, make_stores, tmp_path):
    alone = {"answers": 2, "limit": 1, "agreement": "own_agreement:never"}
    make_stores(store_recipe(values="majority", targets="answers", **alone))
    with pytest.raises(PoolError, match=r"no answer to any prompt has the value 1 .*'majority'"):
        load_store(tmp_path / "run" / "stores" / "broad", values="majority", targets="answers")


def test_a_vote_without_anyone_who_compares_is_refused_by_name(store_recipe, make_stores):
    with pytest.raises(SettingsError, match="set values = 'correct'") as no:
        make_stores(store_recipe(values="majority", targets="answers"))
    assert "tilt = 0" not in str(no.value)


def test_an_answer_that_was_cut_off_agrees_with_nobody(store_recipe, make_stores, tmp_path):
    make_stores(store_recipe(answers=8, **COMPARED))
    path, cut = tmp_path / "run" / "stores" / "broad", 0
    values = stored_values(path)
    for group in stored_groups(path):
        for done, value in zip(group.finished, values[group.problem.problem_id], strict=True):
            cut += not done
            assert done or (value.answer_class, value.agreement) == (None, 0.0)
    assert cut


def test_a_killed_comparison_goes_on_to_the_same_bytes(
    store_recipe, make_stores, monkeypatch, tmp_path
):
    monkeypatch.setattr(making, "CHUNK", 5)
    make_stores(store_recipe(**COMPARED), "whole")
    judged, calls = valuing._judged, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return judged(*arguments)

    monkeypatch.setattr(valuing, "_judged", killed)
    with pytest.raises(KeyboardInterrupt):
        make_stores(store_recipe(**COMPARED), "killed")
    make_stores(store_recipe(**COMPARED), "killed")
    assert len(calls) == 4  # one chunk was kept, two are left
    whole, gone_on = (files_of(tmp_path / name / "stores") for name in ("whole", "killed"))
    assert gone_on == whole


def test_answers_are_judged_while_others_are_still_being_drawn(
    store_recipe, make_stores, monkeypatch
):
    monkeypatch.setattr(making, "CHUNK", 4)
    judged, drawing, second = valuing._judged, making._draw, threading.Event()

    def judge(*arguments):
        second.set()
        return judged(*arguments)

    def draw(problems, *arguments):
        if problems[0].problem_id != UNLABELLED[0].problem_id:
            assert second.wait(30)  # somebody judges the first chunk before the second is drawn
        return drawing(problems, *arguments)

    monkeypatch.setattr(valuing, "_judged", judge)
    monkeypatch.setattr(making, "_draw", draw)
    assert make_stores(store_recipe(**COMPARED))["broad"].values is not None


def test_who_cannot_judge_is_told_of_before_all_is_drawn(store_recipe, make_stores, monkeypatch):
    monkeypatch.setattr(making, "CHUNK", 2)
    drawing, drawn, failed = making._draw, [], threading.Event()

    def judge(*_):
        failed.set()
        raise VerifierError("it is broken")

    def draw(*arguments):
        if drawn:
            assert failed.wait(30)
        drawn.append(1)
        return drawing(*arguments)

    monkeypatch.setattr(valuing, "_judged", judge)
    monkeypatch.setattr(making, "_draw", draw)
    with pytest.raises(VerifierError, match="it is broken"):
        make_stores(store_recipe(**COMPARED))
    assert len(drawn) <= 3  # of six


def test_a_tilt_without_anyone_who_compares_is_refused_by_name(store_recipe, make_stores):
    with pytest.raises(SettingsError, match=r"'letter_grader:grade' says what is right, but") as no:
        make_stores(store_recipe(tilt=1.0))
    for way_out in ("stores.broad.agreement", "tilt = 0", "values = 'correct'"):
        assert way_out in str(no.value)


def test_labels_can_decide_what_an_answer_is_worth(store_recipe, make_stores, tmp_path, problems):
    recipe = store_recipe(prompts="train", file=None, tilt=2.0, values="correct", answers=4)
    manifest = make_stores(recipe)["broad"]
    path = tmp_path / "run" / "stores" / "broad"
    values = stored_values(path)
    for group in stored_groups(path):
        for text, value in zip(group.answered, values[group.problem.problem_id], strict=True):
            assert value.correct == (text is not None and grade(text, group.problem))
    assert manifest.counts.labelled == len(problems)
    assert load_store(path, tilt=2.0, values="correct") != load_store(path)


def test_samples_from_the_beginning_need_its_token(store_recipe, make_stores, tmp_path):
    begin = {"prompts": "beginning", "file": None, "answers": 5, "limit": 2}
    with pytest.raises(ModelError, match="the tokenizer has none"):
        make_stores(store_recipe(**begin))
    recipe = store_recipe(**begin)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path / "model")
    tokenizer.bos_token = "say"
    tokenizer.save_pretrained(tmp_path / "model")
    assert make_stores(recipe)["broad"].counts.answers == 10
    samples = load_store(tmp_path / "run" / "stores" / "broad")
    assert {s.prompt_ids for s in samples} == {(tokenizer.convert_tokens_to_ids("say"),)}
    assert len({s.completion_ids for s in samples}) > 1
