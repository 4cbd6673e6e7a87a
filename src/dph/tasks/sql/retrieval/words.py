"""Two ways of cutting text into words: as a linguist does, and as a search engine does.

The first gives the n-grams that a question is searched by, the second what is compared.
"""

import re

from dph.tasks.sql.retrieval.porter import stem

LONGEST_QUERY = 8
"""Words of the longest n-gram; the whole question is searched for as well."""

# Lucene's list for English.
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into"),
        *("is", "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then"),
        *("there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
# Letters and digits, held together by an apostrophe or a point between letters, by a point or a
# comma between digits, and by underscores (word breaks of Unicode, UAX 29).
_TERM = re.compile(
    r"[^\W_]+(?:['\u2019][^\W_]+|(?<=\d)[.,](?=\d)\d+|(?<=[A-Za-z])\.(?=[A-Za-z])[^\W_]+)*"
    r"(?:_+\w+)*|_+\w+"
)
_POSSESSIVE = re.compile(r"['\u2019][sS]$")

# What the Penn Treebank's tokenizer sets apart; the order matters.
_APART = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"([,:])(\D)", r" \1 \2"),
        (r"([,:])$", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"[;@#$%&?!\[\](){}<>]", r" \g<0> "),
        (r"([^.])(\.)([\])}>\"'\u00bb\u201d\u2019 ]*)\s*$", r"\1 \2 \3 "),
        (r"--", " -- "),
        (r'"', ' " '),
        (r"([^' ])('[sS]|'[mM]|'[dD]|')(?= |$)", r"\1 \2"),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= |$)", r"\1 \2"),
    )
)


def terms(text: str) -> list[str]:
    """What a search engine sees of a text: words in lower case, stemmed, without stop words.

    >>> terms("What are the singers' names?")
    ['what', 'singer', 'name']
    """
    words = (_POSSESSIVE.sub("", found).lower() for found in _TERM.findall(text))
    return [stem(word) for word in words if word not in _STOP_WORDS]


def queries(question: str) -> list[str]:
    """Every run of one to eight words of a question, then the question, each once.

    >>> queries("Who sings?")
    ['Who', 'sings', '?', 'Who sings', 'sings ?', 'Who sings ?', 'Who sings?']
    """
    words = _tokens(question)
    grams = [
        " ".join(words[start : start + size])
        for size in range(1, LONGEST_QUERY + 1)
        for start in range(len(words) - size + 1)
    ]
    return list(dict.fromkeys([*grams, question]))


def _tokens(text: str) -> list[str]:
    for pattern, replacement in _APART:
        text = pattern.sub(replacement, text)
    return text.split()
