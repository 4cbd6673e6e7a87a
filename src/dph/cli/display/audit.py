"""Output of ``dph grade --audit``: the forms that a reward function reads, and its findings."""

from dph.cli.display.output import json_text
from dph.tasks.grading.audit import Audit, Fault
from dph.tasks.grading.probes import FORMS

_LONGEST = 100


def audit_text(audit: Audit) -> str:
    """The audit for people."""
    lines = [
        f"{audit.function} (signature of {audit.signature}): {audit.calls} calls, "
        f"{audit.seconds:.2g} s each",
        f"reads {len(audit.reads)} of {len(FORMS)} forms: {', '.join(audit.reads) or 'none'}",
    ]
    if audit.reads and audit.not_read:
        lines.append(f"does not read: {', '.join(audit.not_read)}")
    if audit.golds_not_read:
        lines.append(f"cannot tell right from wrong for {', '.join(audit.golds_not_read)}")
    for finding in audit.findings:
        lines.append(f"{finding.count} of {finding.of}: {finding.kind}")
        lines += [f"    {line}" for line in _examples(finding)]
    lines.append(f"findings: {len(audit.findings)}")
    return "\n".join(lines)


def _examples(finding: Fault) -> list[str]:
    return [
        f"gold {probe.gold!r:.40}, response {_short(probe.response)}: "
        + (f"{reward.value:g}" if reward.value is not None else _first_line(reward.reason))
        for probe, reward in finding.examples
    ]


def _short(text: str) -> str:
    return (
        repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text)} characters)"
    )


def _first_line(reason: str) -> str:
    return next(iter(reason.splitlines()), "no reason")[:_LONGEST]


def audit_json(audit: Audit) -> str:
    """The audit as JSON; long responses are cut."""
    return json_text(
        {
            "schema": 1,
            "function": audit.function,
            "signature": audit.signature,
            "calls": audit.calls,
            "median_seconds": audit.seconds,
            "reads": list(audit.reads),
            "not_read": list(audit.not_read),
            "golds_not_read": list(audit.golds_not_read),
            "findings": [
                {
                    "kind": finding.kind,
                    "count": finding.count,
                    "of": finding.of,
                    "examples": [
                        {
                            "problem_id": probe.problem.problem_id,
                            "gold": probe.gold,
                            "form": probe.form,
                            "response": probe.response[:1000],
                            "characters": len(probe.response),
                            "reward": reward.value,
                            "reason": reward.reason,
                            "seconds": reward.seconds,
                        }
                        for probe, reward in finding.examples
                    ],
                }
                for finding in audit.findings
            ],
        }
    )
