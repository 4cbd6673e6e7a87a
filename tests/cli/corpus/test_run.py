import pytest

from dph.cli.app import main


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[corpora.code]\ninputs = []\n", "corpora.code.inputs"),
        ("[corpora.code]\ninputs = ['world:sql']\n", "world:sql needs [world]"),
        ("[corpora.code]\ninputs = ['none/*.gz']\n", "no file matches"),
    ],
)
def test_a_cookbook_that_cannot_be_run_ends_with_code_2(tmp_path, capsys, text, said):
    (tmp_path / "cookbook.toml").write_text(text)
    asked = ["corpus", "run", f"{tmp_path}/cookbook.toml", "--out", f"{tmp_path}/out"]
    assert main(asked) == 2
    assert said in capsys.readouterr().err
