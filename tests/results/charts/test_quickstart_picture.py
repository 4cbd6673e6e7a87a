"""The quickstart's picture: what its panels draw, what their titles say, and that bytes repeat."""

import pytest

from dph.errors import DataError, SettingsError
from dph.results.charts.quickstart_picture import quickstart_picture
from results.charts.synthetic import NAMES, make_metrics, make_summary


def drawn(summary, metrics, **more):
    return quickstart_picture(summary, metrics, **more).spec


def titles(spec):
    return [" ".join(panel["title"]["text"]) for panel in spec["concat"]]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_results_give_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "abc"]
    for path in paths:
        quickstart_picture(make_summary(NAMES[:2]), make_metrics(NAMES[:2])).save(path)
    assert len({path.read_bytes() for path in paths}) == 1
    assert sorted(tmp_path.iterdir()) == paths


def test_titles_say_what_is_seen_above_four_panels():
    summary = make_summary(["grpo", "dph_f"])
    spec = drawn(summary, {}, headline="GRPO lost.")
    assert spec["title"]["text"] == ["GRPO lost."]
    x = spec["concat"][2]["layer"][0]["encoding"]["x"]
    assert (x["scale"]["type"], x["axis"]["values"]) == ("log", [1, 2, 4, 8, 16, 32])
    first, second, third, _ = titles(spec)
    number = summary["methods"]["grpo"]["sets"]["in_domain"]["effective_styles"]
    assert first.startswith(f"GRPO is left with {number:.1f} of 4.")
    assert second == "DPH-F keeps most styles"
    ends = [
        100 * model["sets"]["in_domain"]["pass_at_k"]["32"]
        for model in (*summary["methods"].values(), summary["base"])
    ]
    assert third == "In domain: Pass@32 {:.0f}% to {:.0f}%, base {:.0f}%".format(*ends)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["grpo"], "No method keeps the base model's styles"),
        (["dph_f", "dph_js"], "DPH-F and DPH-JS keep most styles"),
        (NAMES, "5 of 8 methods keep most styles"),
        ([], "Styles during training"),
    ],
)
def test_the_title_of_training_counts_who_keeps_styles(names, title):
    assert titles(drawn(make_summary(names), make_metrics(names)))[1] == title


def test_results_without_styles_or_intervals_can_be_drawn(tmp_path):
    summary = make_summary(["grpo"])
    for model in (summary["base"], summary["methods"]["grpo"]):
        for results in model["sets"].values():
            results |= {"styles": {}, "effective_styles": None, "ci95": {}}
    made = quickstart_picture(summary, {"grpo": [{"step": 1, "effective_styles": None}]})
    made.save(tmp_path / "picture.svg")
    assert titles(made.spec)[0] == "Styles of answering"
    assert "GRPO" in (tmp_path / "picture.svg").read_text("utf-8")


def test_another_suffix_and_a_missing_set_are_refused(tmp_path):
    summary = make_summary(["grpo"])
    with pytest.raises(SettingsError, match=r"\.png, \.svg or \.pdf file, got 'picture.gif'"):
        quickstart_picture(summary, {}).save(tmp_path / "picture.gif")
    del summary["methods"]["grpo"]["sets"]["cross_domain"]
    with pytest.raises(DataError, match="'grpo' was not evaluated on set 'cross_domain'"):
        quickstart_picture(summary, {})
    assert list(tmp_path.iterdir()) == []


def test_more_styles_than_fills_are_drawn_as_other_and_the_bars_stay_whole():
    summary = make_summary(["grpo"])
    many = {f"s{i:02d}": 1 / 64 for i in range(64)}
    summary["base"]["sets"]["in_domain"]["styles"] = many
    summary["methods"]["grpo"]["sets"]["in_domain"]["styles"] = {"s63": 0.9, "s00": 0.1}
    panel = drawn(summary, {})["concat"][0]
    styles = panel["layer"][0]["encoding"]["fill"]["scale"]["domain"]
    assert len(styles) == 9
    assert {"s00", "s63"} < set(styles)
    assert styles[-1] == "other"
    ends = {row["model"]: row["hi"] for row in panel["data"]["values"] if "hi" in row}
    assert ends == {"Base model": pytest.approx(1), "GRPO": pytest.approx(1)}


def test_all_methods_that_are_tied_are_named():
    """At 100%, 100% and 100% no method is the highest; 99.8% is shown as the same."""
    names = ["grpo", "dph_f", "dph_js", "alpha"]
    summary = make_summary(names)
    for name, value in zip(names, (0.8, 1.0, 0.998, 1.0), strict=True):
        summary["methods"][name]["sets"]["in_domain"]["pass_at_k"]["32"] = value
    said = " ".join(drawn(summary, make_metrics(names))["concat"][2]["title"]["subtitle"])
    assert "lowest GRPO, highest DPH-F, DPH-JS and Alpha" in said


def test_models_that_would_be_called_the_same_stay_apart():
    summary = make_summary(["dph_f"])
    summary["methods"]["DPH-F"] = summary["methods"]["dph_f"]
    colour = drawn(summary, {})["concat"][2]["layer"][0]["encoding"]["color"]["scale"]
    assert colour["domain"] == ["Base model", "dph_f", "DPH-F"]
    assert len(set(colour["range"])) == 3
