"""A chart as a picture: shown by a notebook, saved as png, svg or pdf without a browser."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from dph._base.files import atomic_path
from dph.errors import DataError, SettingsError
from dph.results.charts.panels import (
    Models,
    pass_at_k_panel,
    picture,
    shares_panel,
    style_fills,
    training_panel,
)
from dph.results.vocabulary import BASE, looks, method_label, models_of, set_title

KINDS = ("png", "svg", "pdf")
"""The suffixes, without their dot."""


def drawn(spec: dict[str, Any], kind: str) -> bytes:
    """The picture of a specification; the same specification gives the same bytes."""
    import vl_convert  # noqa: PLC0415 - large

    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    if kind == "pdf":
        return ordered_pdf(vl_convert.vegalite_to_pdf(spec))
    return bytes(vl_convert.vegalite_to_png(spec, scale=2))


@dataclass(frozen=True)
class Picture:
    """A chart; ``spec`` is its specification of Vega-Lite, with the data.

    A notebook draws it by Vega-Lite where it can and shows a png where not.
    """

    spec: dict[str, Any]

    def save(self, path: str | Path) -> None:
        """Save it as png, svg or pdf, by the suffix; the same picture gives the same bytes.

        Raises:
            SettingsError: the suffix is another.
        """
        kind = require_picture(path := Path(path))
        with atomic_path(path) as temporary:
            temporary.write_bytes(drawn(self.spec, kind))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"application/vnd.vegalite.v6+json": self.spec, "image/png": drawn(self.spec, "png")}


def require_picture(path: Path) -> str:
    """The kind of picture that the suffix of ``path`` names."""
    kind = path.suffix.removeprefix(".")
    if kind not in KINDS:
        raise SettingsError(f"a picture is a .png, .svg or .pdf file, got {path.name!r}")
    return kind


_NAMED = re.compile(rb"(?:\n +/[a-z]+\d+ \d+ 0 R)+")
_REFERENCE = re.compile(rb"(\d+) 0 R")


def ordered_pdf(pdf: bytes) -> bytes:
    """A PDF of vl-convert with its objects in the order in which they are named, from the root on.

    vl-convert writes fonts and their names in an order that changes from one call to the next.
    """
    start = int(pdf.rpartition(b"startxref\n")[2].split()[0])
    trailer = pdf[pdf.index(b"trailer", start) :]
    offsets = [int(row[:10]) for row in pdf[start:].splitlines() if row[17:18] == b"n"]
    ends = [*sorted(offsets)[1:], start]
    objects: dict[bytes, tuple[bytes, bytes]] = {}
    for offset, end in zip(sorted(offsets), ends, strict=True):
        number, _, rest = pdf[offset:end].partition(b" ")
        described, marker, stream = rest.partition(b"\nstream")
        lines = _NAMED.sub(lambda names: b"\n".join(sorted(names[0].split(b"\n"))), described)
        objects[number] = lines, marker + stream
    order: dict[bytes, int] = {}
    waiting = _REFERENCE.findall(trailer)
    while waiting:
        number = waiting.pop(0)
        if number not in order:
            order[number] = len(order) + 1
            waiting = _REFERENCE.findall(objects[number][0]) + waiting

    def renumbered(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda one: b"%d 0 R" % order[one[1]], text)

    written, rows = pdf[: min(offsets)], [b"0000000000 65535 f \n"]
    for number, new in order.items():
        rows.append(b"%010d 00000 n \n" % len(written))
        described, stream = objects[number]
        written += b"%d " % new + renumbered(described) + stream
    table = b"xref\n0 %d\n" % len(rows) + b"".join(rows)
    ending = re.sub(rb"startxref\n\d+", b"startxref\n%d" % len(written), renumbered(trailer))
    return written + table + ending


# The picture of a quickstart run.


def quickstart_picture(
    summary: Mapping[str, Any],
    metrics: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    headline: str = "",
) -> Picture:
    """Four panels: styles, styles during training, and Pass@k in domain and cross domain.

    ``summary`` is ``{"base": {"sets"}, "methods": {name: {"sets"}}}`` with the sets in_domain and
    cross_domain; ``metrics`` holds the rows of each method's metrics.jsonl (step,
    effective_styles).
    """
    models = models_of(summary)
    inside, across = (_on_set(models, name) for name in ("in_domain", "cross_domain"))
    chosen = looks(models)
    trained = {name: metrics[name] for name in models if name in metrics}
    panels = [
        shares_panel(
            _styles_title(inside),
            "share of each style in domain; right: effective number",
            inside,
            style_fills([inside]),
        ),
        training_panel(
            "Styles during training",
            "effective styles of the sampled answers, each step",
            trained,
            chosen,
            inside[BASE]["effective_styles"],
        ),
        *(
            pass_at_k_panel(_pass_title(of, name), "bands: 95% intervals", of, chosen)
            for name, of in (("in_domain", inside), ("cross_domain", across))
        ),
    ]
    return Picture(picture(panels, most=2, headline=wrap(headline, width=100)))


def _on_set(models: Models, set_name: str) -> dict[str, Mapping[str, Any]]:
    for name, sets in models.items():
        if set_name not in sets:
            raise DataError(f"{name!r} was not evaluated on set {set_name!r}")
    return {name: sets[set_name] for name, sets in models.items()}


def _styles_title(models: Models) -> str:
    known = {n: m["effective_styles"] for n, m in models.items() if m["effective_styles"]}
    trained = {name: number for name, number in known.items() if name != BASE}
    if BASE not in known or not trained:
        return "Styles of answering"
    fewest = min(trained, key=trained.__getitem__)
    return f"{method_label(fewest)} is left with {trained[fewest]:.1f} of {known[BASE]:.1f} styles"


def _pass_title(models: Models, set_name: str) -> str:
    k = max(models[BASE]["pass_at_k"], key=int)
    ends = {n: round(100 * m["pass_at_k"][k]) for n, m in models.items() if k in m["pass_at_k"]}
    base, trained = ends.pop(BASE), sorted(ends.values())
    span = " to ".join(f"{end}%" for end in dict.fromkeys([*trained[:1], *trained[-1:]]))
    said = ", ".join(filter(None, (span, f"base {base}%")))
    return f"{set_title(set_name)}: Pass@{k} {said}"
