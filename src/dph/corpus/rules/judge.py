"""What the rules of a preset say of a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph.corpus.rules.presets import Preset
from dph.corpus.rules.rule import kind_of_file
from dph.corpus.rules.thinning import thinned_drops
from dph.corpus.signals import FileView, measure, signal_groups
from dph.corpus.signals.own_signals import OWN_SIGNALS


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """A rule's word on a file.

    ``fires`` is the condition on the value alone; ``drops`` what becomes of it, which differs
    where a thinned rule lets the file pass.
    """

    rule: str
    value: float | None
    threshold: str
    fires: bool
    thinned: bool
    drops: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that a preset has to say of a file.

    ``kind`` is None for a file that no rule reads: it is dropped unread.
    """

    kind: str | None
    verdicts: Sequence[RuleVerdict]
    values: Mapping[str, float | None]
    failures: Mapping[str, str]

    @property
    def dropping(self) -> list[RuleVerdict]:
        """The rules that drop the file."""
        return [verdict for verdict in self.verdicts if verdict.drops]

    @property
    def keeps(self) -> bool:
        """Whether the file stays."""
        return self.kind is not None and not self.dropping


def judge(preset: Preset, view: FileView, *, document_id: str, doc_type: str) -> Judgement:
    """Measure a file's signals and apply the rules for its kind."""
    kind = kind_of_file(doc_type, view.language, view.natural_language)
    if kind is None:
        return Judgement(None, (), {}, {})
    rules = preset.of_kind(kind)
    own = tuple(OWN_SIGNALS[name] for name in rules if name in OWN_SIGNALS)
    measured = measure(view, (*signal_groups(doc_type, view.language), own))
    verdicts = []
    for name, (rule, condition) in rules.items():
        value = measured.values.get(name)
        fires = condition.holds(value)
        drops = fires and (not rule.thinned or thinned_drops(document_id, name))
        verdicts.append(RuleVerdict(name, value, condition.text, fires, rule.thinned, drops))
    return Judgement(kind, verdicts, measured.values, measured.failures)
