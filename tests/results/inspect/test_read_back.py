"""Inspect's own reader opens our logs; needs inspect_ai (`make test-inspect` has it)."""

import pytest

from dph.results.inspect import write_inspect_logs
from dph.runs.evaluate.samples_file import read_samples
from report_runs import HOSTILE, HOSTILE_ID, make_runs

log_module = pytest.importorskip("inspect_ai.log", reason="needs inspect_ai: make test-inspect")
pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {"in_domain": 4, "cross_domain": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"), sets=SMALL, hostile=True) / "grpo"


def test_a_log_is_read_with_every_answer_and_its_verdict(run, tmp_path):
    logs, _ = write_inspect_logs(run, tmp_path / "logs")
    rows = {
        (r["set"], r["problem_id"], r["sample_index"] + 1): r
        for r in read_samples(run / "samples.parquet").to_pylist()
    }
    for written in logs:
        if written["log"].endswith("-greedy.eval"):
            continue
        log = log_module.read_eval_log(written["log"])
        assert log.status == "success"
        assert log.eval.task == written["set"]
        assert len(log.samples) == written["answers"] == log.results.total_samples
        for sample in log.samples:
            row = rows[written["set"], str(sample.id), sample.epoch]
            assert sample.output.completion == row["text"]
            right = row["outcome"] == "CORRECT"
            assert sample.scores["verdict"].value == ("C" if right else "I")
            assert sample.messages[-1].text == row["text"]


def test_the_list_of_samples_and_one_sample_alone_are_read(run, tmp_path):
    write_inspect_logs(run, tmp_path)
    path = str(tmp_path / "in_domain.eval")
    listed = log_module.read_eval_log_sample_summaries(path)
    assert len(listed) == 8 * (SMALL["in_domain"] + 1)
    assert all(one.completed for one in listed)
    one = log_module.read_eval_log_sample(path, id=HOSTILE_ID, epoch=1)
    assert one.output.completion == HOSTILE[0]
    assert [log.task for log in log_module.list_eval_logs(str(tmp_path))]
