"""Tokens are drawn at test time from the alphabet and length that each vendor publishes."""

import random
import string

import pytest

from dph_corpus.transform.cleaning import clean

LETTERS, ALNUM, HEX = string.ascii_letters, string.ascii_letters + string.digits, "0123456789abcdef"
WORD = ALNUM + "_-"
PUBLISHED = {
    # the beginning in pieces, so that no scanner takes this file for a leak; alphabet, length, end
    "GitHub, installed app": (("gh", "s_"), ALNUM, 36, ""),
    "GitHub, fine-grained": (("github", "_pat_"), ALNUM, 82, ""),
    "GitLab": (("gl", "pat-"), WORD, 20, ""),
    "GitLab, routable": (("gl", "pat-"), WORD, 44, ".01.0w1a2b3c4"),
    "Hugging Face": (("h", "f_"), LETTERS, 34, ""),
    "Hugging Face, organisation": (("api", "_org_"), LETTERS, 34, ""),
    "Google": (("AI", "za"), WORD, 34, "Q"),
    "Google OAuth": (("GOC", "SPX-"), WORD, 28, ""),
    "Anthropic": (("sk-", "ant-", "admin01-"), WORD, 93, "AA"),
    "OpenAI, service account": (("sk-", "svcacct-"), WORD, 120, ""),
    "OpenAI, before": (("s", "k-"), ALNUM, 20, "T3BlbkFJ" + "a1B2c3D4e5" * 2),
    "npm": (("np", "m_"), ALNUM, 36, ""),
    "PyPI": (("pypi", "-AgE", "IcHlwaS5vcmcC"), WORD, 120, ""),
    "Slack app": (
        ("xa", "pp-1-"),
        string.ascii_uppercase + string.digits,
        11,
        "-1234567890123-9f8e7d6c",
    ),
    "Stripe, restricted": (("rk", "_live_"), ALNUM, 24, ""),
    "Stripe webhook": (("wh", "sec_"), ALNUM, 32, ""),
    "SendGrid": (("S", "G."), ALNUM, 22, "." + "a1B2c3D4e5" * 4 + "xYz"),
    "DigitalOcean": (("do", "p_v1_"), HEX, 64, ""),
    "Databricks": (("da", "pi"), HEX, 32, ""),
    "Groq": (("gs", "k_"), ALNUM, 52, ""),
    "Replicate": (("r", "8_"), ALNUM, 37, ""),
    "xAI": (("xa", "i-"), ALNUM, 80, ""),
    "Perplexity": (("pp", "lx-"), ALNUM, 48, ""),
    "Shopify": (("shp", "at_"), HEX, 32, ""),
    "Telegram": (("71234", "56789:", "AA"), WORD, 32, "z"),
    "Docker Hub": (("dckr", "_pat_"), WORD, 27, ""),
    "Linear": (("lin", "_api_"), ALNUM, 40, ""),
    "Notion": (("nt", "n_"), ALNUM, 46, ""),
    "Netlify": (("nf", "p_"), ALNUM, 36, ""),
    "Supabase": (("sb", "p_"), HEX, 40, ""),
    "Vault": (("hv", "s."), WORD, 92, ""),
}
PLACES = {
    "quoted": ("python", 'client = Client("{}")\n'),
    "bare": ("yaml", "x: {}\n"),
    "in a URL": ("markdown", "see https://a.org/get?x={}&y=1\n"),
    "in a header": ("shell", "curl -H 'X-Auth: {}' https://a.org\n"),
    "after an escape": ("java", 'String s = "a\\n{}\\n";\n'),
    "in a line too long to read for names": ("javascript", "f(1);" * 1000 + 'g("{}");' + "\n"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("vendor", PUBLISHED)
def test_a_token_of_a_published_form_leaves_the_text(vendor, place):
    start, alphabet, length, end = PUBLISHED[vendor]
    language, text = PLACES[place]
    draw = random.Random(f"{vendor} {place}")
    token = "".join(start) + "".join(draw.choices(alphabet, k=length)) + end
    once = clean(text.replace("{}", token), language)
    assert token not in once.text
    assert sum(once.counts.values()) == 1
    assert clean(once.text, language).text == once.text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "word",
    [
        "h" + "f_hub_download_of_a_file_from_a_repository",
        "h" + "f_" + "x" * 34,
        "s" + "k-ant-api03-your-key-goes-here-and-it-is-long-enough-to-be-one",
        "ris" + "k-proj-" + "a" * 50,
        "AI" + "za" + "x" * 35,
        "np" + "m_config_registry_of_all_the_packages_here",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "6fa459ea-ee8a-3ca4-894e-db77e160355e",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "sha512-" + "dBjftJeZ4CVPmB92K27uhbUJU1p1r" * 3 + "==",
        "pk" + "_live_" + "a1B2c3D4e5" * 2 + "f6G7",
    ],
)
def test_names_digests_and_stand_ins_are_no_tokens(word, place):
    language, text = PLACES[place]
    text = text.replace("{}", word)
    assert clean(text, language).text == text


def test_a_token_inside_base64_is_a_part_of_it():
    image = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAI" + "za" + "a1B2c3D4e5" * 3 + "f6G7h="
    text = f'<img src="data:image/png;base64,{image}">\n'
    assert clean(text, "html").text == text
