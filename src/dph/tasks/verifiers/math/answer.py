r"""Find the answer of a mathematical response, and bring it into one spelling.

Boxes come first, then phrases. The last ``\boxed{...}`` whose braces close, and that holds an
answer, counts: an empty box or ``\boxed{\text{answer}}`` only mentions the form. Boxes that only
commas, ``and`` or ``or`` keep apart are one answer of several parts, so that ``\boxed{1} or
\boxed{2}`` is not a free second guess. Without a box, the first line ``#### 72`` counts, as GSM8K
has it: a base model then writes another question, and nothing after that is read. Without either,
the rest of the paragraph after the last final-answer phrase counts. The closing sentence of the
Minerva prompt (``The final answer is ... I hope it is correct.``) counts more than a box before it.
All this inside of the last ``<answer>`` element, if there is one.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache

# Answers that are spelled alike in the end are the same. No step changes a value: blanks between
# digits or letters stay (``1 2`` is not 12), so do brackets, signs and units.

_INVISIBLE = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|limits|nolimits|bigl?|bigr|Bigl?|Bigr)(?![a-zA-Z])"
    r"|\\!|(?<!\\)\$"
)
_BLANKS = re.compile(r"(?:\s|~|\\(?:[,;:> ]|q?quad(?![a-zA-Z])))++")
_NEEDLESS_BLANK = re.compile(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])")
_EMPTY_SET = re.compile(r"\\varnothing(?![a-zA-Z])")
_ANY_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_SHORT_FRACTION = re.compile(r"\\frac\s*([0-9])\s*([0-9])(?![0-9])")
_WORD = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\{([^{}]*)\}")
_PERCENT = re.compile(
    r"\s*\\?%|\s*\\text\{\s*(?:percent|\\?%)\s*\}$|\s*\b(?:percent|percentage|pct)$"
)
_THRICE = re.compile(r"(\.[0-9]{0,30}?([0-9]{1,12}?)\2\2+) ?\.\.\.")  # 0.333..., not 5...
_EDGES_LEFT = re.compile(r"(?:\s|~|(?<!\\)\$|\\(?:[,;:!> ]|q?quad(?![a-zA-Z])))++")
_LAST_MARKS = " \t\n.,;:~$"


@lru_cache(maxsize=1024)  # the samples of a problem give the same few answers
def trim_answer(text: str) -> str:
    r"""An answer without blanks, dollar signs and punctuation around it.

    Numbers, signs, functions, percent, degrees and the empty set are written in one way.

    >>> trim_answer(" $9.$ "), trim_answer("5 percent"), trim_answer(r"\$18\,900")
    ('9', '5\\%', '\\$18900')
    """
    text = _THRICE.sub(r"\1\\ldots", latex_signs(text)) if "..." in text else latex_signs(text)
    start = _EDGES_LEFT.match(text)
    text = text[start.end() if start else 0 :]
    while (shorter := text.rstrip(_LAST_MARKS)) != text or text.endswith("\\"):
        text = shorter.rstrip("\\") if shorter.endswith("\\") else shorter
    text = _EMPTY_SET.sub(r"\\emptyset", plain_notation(text))
    return _PERCENT.sub(r"\\%", text)


def clean_answer(text: str) -> str:
    r"""A trimmed answer without sizes of brackets and with one kind of blank and fraction.

    >>> clean_answer(r"\left( 1,\, \dfrac12 \right)")
    '( 1, \\frac{1}{2} )'
    """
    text = _BLANKS.sub(" ", _INVISIBLE.sub("", text))
    return _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _ANY_FRACTION.sub(r"\\frac", text)).strip()


def same_spelling(text: str) -> str:
    r"""A key that is equal only for answers which are spelled alike; of a cleaned answer.

    >>> same_spelling("( 1, x + 2)") == same_spelling("(1,x+2)")
    True
    >>> same_spelling("1 2") == same_spelling("12")
    False
    """
    return _NEEDLESS_BLANK.sub("", _WORD.sub(r" \1 ", text)).strip()


_ELEMENT = "<answer>"
PHRASES = ("final answer is", "answer is", "final answer:", "answer:")
LONGEST_ANSWER = 5000

_MOST_BOXES = 20
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;&]|\\[()\[\]]|\\(?:,|;|quad|qquad)(?![a-zA-Z])|"
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|and|or)*+"
)
_TOKEN = re.compile(r"\\.|[{}]", re.DOTALL)
# Content of a box that only mentions the form asked for.
_NOTHING = (
    r"(?:[\s~$.?_\u2026{}]|\\(?:[,;:!_ ]|(?:q?quad|[lc]?dots|square|Box)(?![a-zA-Z]))"
    r"|\\(?:text|textbf|textit|mathrm|mathbf)(?=\s*\{))*+"
)
_MENTION = re.compile(
    rf"{_NOTHING}(?:[<\[(]?(?:(?:your|the|my|insert|final|numerical)[\s_]+)*+(?:answer|result)s?"
    rf"(?:[\s_]+here)?[>\])]?{_NOTHING})?",
    re.IGNORECASE,
)
# ``#### 72 clips``, but neither the heading ``#### 1. The sum`` nor ``#### 1`` before ``#### 2``.
_HASH_LINE = re.compile(
    r"^[ \t]*####[ \t]*\**(\$?[-+\u2212]?(?:\\?[$\u20ac\u00a3])?(?:\.?[0-9]|\\[dt]?frac)\S*"
    r"(?:(?<![.:)]) [a-z0-9%][^\s.:]*){0,4})\**[ \t]*$",
    re.MULTILINE,
)
_SECOND_HEADING = re.compile(r"^[ \t]*####[ \t]*2[ \t]*$", re.MULTILINE)
_NEXT_QUESTION = re.compile(
    r"^[ \t]*[*#_]*\s*(?:Question|Problem|Q|Exercise|Example|Human|User|Instruction)\b"
    r"[^:\n]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)
_MINERVA_START, _MINERVA_END = "final answer is", "I hope it is correct"
_DECORATION = " \t\n*_:"


class Place(Enum):
    """Place where an answer was found."""

    BOX = auto()
    PHRASE = auto()


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """The parts of an answer, one for each box; a phrase gives one, ``context`` starts with it."""

    parts: tuple[str, ...]
    place: Place
    context: str = ""


def find_answer(response: str, phrases: Sequence[str] = PHRASES) -> FoundAnswer | None:
    r"""The answer in a response, or None if it has neither a box nor a phrase.

    >>> find_answer(r"$\boxed{\frac{1}{2}}$, so the answer is clear.").parts
    ('\\frac{1}{2}',)
    >>> find_answer(r"$\boxed{2}$ and $\boxed{3}$").parts, find_answer("The answer is 5.").parts
    (('2', '3'), ('5.',))
    """
    if (start := response.lower().rfind(_ELEMENT)) >= 0:
        inside = response[start + len(_ELEMENT) :].partition("</")[0]
        return find_answer(inside, phrases) or FoundAnswer((inside,), Place.PHRASE, inside)
    line = _HASH_LINE.search(response) if "####" in response else None
    if line and line[1] == "1" and _SECOND_HEADING.search(response, line.end()):
        line = None
    if line and (another := _NEXT_QUESTION.search(response, line.end())):
        response = response[: another.start()]
    minerva = _after_phrase(response, (_MINERVA_START,), end=_MINERVA_END)
    if minerva and not line and "box" not in minerva.context:
        return minerva
    if boxes := last_boxes(response):
        return FoundAnswer(boxes, Place.BOX)
    if line:
        return FoundAnswer((line[1],), Place.PHRASE, line[1])
    return _after_phrase(response, phrases)


def _after_phrase(response: str, phrases: Sequence[str], end: str = "") -> FoundAnswer | None:
    """Text after the last of the phrases, up to an empty line or ``end``, which must be there."""
    lower = response.lower().replace("\uff1a", ":")
    if len(lower) != len(response):  # a letter whose lower case is longer: places would shift
        lower = response
    # The longest of two phrases that end at the same place.
    place, start = max(
        ((lower.rfind(phrase) + len(phrase), lower.rfind(phrase)) for phrase in phrases),
        key=lambda found: (found[0] if found[1] >= 0 else -1, -found[1]),
        default=(-1, -1),
    )
    if start < 0 or end not in response[place:]:
        return None
    rest = response[place:].partition(end)[0] if end else response[place:]
    text = rest.lstrip(_DECORATION).partition("\n\n")[0].partition(_MINERVA_END)[0]
    text = text[: LONGEST_ANSWER + 1].strip(_DECORATION)
    return FoundAnswer((text,), Place.PHRASE, response[start:]) if text else None


def has_box(text: str) -> bool:
    """True if a box begins in the text, closed or not."""
    return _BOX.search(text) is not None


def last_boxes(text: str) -> tuple[str, ...]:
    """Contents of the last group of boxes, one after the other; no box that is open or empty."""
    starts = [found.span() for found in _BOX.finditer(text)][-_MOST_BOXES:]
    parts: list[str] = []
    group_start = -1
    for start, inside in reversed(starts):
        end = _closing_brace(text, inside)
        if end is None:
            continue
        if _MENTION.fullmatch(text, inside, end):
            continue
        if parts and not _BETWEEN_BOXES.fullmatch(text, end + 1, group_start):
            break
        parts.append(text[inside:end].strip())
        group_start = start
    return tuple(reversed(parts))


def _closing_brace(text: str, inside: int) -> int | None:
    r"""End of the brace opened before ``inside``; ``\{`` and ``\}`` do not count."""
    depth = 1
    for token in _TOKEN.finditer(text, inside, inside + LONGEST_ANSWER + 2):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if not depth:
                return token.start()
    return None


# Signs become LaTeX by tables before anything else reads an answer. That never changes a value: a
# sign becomes the command for it, a name of a program's function the LaTeX one, a mixed number or a
# decimal that repeats its fraction.

_LONGEST = 1000
_COMMANDS = r"""
\times ×⨯  \cdot ·⋅∙  \div ÷  \pm ±  \le ≤≦⩽  \ge ≥≧⩾  \ne ≠  \approx ≈  \infty ∞  ^\circ °º˚
\in ∈  \cup ∪  \cap ∩  \setminus ∖  \emptyset ∅  \mathbb{R} ℝ  \mathbb{Z} ℤ  \mathbb{N} ℕ
\mathbb{Q} ℚ  \mathbb{C} ℂ  \wedge ∧  \vee ∨  \Rightarrow ⇒  \to →  \ldots …⋯
\langle ⟨〈  \rangle ⟩〉  \lfloor ⌊  \rfloor ⌋  \lceil ⌈  \rceil ⌉
- −‐‑‒  / ⁄∕  | ∣  ' ‘’ʼ  , 、  . 。
"""  # noqa: RUF001
_SIGNS = {
    sign: command + " " * command[-1].isalpha()
    for command, signs in (row.split(" ") for row in re.split(r"  |\n", _COMMANDS.strip()))
    for sign in signs
} | dict.fromkeys("\u200b\u200c\u200d\u2060\u2061\u2062\ufeff", "")
# Kinds of Unicode's decompositions that do not change what a character means, unlike those of
# raised and lowered digits.
WIDE = {0xFF01 + place: 0x21 + place for place in range(94)}
_SAME = ("<wide>", "<narrow>", "<small>", "<font>", "<noBreak>", "<square>", "<vertical>")
_WITHIN = {"<super>": "\ue000^%s\ue001", "<sub>": "\ue000_%s\ue001"}
_GREEK = re.compile(r"GREEK (?:(SMALL)|CAPITAL) LETTER (?:FINAL )?(\w+)|GREEK (PHI|THETA) SYMBOL")
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"


@lru_cache(maxsize=4096)
def _latex(sign: str) -> str:
    """The LaTeX of one character, or the character."""
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign.isspace():
        return " "
    kind, *codes = unicodedata.decomposition(sign).split() or [""]
    parts = "".join(_latex(chr(int(code, 16))) for code in codes)
    if kind in _SAME:
        return parts
    if kind in _WITHIN:
        return _WITHIN[kind] % parts
    if kind == "<fraction>" and not parts.endswith("/"):
        top, _, bottom = parts.partition("/")
        return rf"\frac{{{top}}}{{{bottom}}}"
    if greek := _GREEK.fullmatch(unicodedata.name(sign, "")):
        name = (greek[2] or greek[3]).lower().replace("lamda", "lambda")
        name = name if greek[1] or greek[3] else name.capitalize()
        return rf"\{name} " if name.islower() or name in _CAPITALS.split() else sign
    return sign


_BLANK = r"(?:[ \t\n~]|\\[,;: ])"
_RAISED_FRACTION = re.compile("\ue000\\^([0-9]+)\ue001/\ue000_([0-9]+)\ue001")
_RAISED = re.compile("\ue000([_^])([^\ue001]*)\ue001((?:\ue000\\1[^\ue001]*\ue001)*)")
_MARKS = re.compile("[\ue000\ue001_^\u0305]")
_OVERLINED = re.compile("((?:[0-9]\u0305)+)")
_DOTTED = re.compile("([0-9])\u0307")
_DASH = re.compile("(?<![0-9A-Za-z)}])\u2013")
_ROOT = re.compile(
    r"([\u221a\u221b\u221c])\s*(?:(\\frac\{[^{}]*\}\{[^{}]*\}|[0-9]+(?:\.[0-9]+)?|[A-Za-z]"
    r"|\\[A-Za-z]+)|(?=[({]))"
)
_INDEX = {"\u221a": "", "\u221b": "[3]", "\u221c": "[4]"}


def latex_signs(text: str) -> str:
    r"""A text in which every sign that has a command of LaTeX is that command.

    >>> latex_signs("x\u00b2 \u2265 2\u03c0"), latex_signs("\u221a2"), latex_signs("1\u00bd")
    ('x^{2} \\ge  2\\pi ', '\\sqrt{2}', '1\\frac{1}{2}')
    """
    if text.isascii() or len(text) > _LONGEST:
        return text
    text = _RAISED_FRACTION.sub(r"\\frac{\1}{\2}", "".join(_latex(sign) for sign in text))
    text = _RAISED.sub(lambda run: f"{run[1]}{{{run[2]}{_MARKS.sub('', run[3])}}}", text)
    text = _OVERLINED.sub(lambda run: rf"\overline{{{_MARKS.sub('', run[1])}}}", text)
    text = _DASH.sub("-", _DOTTED.sub(r"\\dot{\1}", text))
    return _ROOT.sub(
        lambda found: rf"\sqrt{_INDEX[found[1]]}" + (f"{{{found[2]}}}" if found[2] else ""), text
    )


_CALLS = {"sqrt": r"\sqrt{%s}", "cbrt": r"\sqrt[3]{%s}", "exp": "e^{%s}", "^": "^{%s}"}
_CALLS |= {"abs": "|%s|", "Abs": "|%s|"}
_CALL = re.compile(r"(?:\\|(?<![A-Za-z\\]))(sqrt|cbrt|exp|[aA]bs)\s*\(|(\^)\s*\(")
_TRIGONOMETRIC = "sin|cos|tan|cot|sec|csc"
_SAME_NAMES = """
sin cos tan cot csc sinh cosh tanh ln log sqrt pi alpha beta gamma delta theta lambda sigma omega
"""  # not sec, which is a unit of time
_NAMES = {
    **{name: name for name in _SAME_NAMES.split()},
    **{f"{arc}{name}": f"arc{name}" for arc in ("a", "arc") for name in ("sin", "cos", "tan")},
    **dict.fromkeys(("infinity", "Infinity", "infty", "inf", "oo"), "infty"),
    "log10": "log_{10}",
    "log2": "log_{2}",
}
_ANY_NAME = "|".join(sorted(_NAMES, key=len, reverse=True))
_NAME = re.compile(
    rf"\\(?:operatorname|mathrm|text)\{{ ?({_ANY_NAME}) ?\}}"
    rf"|(?<![A-Za-z\\])({_ANY_NAME})(?![A-Za-z])"
)
_OPERATORS = (
    (re.compile(r"\*\* ?(\w+) ?\*\* ?(\w+)"), r"^{\1^{\2}}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"<="), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"!="), r"\\ne "),
    (re.compile(r"(?<=[])}]) ?(?:U|union|\\text\{ ?(?:U|union) ?\}) ?(?=[\[(\\])"), r"\\cup "),
    (re.compile(r"\\var(phi|epsilon|theta|rho|sigma)(?![A-Za-z])"), r"\\\1"),
)
_EXPONENT = re.compile(r"\^ ?(-?[0-9]*\.[0-9]+|-(?:[0-9]+|[A-Za-z])|[0-9]{2,})")
_PROGRAM = re.compile(
    r"\*\*|[<>!]=|\^ ?[-(0-9]|(?<![A-Za-z\\])[A-Za-z]{2}|\\var|[])] ?U|\\?[a-z]+ ?\("
)


def _program(text: str) -> str:
    for pattern, latex in _OPERATORS:
        text = pattern.sub(latex, text)
    for call in reversed(list(_CALL.finditer(text))):
        end = _closing(text, call.end())
        if end:
            inside, name = text[call.end() : end], call[1] or call[2]
            text = text[: call.start()] + _CALLS[name] % inside + text[end + 1 :]
    text = _NAME.sub(lambda found: rf"\{_NAMES[found[1] or found[2]]} ", text)
    return _EXPONENT.sub(r"^{\1}", text)


def _closing(text: str, place: int) -> int:
    """Place of the parenthesis that closes the one before ``place``; 0 if there is none."""
    depth = 1
    for end in range(place, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if not depth:
            return end
    return 0


_GROUPED = re.compile(
    rf"(?<![0-9.,^_A-Za-z\\])(?:[1-9][0-9]{{0,2}}(?:(?:{_BLANK}[0-9]{{3}})+|(?:'[0-9]{{3}})+"
    rf"|(?:\.[0-9]{{3}}){{2,}}|(?:_[0-9]{{3}}){{2,}})|[0-9]+\.[0-9]{{3}}(?:{_BLANK}[0-9]{{3}})+)"
    rf"(?![0-9]|{_BLANK}?/|{_BLANK}[0-9])"
)
_BETWEEN_GROUPS = re.compile(rf"{_BLANK}|['_]")
_CURRENCY = (
    r"(?:US ?)?\\?\$|[\u00a2-\u00a5\u20a0-\u20cf]|Rs\.?|USD|EUR|GBP|JPY|CNY|RMB|INR|KRW|RUB|CHF"
)
_MONEY = re.compile(
    rf"(?P<minus>-?) ?(?:\\text\{{ ?)?(?P<before>{_CURRENCY})(?: ?\}})?[ ~]?"
    r"(?P<amount>[0-9][0-9.,]*)"
    rf"|(?P<first>-?[0-9][0-9.,]*)[ ~]?(?P<after>{_CURRENCY})"
)
_CODES = {"\u00a2": "cent", "\u00a3": "GBP", "\u00a5": "", "\u20ac": "EUR", "\u20b9": "INR"}
_CODES |= {"\u20a9": "KRW", "\u20bd": "RUB"}
_DEGREE = re.compile(r"\\degree(?![a-zA-Z])|\^ ?\{ ?\\circ ?\}")
_FRACTION = r"(?:\\[dt]?frac ?\{ ?(?P<top>[0-9]+) ?\} ?\{ ?(?P<bottom>[0-9]+) ?\}"
_MIXED = re.compile(
    rf"(?<![0-9A-Za-z.,}})^_/!\\])(?<![0-9A-Za-z}}] )(?P<whole>[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)"
    rf"(?:{_BLANK}+(?P<over>[0-9]+) ?/ ?(?P<under>[0-9]+)(?![0-9/^!(]|\.[0-9])|{_BLANK}*{_FRACTION}"
    r"(?=\s*(?:$|[]),;]|\\[%)}]|\\text))))"
)
_DOTS = r"(?:\\dot ?(?:\{ ?[0-9] ?\}|[0-9]))"
_ENDLESS = r"(?:\.\.\.|\\[lc]?dots(?![A-Za-z]))"
_REPEATING = re.compile(
    r"(?<![0-9.,A-Za-z^_])(?P<whole>[0-9]{0,30})\.(?P<head>[0-9]{0,30}?)(?:"
    r"\\(?:overline|bar) ?(?P<bar>\{ ?[0-9]{1,60} ?\}|[0-9])"
    rf"|(?P<dots>{_DOTS}(?:[0-9]{{0,60}}{_DOTS})?)"
    r"|(?P<round>\([0-9]{1,60}\))(?=\s*(?:$|[]),;}%]|\\[%}]))"
    rf"|(?P<period>[0-9]{{1,12}}?)(?P=period){{2,}} ?{_ENDLESS}) ?(?![0-9^])"
)
_DEGREES = r"(-?[0-9]+)(?:\.([0-9]+))? ?\^ ?\\circ(?![A-Za-z]) ?"
_ANGLE = re.compile(
    rf"(\\(?:{_TRIGONOMETRIC}) ?(?:\^ ?(?:\{{ ?[0-9] ?\}}|[0-9]))?) ?"
    rf"(?:\(([^()]*)\)|\{{([^{{}}]*)\}}|({_DEGREES}))"
)


def _mixed(found: re.Match[str]) -> str:
    top, bottom = int(found["over"] or found["top"]), int(found["under"] or found["bottom"])
    if not 0 < top < bottom:
        return found[0]
    return rf"\frac{{{int(found['whole'].replace(',', '')) * bottom + top}}}{{{bottom}}}"


def _repeating(found: re.Match[str]) -> str:
    period = next(found[kind] for kind in ("bar", "dots", "round", "period") if found[kind])
    period = re.sub(r"[^0-9]", "", period)
    before = found["whole"] + found["head"]
    ninths = 10 ** len(found["head"]) * (10 ** len(period) - 1)
    value = Fraction(int(before + period) - int(before or "0"), ninths)
    if value.denominator == 1:
        return str(value.numerator)
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _grouped(found: re.Match[str]) -> str:
    together = _BETWEEN_GROUPS.sub("", found[0])
    return together.replace(".", "") if together.count(".") > 1 else together


def _money(found: re.Match[str]) -> str:
    r"""An amount with its currency's code behind it, but ``\$`` before; ``\u00a5`` has none."""
    mark = (found["before"] or found["after"]).strip(" .")
    amount = (found["minus"] or "") + (found["amount"] or found["first"])
    return rf"\${amount}" if "$" in mark else f"{amount} {_CODES.get(mark, mark)}".strip()


