"""Files that the tools wrote themselves, with SmolLM2-135M on a CPU; ``files/`` has them.

lm-eval 0.4.13, lighteval 0.13.0, evalplus 0.3.1, Inspect 0.3.285 and TRL 1.16.0 on tasks of two to
four sums or programs. evalplus and lighteval read these from local files, with their checks of
published data sets left out. verl does not run here: its dumps are written as its trainer's
``_dump_generations`` does.
"""

import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.answers.read import first_dump, read_answers
from dph.runs.evaluate.answers.tools import columns_named, inspect_log, judged
from dph.runs.evaluate.samples_file import read_samples

FILES = Path(__file__).parent / "files"
(SUMS,) = FILES.glob("lm-eval/samples_tiny_sums_*")
(REPEATS,) = FILES.glob("lm-eval/samples_tiny_repeats_*")
(CHOICE,) = FILES.glob("lm-eval/samples_tiny_choice_*")


def found(place):
    """Answers by problem, outcomes in all, and texts of the first problem."""
    by_problem = read_answers(place).by_problem
    outcomes = Counter(answer.outcome.value for of in by_problem.values() for answer in of)
    first = next(iter(by_problem))
    return first, dict(outcomes), [answer.text for answer in by_problem[first]]


@pytest.mark.parametrize(
    ("place", "said", "first", "outcomes", "text"),
    [
        (SUMS, "lm-eval, 4 problems, 1 answer each, right by exact_match,strict",
         ("tiny_sums", "0"), {"CORRECT": 4}, " 2 is where things really start to"),
        (REPEATS, "lm-eval, 4 problems, 3 answers each, right by pass@1,all_of_three",
         ("tiny_repeats", "0"), {"CORRECT": 10, "WRONG": 2}, ""),
        (CHOICE, "lm-eval, 4 problems, 1 answer each, right by acc",
         ("tiny_choice", "0"), {"WRONG": 4}, " 2"),
        (FILES / "lighteval", "lighteval, 4 problems, 3 answers each, right by avg@n:n=3",
         ("tiny_many", "2"), {"WRONG": 12}, "No, 6. 3 is"),
        (FILES / "evalplus", "evalplus, 3 problems, 3 answers each, right by plus_status",
         ("HumanEval", "HumanEval/0"), {"CORRECT": 5, "WRONG": 4}, "def add(a, b):\n"),
        (FILES / "inspect", "Inspect (hf/smollm2), 2 problems, 2 answers each, right by includes",
         ("tiny_sums", "sum-0"), {"WRONG": 4}, "You don't get it"),
        (FILES / "trl", "TRL, 4 problems, 4 answers each, right by accuracy_reward",
         None, {"CORRECT": 2, "WRONG": 14}, "I'm sorry"),
    ],
)  # fmt: skip
def test_what_each_tool_wrote(place, said, first, outcomes, text, caplog):
    key, counts, texts = found(place)
    assert first in (key, None)
    assert counts == outcomes
    assert texts[0].startswith(text)
    assert said in caplog.text or not caplog.text  # said once, however often it is read
    assert read_samples(place).num_rows == sum(outcomes.values())


def test_prompts_and_golds_come_along():
    assert read_answers(SUMS).problems["tiny_sums", "0"].prompt == "0 + 1 = 1. 0 + 2 ="
    assert read_answers(SUMS).problems["tiny_sums", "0"].answer == {"answer": "2"}
    assert read_answers(FILES / "inspect").problems["tiny_sums", "sum-1"].answer == {"answer": "3"}
    (asked,) = {
        problem.prompt[0]["role"] for problem in read_answers(FILES / "trl").problems.values()
    }
    assert asked == "user"


def test_of_a_mean_over_several_answers_it_is_not_known_which_are_right():
    answers = read_answers(REPEATS).by_problem
    (of,) = [
        of for of in answers.values() if {one.outcome.value for one in of} == {"CORRECT", "WRONG"}
    ]
    assert [(one.text, one.reward) for one in of] == [("", 1.0), ("", 0.0), ("", 0.0)]
    assert of[0].reason == "1 of 3 were right by pass@1; which is not in the file"
    assert all(one.text for key, two in answers.items() if two is not of for one in two)
    with pytest.raises(DataError, match=r"must be a share of 3 answers, got 0\.4"):
        judged(0.4, ["a", "b", "c"], "x", "f1")
    assert [one["reward"] for one in judged([1, 0], ["a", "b"], "x", "acc")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("place", "correct", "right"),
    [
        (SUMS, "exact_match,flexible", 3),
        (FILES / "evalplus", "base_status", 5),
        (FILES / "inspect", "match", 0),
        (FILES / "trl", "format_reward", 6),
    ],
)
def test_another_judge_is_named(place, correct, right):
    with columns_named({"correct": correct}):
        assert found(place)[1].get("CORRECT", 0) == right
    with columns_named({"correct": "x"}), pytest.raises(DataError, match=r"there is no .*'?x"):
        list(read_answers(place).by_problem)
    with (
        columns_named({"response": "x"}),
        pytest.raises(SettingsError, match="cannot be named there"),
    ):
        read_answers(place)


