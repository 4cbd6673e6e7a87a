import csv
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from dph.cli import main
from dph.errors import DataError, SettingsError
from dph.recipe import load_recipe, resolve_recipe, save_recipe
from dph.results.charts.text_table import latex
from dph.results.paper import paper_figure, paper_table, strengths_on
from dph.results.paper_models import FigureRequest, read_models, read_progress
from dph.runs.evaluate.progress_file import PROGRESS, progress_row, write_progress_file
from report_runs import answers, make_runs

SMALL = {"in_domain": 12, "cross_domain": 5}


@pytest.fixture
def runs(small_runs, tmp_path):
    """The small runs, to be changed."""
    return Path(shutil.copytree(small_runs, tmp_path / "runs"))


@pytest.fixture
def strengths(runs):
    """``dph_f`` at the strengths 0.1 and 1, each with the same base model."""
    shutil.copytree(runs / "dph_f", runs / "strong")
    (runs / "dph_f").rename(runs / "weak")
    for name, weight in (("weak", 0.1), ("strong", 1.0)):
        table = load_recipe(runs / name / "recipe.toml").model_dump(mode="json")
        table["objective"]["anchors"]["rehearsal"]["weight"] = weight
        save_recipe(resolve_recipe(table), runs / name / "recipe.toml")
    return runs


def measure(run, method, seed=0):
    """``progress.parquet`` of four steps: 2, 4, 6 and 8 of 8 right in every problem."""
    rows = []
    for step, right in ((0, 2), (10, 4), (20, 6), (30, 8)):
        for i in range(4):
            group = answers("in_domain", f"in_domain-{2 * i + 2:04d}", method, 8, seed)[1:]
            row = progress_row(step, "in_domain", group, None, None)
            rows.append(row | {"correct": right})
    write_progress_file(
        run / "progress.parquet", pa.Table.from_pylist(rows, schema=PROGRESS), digest="x"
    )


def drawn(kind, runs, **options):
    """The panels of a figure."""
    return paper_figure(kind, FigureRequest(places=[runs], **options)).picture.spec["concat"]


def line_of(panel, name):
    """X and value of a line."""
    return [(row["x"], row["value"]) for row in panel["data"]["values"] if row["run"] == name]


def test_one_command_makes_a_figure_and_the_same_runs_give_the_same_bytes(small_runs, tmp_path):
    paths = [tmp_path / f"{name}.svg" for name in "ab"]
    for path in paths:
        assert main(["figure", "pass-at-k", str(small_runs), "--out", str(path)]) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_there_is_a_panel_a_set_and_a_line_a_model_with_a_band(small_runs):
    panels = drawn("pass-at-k", small_runs)
    assert [panel["title"]["text"] for panel in panels] == [["In domain"], ["Cross domain"]]
    for panel in panels:
        rows = panel["data"]["values"]
        assert list(dict.fromkeys(row["run"] for row in rows)) == ["Base model", "DPH-F", "GRPO"]
        assert all(row["lo"] <= row["value"] <= row["hi"] for row in rows)
        assert panel["layer"][0]["mark"]["type"] == "area"
    of_base = (
        read_models(FigureRequest(places=[small_runs])).models[0].sets["in_domain"]["pass_at_k"]
    )
    assert line_of(panels[0], "Base model") == [(int(k), value) for k, value in of_base.items()]


def test_k_cuts_the_curve_and_sets_are_chosen_by_name(small_runs):
    [panel] = drawn("pass-at-k", small_runs, k=4, sets=("cross_domain",))
    assert [x for x, _ in line_of(panel, "GRPO")] == [1, 2, 4]
    with pytest.raises(SettingsError, match="k=99, samples=8"):
        drawn("pass-at-k", small_runs, k=99)
    with pytest.raises(DataError, match="no Pass@3, only of k = 1, 2, 4, 8"):
        drawn("pass-at-k", small_runs, k=3)


def test_a_style_has_one_colour_in_all_panels_and_bars_are_whole(small_runs):
    colours = []
    for panel in drawn("styles", small_runs):
        fill = panel["layer"][0]["encoding"]["fill"]["scale"]
        colours.append(dict(zip(fill["domain"], fill["range"], strict=True)))
        for name in ("Base model", "DPH-F", "GRPO"):
            shares = [row["share"] for row in panel["data"]["values"] if row["model"] == name]
            assert sum(shares) == pytest.approx(1)
    assert set(colours[0]) == {"plain", "cte", "nested"}
    assert len(set(colours[0].values())) == 3
    assert colours[0] == colours[1]


def test_kept_and_gained_need_two_draws_of_k_samples_in_figure_and_table(small_runs):
    rows = drawn("retention", small_runs, k=4)[0]["data"]["values"]
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["Base model", "DPH-F", "GRPO"]
    assert {row["metric"] for row in rows} == {"kept", "gained"}
    with pytest.raises(DataError, match="two draws of 8 samples"):
        drawn("retention", small_runs)
    table = paper_table("retention", FigureRequest(places=[small_runs]), [4])
    assert table.columns[1:3] == ("in domain: keep", "in domain: explore")
    with pytest.raises(SettingsError, match="takes one k"):
        paper_table("retention", FigureRequest(places=[small_runs]), [4, 8])
    with pytest.raises(DataError, match="two draws of 8 samples"):
        paper_table("retention", FigureRequest(places=[small_runs]))


