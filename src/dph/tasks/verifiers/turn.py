"""The part of a response that is the answer: after its thoughts, and before the mark of its end.

A model that reasons writes a draft between marks, and then its answer. A draft earns nothing, and
costs nothing: only text after the last closed thought is read. A thought that is never closed was
cut off, and there is no answer. The opening mark is often part of the prompt, so a closing mark
alone ends a thought as well.

Of marks that a program quotes (a literal on one line of a fenced block, or a mark between quotes)
none counts.
"""

import re
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
_FENCE = re.compile(r"^[ \t]{0,3}+(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^\n`]*+$", re.MULTILINE)
_LITERAL = re.compile(
    r"""(?<!\w)[rbfu]{0,2}+(?:'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")""", re.IGNORECASE
)


class Turn(NamedTuple):
    """A response in two parts; ``answer`` is '' where a thought was cut off."""

    thoughts: str
    answer: str


def read_turn(response: str) -> Turn:
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
        return Turn(response, "")
    end = _END.search(without_quoted(_END, response[start:]))
    return Turn(response[:start], response[start : start + end.start() if end else None])


def without_quoted(marks: re.Pattern[str], response: str) -> str:
    """The response, as long as before, with other characters for the marks that it quotes."""
    if not marks.search(response):
        return response

    def blanked(found: re.Match[str]) -> str:
        return "_" * len(found[0])

    parts, done = [], 0
    for block in fenced_blocks(response):
        hidden = _LITERAL.sub(lambda literal: marks.sub(blanked, literal[0]), block.text)
        parts += [response[done : block.start], hidden]
        done = block.start + len(block.text)
    between_quotes = re.compile(rf"""(?<!`)(["'`])(?:{marks.pattern})\1(?!`)""", marks.flags)
    return between_quotes.sub(blanked, "".join([*parts, response[done:]]))


class Block(NamedTuple):
    """A fenced block: its mark in lower case, its text, and where the text starts."""

    mark: str
    text: str
    start: int


def fenced_blocks(response: str) -> list[Block]:
    """The fenced blocks; one that is never closed goes to the end."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(response):
        if opening is None:
            opening = fence
        elif fence[1][0] == opening[1][0] and len(fence[1]) >= len(opening[1]) and not fence[2]:
            blocks.append(_block(response, opening, fence.start()))
            opening = None
    if opening is not None:
        blocks.append(_block(response, opening, len(response)))
    return blocks


def _block(response: str, opening: re.Match[str], end: int) -> Block:
    start = min(opening.end() + 1, end)
    return Block(opening[2].lower(), response[start:end], start)
