"""The table of domains keeps the promises that the world relies on."""

import re
from collections import Counter

import pytest

from lab.worlds.sql.domains import DOMAINS, KEY

by_name = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


def test_there_are_at_least_ten_domains_with_different_names():
    assert len({domain.name for domain in DOMAINS}) == len(DOMAINS) >= 10


def test_no_two_columns_of_the_world_share_a_business_term():
    terms = Counter(column.term for domain in DOMAINS for column in domain.columns)
    assert terms.most_common(1)[0][1] == 1


def test_no_term_is_the_name_of_a_table_or_a_column():
    names = {table.name for domain in DOMAINS for table in domain.tables} | {KEY}
    names |= {column.name for domain in DOMAINS for column in domain.columns}
    assert not names & {column.term for domain in DOMAINS for column in domain.columns}


@by_name
def test_a_domain_has_three_and_two_numeric_columns_and_a_text_column_in_each_table(domain):
    assert [len(table.numeric) for table in domain.tables] == [3, 2]
    assert all(table.text is table.columns[-1] for table in domain.tables)
    assert all(len(set(table.text.values)) == 8 for table in domain.tables)


@by_name
def test_columns_of_a_domain_are_distinct_so_that_joins_are_unambiguous(domain):
    names = [column.name for column in domain.columns]
    assert len({*names, KEY, domain.first.name, domain.second.name}) == len(names) + 3


@by_name
def test_names_are_single_lower_case_words(domain):
    words = [t.name for t in domain.tables] + [c.name for c in domain.columns]
    words += [column.term for column in domain.columns]
    assert all(re.fullmatch("[a-z_]+", word) for word in words)


def test_the_schema_shows_tables_in_order_with_the_key_first():
    music = next(domain for domain in DOMAINS if domain.name == "music")
    assert music.schema == (
        "singer ( key age fans albums country ) concert ( key seats hours city )"
    )