def _radians(found: re.Match[str]) -> str:
    inside = next(part for part in found.groups()[1:] if part is not None)
    return f"{found[1]}({re.sub(_DEGREES, _in_radians, inside)})" if "circ" in inside else found[0]


def _in_radians(angle: re.Match[str]) -> str:
    decimals = angle[2] or ""
    return rf"\frac{{{angle[1]}{decimals}\pi}}{{{180 * 10 ** len(decimals)}}}"


_PLAIN = re.compile(r"-?[0-9]+(?:[./][0-9]+)?")
_WORDS = tuple(
    (re.compile(rf"(?:\\text\{{\s*)?(?:{pattern})\s*\.?\s*\}}?", re.IGNORECASE), spelling)
    for pattern, spelling in (
        *((word, word) for word in ("true", "false", "yes", "no")),
        (
            r"(?:there (?:is|are|exists?) |has |it has )?no (?:(?:such|real|integer|integral|valid"
            r"|possible|positive) )*(?:solutions?|roots?)(?: exists?)?|none"
            r"|(?:the )?(?:empty|null) set|\\\{\s*\\?\}",
            r"\emptyset",
        ),
        (r"all reals?|(?:all |the set of (?:all )?)?real numbers", r"\mathbb{R}"),
    )
)


def plain_notation(text: str) -> str:
    r"""An answer (of ``latex_signs``) with one LaTeX spelling for each number and function.

    >>> plain_notation("x**2 + sqrt(x + 1)"), plain_notation("pi/2"), plain_notation("p i")
    ('x^2 + \\sqrt{x + 1}', '\\pi /2', 'p i')
    >>> plain_notation("1 1/4"), plain_notation(r"0.1\overline{6}"), plain_notation("12 000")
    ('\\frac{5}{4}', '\\frac{1}{6}', '12000')
    """
    if _PLAIN.fullmatch(text) or len(text) > _LONGEST:
        return text
    if len(text) < 40:
        for pattern, spelling in _WORDS:
            if pattern.fullmatch(text):
                return spelling
    if _PROGRAM.search(text):
        text = _program(text)
    text = _GROUPED.sub(_grouped, text)
    if money := _MONEY.fullmatch(text):
        text = _money(money)
    text = _REPEATING.sub(_repeating, _MIXED.sub(_mixed, text))
    text = _DEGREE.sub(r"^\\circ", text)
    return _ANGLE.sub(_radians, text) if r"\circ" in text else text
