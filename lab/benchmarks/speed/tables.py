"""The tables of lab/benchmarks/README.md, made from the rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.benchmarks.marked_blocks import write_block
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.shapes import REAL

Cell = Callable[[Row], str]
TARGETS: Mapping[tuple[str, str], str] = {
    ("full_step", "long"): ">= 4.0",
    ("full_step", "stops"): ">= 2.5",
    ("full_step", "short"): ">= 1.5",
    ("sampling", "full"): ">= 1.4",
    ("sampling", "early"): ">= 4.0",
    ("sampling", "smollm2_few_shot"): ">= 4.0",
    ("sampling", "smollm2_60"): ">= 4.0",
}
"""What the ratio should be."""


def _seconds(side: str) -> Cell:
    def cell(row: Row) -> str:
        low, high = row[f"{side}_range"]
        return f"{row[f'{side}_s']:.3g} ({low:.3g} to {high:.3g})"

    return cell


def _ratio(row: Row) -> str:
    wanted = TARGETS.get((row["bench"], row["case"]))
    return f"**{row['ratio']:.2f}**" + (f" (wanted {wanted})" if wanted else "")


def _number(name: str, form: str = ".3g", scale: float = 1) -> Cell:
    return lambda row: format(row[name] * scale, form) if name in row else ""


def _several(*numbers: tuple[str, str, float]) -> Cell:
    cells = [_number(name, form, scale) for name, form, scale in numbers]
    return lambda row: ", ".join(filter(None, (cell(row) for cell in cells)))


def _passed(row: Row) -> str:
    return {True: "yes", False: "**no**", None: ""}[row.get("passed")]


def _spent(row: Row) -> str:
    return ", ".join(f"{kind} {100 * share:.0f}" for kind, share in row["spent"].items())


_TIMES: Mapping[str, Cell] = {
    "threads": lambda row: str(row["threads"]),
    "ours, s": _seconds("ours"),
    "peer, s": _seconds("peer"),
}
_LENGTHS: Mapping[str, Cell] = {
    "mean length": lambda r: f"{r['ours_mean_length']:.1f} / {r['peer_mean_length']:.1f}"
}
_FLOOR: Mapping[str, Cell] = {
    "floor, s": _number("floor_s"),
    "floor / ours, %": _number("useful_share", ".0f", 100),
}


def _shape(row: Row) -> str:
    """The shape, after the model and the device where they are not the usual ones."""
    gpu = f"on a GPU in {row['dtype']}, " if row["device"] == "cuda" else ""
    return gpu + ("SmolLM2-135M, " if row["case"] in REAL else "") + str(row["shape"])


_SHAPE: Mapping[str, Cell] = {"shape": _shape}
_OVERHEAD: Mapping[str, Cell] = {
    **_SHAPE,
    "method": lambda row: row["method"],
    **_TIMES,
    "ours / peer": _number("overhead", ".3f"),
    "stored rows": _number("stored_rows", "d"),
    "stored tokens / policy tokens": lambda r: f"{r['stored_tokens'] / r['policy_tokens']:.2f}",
}
TABLES: Mapping[str, Mapping[str, Cell]] = {
    "full_step": {
        **_SHAPE,
        **_TIMES,
        "peer / ours": _ratio,
        **_LENGTHS,
        "gradient difference": _number("gradient_error", ".1e"),
        **_FLOOR,
    },
    "step_memory": {
        **_SHAPE,
        "threads": lambda row: str(row["threads"]),
        "ours, MiB": _number("ours_peak_mib", "d"),
        "TRL, MiB": _number("peer_peak_mib", "d"),
        "ours / TRL": lambda row: f"**{row['peak_share']:.2f}** (wanted <= 0.5)",
        "TRL with checkpointing, MiB": _number("peer_checkpointed_peak_mib", "d"),
        "of it added by the steps": lambda row: " / ".join(
            str(row[f"{side}_added_mib"]) for side in ("ours", "peer", "peer_checkpointed")
        ),
    },
    "update": {**_SHAPE, **_TIMES, "peer / ours": _ratio, **_FLOOR, "our time, %": _spent},
    "trl_shared": {
        **_SHAPE,
        "rows a micro-batch": _number("at_once", "d"),
        **_TIMES,
        "peer / ours": _ratio,
        "gradient difference": _number("gradient_error", ".1e"),
    },
    "sampling": {**_SHAPE, **_TIMES, "peer / ours": _ratio, **_LENGTHS, **_FLOOR},
    "rehearsal_overhead": _OVERHEAD,
    "reference_overhead": {k: v for k, v in _OVERHEAD.items() if not k.startswith("stored")},
    "gpu_correct": {
        "compared with float64": lambda row: row["case"],
        "errors": lambda row: ", ".join(
            f"{name.removesuffix('_error').replace('_', ' ')} {value}"
            for name, value in row.items()
            if name.endswith("error") or name == "without_keys"
        ),
        "limit": _number("limit"),
        "passed": _passed,
    },
    "gpu": {
        **_SHAPE,
        "side": lambda row: row["side"] + " (in part reckoned)" * row.get("extrapolated", False),
        "sampling, s": _number("sampling_s"),
        "update, s": _number("update_s"),
        "step, s": _number("step_s"),
        "answers a second": _number("answers_per_s"),
        "a token: ms, launches, kernels": _several(
            ("token_s", ".3g", 1e3), ("token_launches", ".3g", 1), ("token_kernels", ".4g", 1)
        ),
        "a micro-batch: s, launches": _several(("micro_s", ".3g", 1), ("micro_launches", ".4g", 1)),
        "without a kernel, %: token, micro-batch": _several(
            ("token_idle", ".0f", 100), ("micro_idle", ".0f", 100)
        ),
        "update, tokens a second": _number("update_tokens_per_s", ",.0f"),
        "MFU, %": _number("mfu", ".1f", 100),
        "update, GiB: peak, estimated": _several(
            ("update_peak_gib", ".1f", 1), ("update_estimated_gib", ".1f", 1)
        ),
        "machine": lambda row: row["machine"],
        "problems": lambda row: "; ".join(row.get("problems", ())),
    },
    "gpu_recipes": {
        "run": lambda row: row["case"],
        "recipe": lambda row: row["shape"],
        "last step, s": _number("step_s"),
        "peak, GiB": _number("peak_gib"),
        "estimated": _number("estimated_gib"),
        "passed": _passed,
        "problems": lambda row: "; ".join(row.get("problems", ())),
    },
}


def table(name: str, rows: Sequence[Row]) -> str:
    """One table; for a GPU that is not there, a line that says so."""
    columns = TABLES[name]
    chosen = [row for row in rows if row["bench"] == name]
    lines = [_line(list(columns)), _line(["---"] * len(columns))]
    for device in ("cpu", "cuda"):
        found = [row for row in chosen if row["device"] == device]
        ordered = sorted(found, key=lambda row: row["threads"]) if device == "cpu" else found
        lines += [_line([cell(row) for cell in columns.values()]) for row in ordered]
        if device == "cuda" and not found:
            lines.append(_line(["on a GPU: not run", *[""] * (len(columns) - 1)]))
    return "\n".join(lines)


def refresh_readme(path: Path, rows: Sequence[Row]) -> None:
    """Put every table and the machine between their markers in the file."""
    for name in TABLES:
        write_block(path, name, table(name, rows) + "\n")
    write_block(path, "machine", machine_lines(rows) + "\n")


def machine_lines(rows: Sequence[Row]) -> str:
    """Where, when and how fast: one line for each machine that measured something."""
    lines = []
    for machine in dict.fromkeys(row["machine"] for row in rows):
        own = [row for row in rows if row["machine"] == machine]
        dates = " and ".join(sorted({row["date"] for row in own}))
        rates = {row["threads"]: row["matmul_gflops"] for row in own if "matmul_gflops" in row}
        spelled = ", ".join(f"{rate:.0f} GFLOP/s on {n}" for n, rate in sorted(rates.items()))
        lines.append(f"- {machine}; measured {dates}; matrix products, by threads: {spelled}")
    return "\n".join(lines)


def row_line(row: Row) -> str:
    """A row for the terminal."""
    if "ours_s" not in row:
        return f"{row['bench']}/{row['case']}: ratio {row['ratio']:.2f}, {row['peer']}"
    return (
        f"{row['bench']}/{row['case']}: ours {row['ours_s']:.4g} s, {row['peer']} "
        f"{row['peer_s']:.4g} s, ratio {row['ratio']:.2f}"
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
