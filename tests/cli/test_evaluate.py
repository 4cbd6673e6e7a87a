import json
import shutil

FEW = ("evaluate.samples=2", "evaluate.k=[1]", "evaluate.retention_k=1")


def test_the_newest_checkpoint_is_evaluated(dph, document, example, tmp_path):
    trained = tmp_path / "run"
    settings = ("method=grpo", *FEW)
    assert dph("train", example, "--out", trained, settings=settings)[0] == 0
    content = document("evaluate", example, "--out", trained, settings=settings)
    assert content["schema"] == 2
    assert content["sets"]["train"]["problems"] == 12
    assert json.loads((trained / "evaluation.json").read_text()) == content
    assert (trained / "samples.parquet").is_file()


def test_the_initial_policy_is_measured_beside_the_run(dph, example, tmp_path):
    words = ("evaluate", example, "--model", example.parent / "model", "--out", tmp_path / "run")
    code, out, _ = dph(*words, settings=FEW)
    assert code == 0
    assert "pass@1" in out
    code, out, err = dph("evaluate", example, "--out", tmp_path / "run", "--json", settings=FEW)
    content = json.loads(out)
    assert code == 0, err
    assert "no checkpoint in" in err
    assert content == json.loads((tmp_path / "run" / "base" / "evaluation.json").read_text())
    assert content["model"] == str(example.parent / "model")
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_models_of_one_name_are_measured_side_by_side(dph, example, tmp_path):
    run = tmp_path / "run"
    for name in ("first", "second"):
        place = tmp_path / name / "checkpoints" / "step_000004"
        shutil.copytree(example.parent / "model", place)
    documents = {}
    for name in ("first", "second", "first"):  # again: what is measured is kept
        model = tmp_path / name / "checkpoints" / "step_000004"
        words = ("evaluate", example, "--out", run, "--model", model, "--json")
        code, out, err = dph(*words, settings=FEW)
        assert code == 0, err
        documents[name] = json.loads(out)
    places = {p.name: json.loads((p / "evaluation.json").read_text()) for p in _measured(run)}
    assert places == {
        "step_000004": documents["first"],
        "second-step_000004": documents["second"],
    }
    made_from = json.loads((run / "models" / "second-step_000004" / "model.json").read_text())
    assert made_from["path"] == str(tmp_path / "second" / "checkpoints" / "step_000004")


def test_what_is_refused_claims_no_place_and_measures_no_initial_policy(
    dph, refusal, example, tmp_path
):
    shutil.copytree(example.parent / "model", tmp_path / "other")
    words = ("evaluate", example, "--out", tmp_path / "run", "--model", tmp_path / "other")
    code, _, err = dph(*words, "--set", "evaluate.max_tokens=30")
    assert code == 2, err
    assert not (tmp_path / "run" / "models").exists()
    broken = shutil.copytree(example.parent / "model", tmp_path / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert str(broken) in refusal("evaluate", example, "--model", broken, "--out", tmp_path / "run")
    assert not list((tmp_path / "run").rglob("samples.parquet"))


def test_answers_that_were_all_cut_off_are_warned_of_once(dph, example, tmp_path):
    words = ("evaluate", example, "--out", tmp_path / "run", "--set", "evaluate.max_tokens=1")
    code, _, err = dph(*words, settings=FEW)
    assert code == 0
    assert err.count("were cut off at max_tokens = 1:") == 1
    assert "the set 'train'" in err
    code, _, err = dph("evaluate", example, "--out", tmp_path / "other", settings=FEW)
    assert "cut off" not in err


def _measured(run):
    return sorted(path.parent for path in run.glob("models/*/evaluation.json"))