def test_strengths_of_a_method_are_a_line_over_them_and_one_is_no_ablation(strengths, small_runs):
    first = drawn("eta", strengths)[0]
    x = first["layer"][0]["encoding"]["x"]
    assert (x["scale"]["type"], x["axis"]["values"]) == ("log", [0.1, 1.0])
    found = strengths_on(read_models(FigureRequest(places=[strengths])), "in_domain")
    assert list(found) == ["dph_f"]
    greedy = [row for row in first["data"]["values"] if row["metric"] == "greedy"]
    assert [row["value"] for row in greedy] == [of["greedy"] for of in found["dph_f"].values()]

    with pytest.raises(DataError, match="a method at two strengths or more"):
        drawn("eta", small_runs)
    with pytest.raises(DataError, match="two strengths or more"):
        paper_table("eta", FigureRequest(places=[small_runs]))


def test_progress_is_pass_at_8_over_the_measured_steps(runs):
    measure(runs / "grpo", "grpo")
    found = read_progress(FigureRequest(places=[runs]))
    assert list(found.runs) == ["grpo"]
    assert found.notes == (f"{runs / 'dph_f'}: no progress.parquet",)
    values = {s: of["pass_at_k"]["8"] for s, of in found.on("in_domain")["grpo"].items()}
    assert values == {0: 1.0, 10: 1.0, 20: 1.0, 30: 1.0}
    line = dict(line_of(drawn("progress", runs, k=2)[0], "GRPO"))
    # Pass@2 = 1 - C(8 - c, 2) / C(8, 2) for c = 2, 4, 6, 8.
    wanted = [1 - wrong / 28 for wrong in (15, 6, 1, 0)]
    assert list(line) == [0, 10, 20, 30]
    assert list(line.values()) == pytest.approx(wanted)


def test_progress_without_a_file_of_it_is_what_the_log_says(runs, tmp_path):
    run = Path(shutil.copytree(runs / "dph_f", tmp_path / "trl"))
    (run / "recipe.toml").unlink()
    rows = [
        {"step": step}
        | {f"eval/dev/pass_at_{k}{end}": share / k for k in (1, 8) for end in ("", "_lo", "_hi")}
        for step, share in ((0, 0.25), (10, 0.5))
    ]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = paper_figure("progress", FigureRequest(places=[run]))
    (panel,) = found.picture.spec["concat"]
    assert line_of(panel, "trl") == [(0, 0.25 / 8), (10, 0.5 / 8)]
    with pytest.raises(DataError, match=r"there is no Pass@2, only of k = 1, 8"):
        read_progress(FigureRequest(places=[run], k=2))
    made = make_runs(tmp_path / "seeds", sets={"in_domain": 4}, methods=("grpo",), seeds=(0, 1))
    for seed in (0, 1):
        shutil.copyfile(run / "metrics.jsonl", made / f"grpo_{seed}" / "metrics.jsonl")
    assert line_of(drawn("progress", made)[0], "GRPO") == [(0, 0.25 / 8), (10, 0.5 / 8)]


def test_what_was_not_measured_is_said(small_runs, capsys, tmp_path):
    out = str(tmp_path / "f.png")
    assert main(["figure", "progress", str(small_runs), "--out", out]) == 2
    assert "no run was measured while it trained" in capsys.readouterr().err
    assert main(["figure", "styles", str(small_runs), "--out", out, "-k", "3"]) == 2
    assert "-k has no meaning for styles" in capsys.readouterr().err
    assert main(["figure", "styles", str(small_runs), "--out", str(tmp_path / "f.gif")]) == 2
    assert "got 'f.gif'" in capsys.readouterr().err
    assert not list(tmp_path.glob("f.*"))


def test_a_table_has_a_row_a_model_with_intervals_in_three_formats(small_runs, capsys, tmp_path):
    assert main(["table", "scores", str(small_runs)]) == 0
    text = capsys.readouterr().out
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["Base model", "DPH-F", "GRPO"]
    of_grpo = read_models(FigureRequest(places=[small_runs])).models[2].sets["in_domain"]
    low, high = of_grpo["ci95"]["greedy"]
    cell = f"{100 * of_grpo['greedy']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    assert cell in rows[-1]
    out = tmp_path / "t.csv"
    assert main(["table", "scores", str(small_runs), "--format", "csv", "--out", str(out)]) == 0
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))[-1]
    ends = (found["in domain: greedy low"], found["in domain: greedy high"])
    assert float(found["in domain: greedy"]) == pytest.approx(100 * of_grpo["greedy"], rel=1e-9)
    assert [*map(float, ends)] == pytest.approx([100 * low, 100 * high], rel=1e-9)
    for name, cell in found.items():
        assert name == "method" or float(cell) >= 0
    table = paper_table("scores", FigureRequest(places=[small_runs]), [2])
    assert "in domain: pass@2" in table.columns
    assert r"\toprule" in latex(table)


def test_a_table_as_json_has_its_cells_by_column(strengths, capsys):
    assert main(["table", "eta", str(strengths), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["strength"]) for row in document["rows"]] == [
        ("DPH-F", "0.1"),
        ("DPH-F", "1"),
    ]


def test_other_tasks_are_sets_with_a_grader_of_their_own(runs):
    with pytest.raises(DataError, match="no set has its own grader"):
        paper_table("elsewhere", FigureRequest(places=[runs]))
    for name in ("grpo", "dph_f"):
        table = load_recipe(runs / name / "recipe.toml").model_dump(mode="json")
        table["data"]["sets"]["cross_domain"]["verifier"] = "number"
        save_recipe(resolve_recipe(table), runs / name / "recipe.toml")
    asked = FigureRequest(places=[runs])
    assert all("in domain" not in c for c in paper_table("elsewhere", asked).columns)
    assert all("cross domain" not in c for c in paper_table("scores", asked).columns)
