"""The part of a response that is the answer: after its thoughts, and before the mark of its end.

A model that reasons writes a draft between marks, and then its answer. A draft earns nothing, and
costs nothing: only text after the last closed thought is read. A thought that is never closed was
cut off, and there is no answer. The opening mark is often part of the prompt, so a closing mark
alone ends a thought as well.

Of marks that a program quotes (a literal on one line of a fenced block, or a mark between quotes)
none counts.
"""

import re
from functools import cache
from typing import NamedTuple

# First character of a thought's marks, the rest of the opening one, that of the closing one, as
# regular expressions: the first character is apart because a search for it alone is fast.
_THOUGHTS = (
    # DeepSeek-R1, Qwen3 and most others; prompts that ask for tags use many words for them.
    *(
        ("<", rf"(?i:{word})(?:\s[^<>\n]{{0,80}})?>", rf"/(?i:{word})\s?>")
        for word in (
            *("think", "thinking", "thoughts?", "reasoning", "reason", "analysis", "reflection"),
            *("scratch_?pad", "seed:think", "inner_(?:monologue|thoughts?)", "rationale"),
        )
    ),
    ("<", r"\|begin_of_thought\|>", r"\|end_of_thought\|>"),  # OpenThoughts, Sky-T1
    ("<", r"\|START_THINKING\|>", r"\|END_THINKING\|>"),  # Command A Reasoning
    ("<", r"\|inner_prefix\|>", r"\|inner_suffix\|>"),  # Apertus
    ("<", r"\|channel>thought\b", r"channel\|>"),  # Gemma 4
    # gpt-oss (harmony), and what is left of it where special tokens are not decoded.
    (
        "<",
        r"\|channel\|>analysis\b",
        r"\|channel\|>(?:final|commentary)\b[^\n]{0,80}?<\|message\|>",
    ),
    ("a", r"(?<![\s\S]{2})nalysis(?=[^\sa-z:])", "ssistantfinal(?![a-z])"),
    (r"\[", r"THINK\]", r"/THINK\]"),  # Magistral
    ("\u25c1", "think\u25b7", "/think\u25b7"),  # Kimi-VL
)
_MARKS = re.compile(
    "|".join(
        f"{first}(?:(?P<o{kind}>{opening})|(?P<c{kind}>{closing}))"
        for kind, (first, opening, closing) in enumerate(_THOUGHTS)
    )
)
# Marks of the end of a turn; what follows them is somebody else's.
_END = re.compile(
    r"<(?:\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|return|call|end_of_turn)\|>"
    "|end_of_turn>|turn\\|>|\uff5cend\u2581of\u2581sentence\uff5c>|(?:/s|eos)>\\s*\\Z)"
)
# A fence, a line that begins an item of a list, or one that begins a paragraph outside of it.
_ITEM = r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]"
_REST = r"(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<mark>[^\s`]*+)[^\n`]*+$"
_FENCE = re.compile(
    rf"^(?:(?P<quote>(?:[ \t]{{0,3}}+>)*+)(?P<blanks>[ \t]*+)(?P<item>(?:{_ITEM}[ \t]*+)?+)"
    rf"{_REST}| {{0,3}}(?P<begins>{_ITEM})|(?<=\n\n) ?\S)",
    re.MULTILINE,
)
_FLUSH = re.compile(rf"^(?P<quote>)(?P<blanks>)(?P<item>){_REST}", re.MULTILINE)  # fast
_BLANKS = re.compile(r"^[ \t]++", re.MULTILINE)
_LITERAL = re.compile(
    r"""(?<!\w)[rbfu]{0,2}+(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")""", re.IGNORECASE
)


class TurnParts(NamedTuple):
    """A response in two parts; ``answer`` is '' where a thought was cut off."""

    thoughts: str
    answer: str


def read_turn(response: str) -> TurnParts:
    """The thoughts of a response with their marks, and its answer.

    >>> read_turn("<think>3? No.</think> It is 4.<|im_end|>").answer
    ' It is 4.'
    >>> read_turn("so it is 3</think>4").answer, read_turn("<think>so it is 3").answer
    ('4', '')
    """
    plain = without_quoted(_MARKS, response)
    start, open_kind = 0, ""
    for mark in _MARKS.finditer(plain):
        kind = str(mark.lastgroup)
        if kind[0] == "o":
            open_kind = open_kind or kind[1:]
        elif open_kind in ("", kind[1:]):
            start, open_kind = mark.end(), ""
    if open_kind:
        return TurnParts(response, "")
    end = _END.search(without_quoted(_END, response[start:]))
    return TurnParts(response[:start], response[start : start + end.start() if end else None])


def without_quoted(marks: re.Pattern[str], response: str) -> str:
    """The response, as long as before, with other characters for the marks that it quotes."""
    if not marks.search(response):
        return response

    def blanked(found: re.Match[str]) -> str:
        return "_" * len(found[0])

    parts, done = [], 0
    for block in fenced_blocks(response):
        text = response[block.start : block.end]
        hidden = _LITERAL.sub(lambda literal: marks.sub(blanked, literal[0]), text)
        parts += [response[done : block.start], hidden]
        done = block.end
    return _between_quotes(marks).sub(blanked, "".join([*parts, response[done:]]))


@cache
def _between_quotes(marks: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"""(?<!`)(["'`])(?:{marks.pattern})\1(?!`)""", marks.flags)


class Block(NamedTuple):
    """A fenced block: its mark in lower case, its text, and where in the response that is."""

    mark: str
    text: str
    start: int
    end: int


def fenced_blocks(response: str, *, anywhere: bool = False) -> list[Block]:
    """The fenced blocks, as in CommonMark; one that is never closed goes to the end.

    A fence may be indented, by four blanks and more in an item of a list only, or ``anywhere``. As
    much is taken off the lines of its block, which a fence four blanks further in does not end.
    """
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    in_item = False
    all_flush = response.count("```") == f"\n{response}".count("\n```") and "~~~" not in response
    for found in (_FLUSH if all_flush else _FENCE).finditer(response):
        if found["fence"] is None:
            in_item = in_item if opening else bool(found["begins"])
        elif opening is None:
            if anywhere or in_item or found["quote"] or _width(found["blanks"]) < 4:
                opening, in_item = found, in_item or bool(found["item"])
        elif (
            found["fence"].startswith(opening["fence"])
            and not (found["mark"] or found["item"])
            and _width(found["blanks"]) <= _width(opening["blanks"] + opening["item"]) + 3
            and found["quote"].count(">") <= opening["quote"].count(">")
        ):
            blocks.append(_block(response, opening, found.start()))
            opening = None
    if opening is not None:
        blocks.append(_block(response, opening, len(response)))
    return blocks


def _block(response: str, opening: re.Match[str], end: int) -> Block:
    start = min(opening.end() + 1, end)
    text = response[start:end]
    if quotes := opening["quote"].count(">"):
        text = re.sub(rf"^(?:[ \t]{{0,3}}+>){{{quotes}}}", "", text, flags=re.MULTILINE)
    if width := _width(opening["blanks"] + opening["item"]):
        text = _BLANKS.sub(lambda blanks: " " * (_width(blanks[0]) - width), text)
    mark = re.split("[:,]", opening["mark"].strip("{}."))[0]
    return Block(mark.lower(), text, start, end)


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(4))
