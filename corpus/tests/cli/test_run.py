from dataclasses import asdict

import pytest

from dph.cli.app import main
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.cli.run import AblationOptions


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


def test_options_of_an_ablation_are_settings_of_it_with_their_defaults():
    options = asdict(AblationOptions())
    for name in ("models", "heldout_languages"):
        options[name] = tuple(options[name].split(",")) if options[name] else ()
    assert options == {name: getattr(AblationSettings(), name) for name in options}
