import hashlib
import json
import shutil

import pytest

from lab.study import runner
from small_study import RULE, STUDY, InstantJobs

RULE_SHA256 = hashlib.sha256(RULE.encode()).hexdigest()


@pytest.fixture
def study(write):
    return write()


def jobs_of(patch, kind=InstantJobs, **options):
    """The jobs of the studies that are run from now on, in a list."""
    made = []

    def jobs(capacity, _log, **_entry):
        made.append(kind(capacity, **options))
        return made[-1]

    patch.setattr(runner, "CoreJobs", jobs)
    return made


@pytest.fixture
def instant(monkeypatch):
    return jobs_of(monkeypatch)


def test_it_runs_everything_and_says_what_it_will_cost_and_where_it_lies(command, study, instant):
    code, out, err = command(study, "--jobs", 3, "--minutes", 9, "--device", "cuda")
    assert code == 0
    assert (instant[0].capacity, instant[0].patience) == (3, 54)
    assert {payload["device"] for payload in instant[0].at_once[0]} == {"cuda"}
    first, *others = err.splitlines()
    assert first.startswith("small: 0 of 24 runs, about ")
    assert first.endswith(f" min left by a guess, 3 at a time; rule {RULE_SHA256[:12]}")
    assert others[-1].startswith("24 of 24 runs: sql.s")
    assert "**Tests of the rule**" in out
    assert "**Scores on sql**" in out
    small = study.parent / "small"
    assert out.endswith(f"scores: {small}/study.parquet\ntables: {small}/tables\n")
    assert (small / "study.parquet").is_file()
    assert len((small / "costs.jsonl").read_text().splitlines()) == 24
    assert {p.suffix for p in (small / "tables").iterdir()} == {".md", ".csv", ".tex"}


def test_status_reads_only(command, study, instant, tmp_path):
    code, out, _ = command(study, "--status")
    assert code == 0
    assert "sql: development 0 of 6, report 0 of 3" in out
    assert "at most 15 more when strengths are chosen" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["STUDY.toml", "rule.toml"]
    assert instant == []


def test_after_the_study_its_status_and_tables_are_shown_without_a_run(
    command, study, instant, tmp_path
):
    command(study)
    code, out, _ = command(study, "--status")
    assert code == 0
    assert out.startswith("small: 24 of 24 runs\nsql: development 12 of 12, report 12 of 12\n")
    assert "Candidates and choices" in out
    for form, sign in (("md", "| --- |"), ("csv", "world,method,"), ("latex", "\\toprule")):
        assert sign in command(study, "--status", "--table", form)[1]
    tables = tmp_path / "small" / "tables"
    before = {path.name: path.read_bytes() for path in tables.iterdir()}
    shutil.rmtree(tables)
    command(study, "--no-run")
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == before
    assert len(instant) == 1


def test_json_is_one_document(command, study, tmp_path, instant):
    code, out, _ = command(study, "--out", tmp_path / "there", "--json")
    assert (code, len(instant)) == (0, 1)
    document = json.loads(out)
    assert document == json.loads((tmp_path / "there" / "report.json").read_text())
    assert document["runs"] == {"finished": 24, "total": 24}
    assert len(document["comparisons"]) == 2


def test_a_changed_rule_is_refused_after_report_runs_and_has_its_own_place(command, study, instant):
    command(study)
    (study.parent / "rule.toml").write_text(RULE.replace("[choose]", "[choose]\ntie = 0.02"))
    code, out, err = command(study)
    assert (code, out) == (2, "")
    assert "the rule changed after runs on the report seeds" in err
    code, out, _ = command(study, "--new-rule")
    assert code == 0
    assert f"which replaced {RULE_SHA256[:12]}" in out
    assert len([p for p in study.parent.iterdir() if p.name.startswith("small-")]) == 1
    assert instant[-1] is not None


def test_a_mistake_is_bad_input_and_leaves_nothing(command, study, tmp_path):
    study.write_text(STUDY.replace("grpo", "gpro"))
    code, _, err = command(study)
    assert code == 2
    assert "unknown method 'gpro'" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["STUDY.toml", "rule.toml"]


def test_a_failed_run_is_exit_code_1(command, study, monkeypatch):
    jobs_of(monkeypatch, fails=["rkl"])
    code, _, err = command(study)
    assert code == 1
    assert "of the study's jobs failed" in err


def test_interrupted_it_goes_on(command, study, monkeypatch, instant):
    class Interrupted(InstantJobs):
        def wait(self, *, until):
            if len(self.started) > 6:
                raise KeyboardInterrupt
            return super().wait(until=until)

    with monkeypatch.context() as patch:
        made = jobs_of(patch, Interrupted)
        code, _, err = command(study)
    assert code == 130
    assert "continues where it stopped" in err
    assert made[0].closed
    code, _, err = command(study)
    assert code == 0
    assert not err.startswith("small: 0 of")
    assert instant
