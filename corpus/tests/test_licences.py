"""Licences: expressions as SPDX defines them, and documents kept or dropped for a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import table
from dph.errors import SettingsError
from dph_corpus.documents import Document
from dph_corpus.licences import (
    ALIASES,
    LicenceStage,
    _parsed,
    is_allowed,
    kinds,
    known_licences,
    licence_spec,
)

PERMISSIVE = frozenset({"permissive"})


def licences_of(text):
    """The SPDX identifiers of an expression; none if it is not one."""
    expression = _parsed(text)
    return [] if expression is None else [symbol.key for symbol in expression.get_symbols()]


def stage(*allow, aliases=(), **more):
    return LicenceStage(licence_spec(allow, dict(aliases), **more).settings)


def outcome(licence, *allow, **more):
    """What becomes of a document of that licence: its licence afterwards, or the reason."""
    document = Document.of("x", id="a", path="a", licence=licence)
    found = stage(*(allow or ("permissive",)), **more)(document)
    return found.document.licence if found.document else found.drops[0].reason


@pytest.mark.parametrize(("text", "expected"), table("licences.toml")["allowed"])
def test_an_expression_is_allowed_as_its_operators_say(text, expected):
    assert is_allowed(_parsed(text), PERMISSIVE) is expected


ids = st.sampled_from(["MIT", "ISC", "GPL-3.0-only", "LGPL-2.1-only", "MPL-2.0", "CC0-1.0"])
trees = st.recursive(
    ids,
    lambda inner: st.tuples(
        st.sampled_from([" OR ", " AND "]), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=6,
)


def written(tree):
    return tree if isinstance(tree, str) else "(" + tree[0].join(map(written, tree[1])) + ")"


def met(tree, allowed):
    if isinstance(tree, str):
        return tree in allowed
    return (any if tree[0] == " OR " else all)(met(part, allowed) for part in tree[1])


@given(trees, st.frozensets(ids))
def test_an_expression_means_what_its_tree_means(tree, allowed):
    assert is_allowed(_parsed(written(tree)), allowed) is met(tree, allowed)


@pytest.mark.parametrize(("licence", "expected"), table("licences.toml")["stated"])
def test_what_is_stated_is_read_or_has_a_reason(licence, expected):
    assert outcome(licence) == expected


def test_names_of_ones_own_and_files_without_a_licence():
    assert outcome("BSD", aliases={"BSD": "BSD-3-Clause"}) == "BSD-3-Clause"
    assert outcome("", keep_unstated=True) == ""
    assert outcome("MIT\0") == outcome("(" * 100_000) == "unknown"
    assert outcome("GPL-3.0-only", "permissive", "GPL-3.0-only") == "GPL-3.0-only"


def test_every_alias_names_a_licence_and_is_not_one_itself():
    for text, expression in ALIASES.items():
        assert text == text.lower()
        assert licences_of(expression) == [expression]
        assert licences_of(text) in ([], [expression])


def test_kinds_are_those_of_the_index():
    assert {"permissive", "copyleft", "copyleft-limited", "public-domain"} <= set(kinds())
    assert known_licences()["MIT"] == "permissive"
    assert known_licences()["GPL-3.0-only"] == "copyleft"


@pytest.mark.parametrize(
    ("allow", "aliases", "message"),
    [
        (["permisive"], {}, "'permisive' is not an SPDX identifier, nor one of the kinds"),
        (["MIT"], {"BSD": "BSD"}, "BSD=BSD: 'BSD' is not an SPDX expression"),
        ([], {}, "at least one kind of licence"),
    ],
)
def test_settings_are_checked_before_anything_is_read(allow, aliases, message):
    with pytest.raises(SettingsError, match=message):
        licence_spec(allow, aliases)


def test_a_deprecated_identifier_allows_the_licence_of_its_new_one():
    for stated in ("GPL-2.0", "GPL-2.0-only"):
        assert outcome(stated, "GPL-2.0") == "GPL-2.0-only"
    assert outcome("GPL-3.0-only", "GPL-2.0") == "licence"
