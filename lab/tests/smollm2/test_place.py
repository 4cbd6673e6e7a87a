from lab.smollm2 import smollm2_place


def test_the_variable_says_where_it_lies_and_nothing_else_is_looked_at(tmp_path, monkeypatch):
    here = tmp_path / ".smollm2" / "model"
    here.mkdir(parents=True)
    (here / "SHA256SUMS").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPH_SMOLLM2", raising=False)
    assert smollm2_place() == here
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path / "elsewhere"))
    assert smollm2_place() is None


def test_without_digests_it_is_not_whole_and_so_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert smollm2_place() is None
