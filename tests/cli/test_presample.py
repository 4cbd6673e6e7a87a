import json


def test_presampling_writes_a_pool_and_prints_what_it_found(dph, example, tmp_path):
    code, out, _ = dph("presample", example, "--out", tmp_path / "run")
    assert code == 0
    assert "correct of 8: problems" in out
    assert "12 problems:" in out
    assert (tmp_path / "run" / "pool" / "manifest.json").is_file()


def test_the_json_output_is_one_document(dph, example, tmp_path):
    code, out, err = dph("presample", example, "--out", tmp_path / "run", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["problems"] == 12
    assert content["exploration"] + content["rehearsal"] + content["discarded"] == 12
    assert sum(content["histogram"]) == 12
    assert "pre-sampling: 108/108 samples" in err


def test_a_finished_pool_is_kept(dph, example, tmp_path):
    dph("presample", example, "--out", tmp_path / "run")
    before = (tmp_path / "run" / "pool" / "manifest.json").stat().st_mtime_ns
    code, _, err = dph("presample", example, "--out", tmp_path / "run")
    assert code == 0
    assert (tmp_path / "run" / "pool" / "manifest.json").stat().st_mtime_ns == before
    assert "pre-sampling" not in err


def test_the_default_directory_is_runs_and_the_name(dph, example, tmp_path):
    assert dph("presample", example, "--set", "name=mine")[0] == 0
    assert (tmp_path / "runs" / "mine" / "pool").is_dir()
