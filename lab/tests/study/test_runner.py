import json
import shutil

import pytest

from dph.errors import DataError, TrainingError
from dph.runs.progress import Silent
from lab.study.plan import RunSelection
from lab.study.planner import Planner
from lab.study.rows import read_row_files
from lab.study.rule_lock import default_places, locked_choices
from lab.study.runner import Runner
from lab.study.settings import load_study
from small_study import RULE, STUDY, InstantJobs


def run(study, jobs, **options):
    places = default_places(study, None)
    return Runner(Planner(study), places, jobs, **options).run(Silent()), places


def test_every_run_is_made_once_and_two_never_share_a_directory(small):
    jobs = InstantJobs(capacity=3)
    rows, _ = run(small, jobs)
    assert len(jobs.started) == len(set(jobs.started))
    runs = [name for name in jobs.started if not name.endswith(".prepare")]
    assert len(runs) + 5 == len(rows)  # the base model's are made by preparing 5 seeds
    assert jobs.closed
    for together in jobs.at_once:
        directories = [(p["work"], p.get("training", "prepare")) for p in together]
        assert len(set(directories)) == len(directories)
        preparing = {p["work"] for p in together if p["kind"] == "prepare"}  # before all else
        assert not preparing & {p["work"] for p in together if p["kind"] == "run"}


def test_a_clone_that_has_only_the_rows_goes_on_without_running_them_again(small):
    rows, places = run(small, InstantJobs())
    for path in places.out.iterdir():
        if path.name != "rows":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    lost = sorted(places.rows.glob("*dph_f*"))[0]
    before = lost.read_bytes()
    lost.unlink()
    jobs = InstantJobs()
    assert run(small, jobs)[0] == rows
    assert [name for name in jobs.started if not name.endswith(".prepare")] == [lost.stem]
    assert lost.read_bytes() == before


def test_only_what_was_named_is_run(small):
    jobs = InstantJobs()
    wanted = RunSelection(worlds=frozenset({"sql"}), methods=frozenset({"GRPO"}))
    run(small, jobs, wanted=wanted)
    made = [name for name in jobs.started if not name.endswith(".prepare")]
    assert made
    assert all(".grpo." in name for name in made)


def test_a_run_that_fails_is_told_and_the_others_are_made(small):
    with pytest.raises(TrainingError, match=r"1 of the study's jobs failed.*told to fail"):
        run(small, InstantJobs(fails=["s0.rkl"]))
    places = default_places(small, None)
    rows = read_row_files(places.rows)
    assert locked_choices(places) == Planner(small).plan(rows).choices  # before any outputs
    assert len(rows) == 2 * 6 + 3 * 4 - 1
    assert run(small, InstantJobs())[0].keys() > rows.keys()


def test_directories_of_finished_runs_are_removed_unless_they_are_to_stay(write):
    _, places = run(load_study(write()), InstantJobs())
    assert list((places.out / "work").rglob("checkpoints")) == []
    shutil.rmtree(places.out)
    kept = STUDY.replace('name = "small"', 'name = "small"\nkeep = "checkpoints"')
    _, places = run(load_study(write(kept)), InstantJobs())
    assert len(list((places.out / "work").rglob("checkpoints"))) == 2 * 5 + 3 * 3


def test_interpolations_of_one_run_share_its_directory_and_never_run_together(write):
    text = STUDY + '[[methods]]\nname = "grpo"\nlabel = "between"\ninterpolate = [0.3, 0.5]\n'
    jobs = InstantJobs(capacity=4)
    rows, _ = run(load_study(write(text)), jobs)
    assert {row.interpolate for row in rows.values()} == {None, 0.3, 0.5}
    directories = {
        p["training"] for at_once in jobs.at_once for p in at_once if p.get("interpolate")
    }
    assert directories <= {name for name in rows if ".grpo." in name}
    for together in jobs.at_once:
        used = [p["training"] for p in together if p["kind"] == "run"]
        assert len(used) == len(set(used))


def test_a_pool_is_prepared_for_every_way_of_presampling_that_a_run_reads(write):
    text = STUDY + (
        '[[methods]]\nname = "dph_f"\nlabel = "fewer"\nsettings = { "presample.samples" = 4 }\n'
    )
    jobs = InstantJobs()
    run(load_study(write(text)), jobs)
    pools = {json.dumps(p["pools"]) for together in jobs.at_once for p in together if "pools" in p}
    names = {name for text in pools for name in json.loads(text)}
    assert len(names) == 2
    assert "pool" in names
    assert any('{"presample.samples": 4}' in text for text in pools)


def test_a_rule_may_change_before_a_run_on_a_report_seed_and_not_after(write):
    other = RULE + "[[compare]]\na = 'rkl'\nb = 'GRPO'\nmetric = 'mean'\nset = 'in_domain'\n"
    first = load_study(write())
    with pytest.raises(TrainingError):  # development alone
        run(first, InstantJobs(fails=[".s0.", ".s1.", ".s2."]))
    second = load_study(write(rule=other))
    run(second, InstantJobs())
    lock = default_places(second, None).lock
    assert json.loads(lock.read_text())["rule_sha256"] == second.rule_sha256
    with pytest.raises(DataError) as refused:
        run(load_study(write()), InstantJobs())
    assert first.rule_sha256 in str(refused.value)
    assert second.rule_sha256 in str(refused.value)