def test_runs_of_lm_eval_with_other_seeds_are_answers_to_the_same_problems(tmp_path):
    for seed in (1, 2):
        shutil.copy(SUMS, tmp_path / f"samples_tiny_sums_2026-01-0{seed}T00-00-00.000.jsonl")
    (tmp_path / "results_2026-01-01.json").write_text("{}")
    assert found(tmp_path)[1] == {"CORRECT": 8}
    for model in ("a", "b"):
        (tmp_path / "out" / model).mkdir(parents=True)
        shutil.copy(SUMS, tmp_path / "out" / model)
    for name in (SUMS.name, "samples_tiny_sums_2026-02-01T00-00-00.000.jsonl"):
        (tmp_path / "out" / "b" / SUMS.name).rename(tmp_path / "out" / "b" / name)
        with pytest.raises(DataError, match=r"out/a and .*out/b: name the directory of one model"):
            read_answers(tmp_path / "out")


def test_older_files_of_lm_eval_name_neither_metrics_nor_filters(tmp_path):
    rows = [json.loads(line) for line in SUMS.read_text().splitlines()]
    old = [{k: v for k, v in r.items() if k not in ("metrics", "filter")} for r in rows]
    once = list({row["doc_id"]: row for row in reversed(old)}.values())
    path = tmp_path / "samples_tiny_sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in once))
    assert found(path)[1] == {"CORRECT": 4}
    with columns_named({"correct": "exact_match,other"}), pytest.raises(DataError, match="no filt"):
        read_answers(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in [*once, once[0]]))
    with pytest.raises(DataError, match=r"document 3 occurs twice.*newer releases"):
        read_answers(path)


def test_several_tasks_of_lm_eval_are_sets(caplog):
    assert {name for name, _ in read_answers(FILES / "lm-eval").by_problem} == {
        *("tiny_sums", "tiny_repeats", "tiny_choice")
    }
    said = (
        "12 problems of 3 sets, 1 to 3 answers each, right by acc, pass@1,all_of_three, exact_match"
    )
    assert said in caplog.text


def test_a_log_of_inspect_reads_the_same_as_json_and_in_the_older_packing(tmp_path):
    log = FILES / "inspect/tiny_sums.eval"
    with zipfile.ZipFile(log) as packed:
        assert packed.getinfo("header.json").compress_type == 93  # Zstandard
    document = inspect_log(log)
    (tmp_path / "log.json").write_text(json.dumps(document))
    with zipfile.ZipFile(tmp_path / "old.eval", "w", zipfile.ZIP_DEFLATED) as old:
        old.writestr(
            "_journal/start.json", json.dumps({"eval": {**document["eval"], "model": "other"}})
        )
        for sample in document["samples"]:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            old.writestr(name, json.dumps(sample))
    assert found(tmp_path / "log.json") == found(log) == found(tmp_path / "old.eval")
    shutil.copy(log, tmp_path)
    with pytest.raises(DataError, match=r"files of Inspect .* and Inspect .*: name one"):
        read_answers(tmp_path)  # of two models


def test_long_texts_of_inspect_stand_apart_and_a_sample_without_a_score_is_not_graded(tmp_path):
    sample = {
        "id": 1,
        "epoch": 1,
        "input": [{"role": "user", "content": "attachment://a1"}],
        "target": ["4", "four"],
        "attachments": {"a1": "2 + 2?", "b2": "It is 4."},
        "output": {"choices": [{"message": {"content": [{"text": "attachment://b2"}]}}]},
        "scores": {"model_graded": {"value": "C", "explanation": "fine"}},
    }
    bare = {**sample, "epoch": 2, "scores": None, "error": {"message": "out of time"}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"eval": {"task": "lib/sums"}, "samples": [sample, bare]}))
    assert found(path) == (("sums", "1"), {"CORRECT": 1, "CRASHED": 1}, ["It is 4."] * 2)
    assert read_answers(path).problems["sums", "1"].prompt[0]["content"] == "2 + 2?"


def dump(directory, step, answers, **extra):
    """A validation as verl's ``_dump_generations`` writes it."""
    lines = [
        {"input": f"user\n{q} + 1?\nassistant\n", "output": text, "gts": str(q + 1)}
        | {"score": score, "step": step, "reward": score}
        | {key: value[i] for key, value in extra.items()}
        for i, (q, text, score) in enumerate(answers)
    ]
    directory.mkdir(exist_ok=True)
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
    (directory / f"{step}.jsonl").write_text(text)


def test_the_last_validation_of_verl_counts_and_the_first_is_what_it_began_with(tmp_path, caplog):
    for step, right in ((0, 0.0), (20, 0.0), (100, 1.0)):
        dump(tmp_path / "val", step, [(1, "2", right), (2, "3", 1.0), (1, "x", 0.0), (2, "é", 0.0)])
    assert found(tmp_path / "val")[1:] == ({"CORRECT": 2, "WRONG": 2}, ["2", "x"])
    said = "verl, 2 problems, 2 answers each, right by score; the last of 3 validations, 100.jsonl"
    assert said in caplog.text
    assert first_dump(tmp_path / "val") == tmp_path / "val/0.jsonl"
    assert (
        read_answers(tmp_path / "val").by_problem.keys()
        == read_answers(tmp_path / "val/0.jsonl").by_problem.keys()
    )


def test_verl_goes_by_acc_where_a_reward_function_gives_it(tmp_path):
    dump(tmp_path, 5, [(1, "2", -1.0), (2, "3", 1.0)], acc=[False, True])
    assert found(tmp_path / "5.jsonl")[1] == {"CORRECT": 1, "WRONG": 1}
    dump(tmp_path, 5, [(1, "2", -1.0)])
    with pytest.raises(DataError, match=r"score must be .*got -1.0; --column correct=NAME"):
        read_answers(tmp_path / "5.jsonl")
