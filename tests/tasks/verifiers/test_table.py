"""The rows of verifiers say what the classes themselves say."""

import inspect
from pkgutil import resolve_name

import pytest

from dph.errors import SettingsError
from dph.recipe import DataSettings
from dph.tasks.grading.rows import VerifierRowGrader
from dph.tasks.verifiers import VERIFIERS, make_verifier
from dph.tasks.verifiers.base import GoldOfAnswer
from dph.tasks.verifiers.table import verifier_settings

SHARED = {"databases", "workers", "timeout"}


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_row_says_the_settings_and_defaults_that_the_class_itself_has(name):
    row = VERIFIERS[name]
    made = resolve_name(row.path)
    signature = inspect.signature(made).parameters if "__init__" in vars(made) else {}
    said = {setting.argument: setting.default for setting in row.settings.values()}
    assert made.name == name
    assert said == {key: signature[key].default for key in said}
    assert set(row.takes) == SHARED & set(signature)
    assert not row.gold or isinstance(resolve_name(row.gold), GoldOfAnswer)


def test_every_setting_is_a_key_of_its_own_in_a_recipe():
    assert sum(len(row.settings) for row in VERIFIERS.values()) == len(verifier_settings())
    for key, setting in verifier_settings().items():
        field = DataSettings.model_fields[key]
        assert (field.default, field.description) == (setting.default, setting.meaning)


def test_a_setting_that_no_verifier_has_is_refused_with_those_that_there_are():
    with pytest.raises(SettingsError, match=r"no verifier has a setting 'gym'; there are sql_rule"):
        make_verifier("exact", gym=1.0)
    make_verifier("exact", gym_threshold=0.5).close()  # another's, as a recipe has all of them


def test_a_file_is_graded_with_the_verifiers_own_settings_alone():
    with pytest.raises(
        SettingsError, match="gym_threshold is not a setting of the verifier 'exact'"
    ):
        VerifierRowGrader("exact", gym_threshold=0.5)
    pytest.importorskip("reasoning_gym")
    with pytest.raises(SettingsError, match="must be above 0 and at most 1, got 2"):
        VerifierRowGrader("reasoning_gym", gym_threshold=2.0)
