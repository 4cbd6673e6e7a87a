import pytest

from case_tables import each, table
from dph_corpus.transform.cleaning import clean

CASES = table("transform/cases.toml")
SETTINGS = CASES["settings"]
LANGUAGES = {"yaml": "yaml", "a list": "yaml", "kubernetes": "yaml", "shell": "shell"}


@pytest.mark.parametrize("secret", ["n7KxGr" + "42q", "mK4#v" + "T81zQw", "pa55" + "-Wort!"])
@pytest.mark.parametrize("place", SETTINGS)
def test_a_password_in_settings_needs_no_quotes(place, secret):
    first = place.partition(",")[0]
    language = next((LANGUAGES[k] for k in LANGUAGES if first.startswith(k)), first)
    once = clean(SETTINGS[place].replace("{}", secret), language)
    assert once.text == SETTINGS[place].replace("{}", "<password>")
    assert clean(once.text, language).text == once.text


@each(("language", "text"), CASES["connections"])
def test_a_password_in_a_connection_goes_in_any_language(language, text):
    once = clean(text.replace("{}", "n7KxGr" + "42q"), language)
    assert once.text == text.replace("{}", "<password>")
    assert clean(once.text, language).text == once.text


@pytest.mark.parametrize(("language", "text"), CASES["keys"]["rows"])
def test_keys_by_name_go_if_they_look_drawn_by_chance(language, text):
    assert clean(text.replace("{}", "9f8e7d6c5b4a" + "3f2e1d0c"), language).counts["password"] == 1
    for name in ("my-app-2", "gpt-4o-mini", "registry.example.org/x2", "see RFC7519 for it"):
        assert clean(text.replace("{}", name), language).text == text.replace("{}", name)


REFERENCES = """
    ${DB_PASSWORD_1} | $DB_PASSWORD1 | $(cat pw1) | {{ vault.db1 }} | %(db_pw1)s | @db.pw1@ | null
    | true | string | int64 | varchar(255) | getpass() | <password> | changeme | ~
    | process.env.DB_PW1 | DB_PASSWORD_1 | /run/secrets/db1 | file:///run/db1 | !Ref DbPw1
    | vault:secret/db1#pw | arn:aws:secretsmanager:eu1:x | *db_pw1 | ENC[AES256,data:x1]
"""


@pytest.mark.parametrize("value", [value.strip() for value in REFERENCES.split("|")])
def test_references_types_and_stand_ins_stay(value):
    for language, form in (("yaml", "password: {}\n"), ("ini", "password={}\n")):
        text = form.replace("{}", value)
        assert clean(text, language).text == text


@pytest.mark.parametrize(("language", "text"), CASES["code"]["rows"])
def test_code_and_other_names_stay(language, text):
    assert clean(text, language).text == text
