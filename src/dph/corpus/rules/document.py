"""The rules as a page of documentation: docs/corpus-rules.md is what this makes."""

from collections.abc import Iterable, Mapping

from dph.corpus.rules.presets import PRESETS, Preset, load_preset
from dph.corpus.rules.presets import Rule

_RELEASED = "opencoder"
_HEAD = """\
# Rules of the corpus filter

`dph corpus filter --preset NAME` drops a file when a rule for its kind says so. A rule compares one
signal, a number about the text, with a threshold; a file without a value passes. Kinds are
`text_en`, `text_zh`, the languages with thresholds of their own (c, cpp, csharp, go, html, java,
javascript, python, shell, sql), `data` and `others`; "text" and "code" below stand for all of
theirs. Files of type unknown or excluded are dropped unread. Rules marked *4 of 5* drop a file
with probability 0.8, by a hash of its id and the rule's name, so the same file always falls alike.

Every example is the content of a file (repeated where a number says so) on which its rule fires;
a test holds them to it. This page is printed by `dph corpus rules --markdown`.

| preset | what it is |
|---|---|
| `opencoder` | the filter released with OpenCoder (arXiv:2411.04905), its verdicts as they are |
| `fixed` | the same with what is wrong in it mended (default) |
| `sql` | `fixed`, and rules for SQL |

Verdicts of `opencoder` depend on Pygments 2.21 (code and comments apart), on the running Python
(what parses), on esprima 4.0.1 and beautifulsoup4. Source of its rules and thresholds: the paper's
released filter (OpenCoder-llm/opc_data_filtering at 44b857e, MIT), found by reading and running it.
Its signals for repeated n-grams, words and sentences go back to RedPajama-v2, Gopher
(arXiv:2112.11446) and RefinedWeb (arXiv:2306.01116).
"""


def rules_document() -> str:
    """The page, as Markdown."""
    released = load_preset(_RELEASED)
    parts = [_HEAD, "## opencoder\n", _table(released.rules.values()), _dead(released)]
    for name, base in PRESETS.items():
        if base is not None:
            parts += [f"## {name}\n", _changes(load_preset(name), load_preset(base))]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(rules: Iterable[Rule]) -> str:
    lines = ["| rule | drops | catches | example |", "|---|---|---|---|"]
    for rule in rules:
        coin = ", *4 of 5*" if rule.thinned else ""
        drops = f"{rule.thresholds()}{coin}"
        lines.append(f"| `{rule.name}` | {drops} | {_cell(rule.catches)} | {_example(rule)} |")
    return "\n".join(lines) + "\n"


def _example(rule: Rule) -> str:
    if rule.dead:
        return "none: it never fires"
    text = rule.example.rstrip("\n").replace("\n", "⏎").replace("|", "\\|")
    short = text if len(text) <= 90 else text[:87] + "..."
    times = f" x {rule.repeat}" if rule.repeat > 1 else ""
    return f"`` {short} ``{times} ({rule.file})"


def _dead(preset: Preset) -> str:
    lines = ["Three of these rules can never fire, as released:\n"]
    lines += [f"- `{r.name}`: {r.dead}." for r in preset.rules.values() if r.dead]
    return "\n".join(lines) + "\n"


def _changes(preset: Preset, base: Preset) -> str:
    new = [rule for name, rule in preset.rules.items() if base.rules.get(name) != rule]
    parts = [_table(new), "Why:\n"]
    parts += [
        f"- `{rule.name}`{_in_place_of(preset.replaced, rule)}: {rule.reason}." for rule in new
    ]
    parts += [f"- without `{name}`: {reason}." for name, reason in preset.left_out.items()]
    return "\n".join(parts) + "\n"


def _in_place_of(replaced: Mapping[str, str], rule: Rule) -> str:
    old = replaced.get(rule.name)
    return f" in place of `{old}`" if old else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
