"""The quickstart's picture: what its panels draw, what their titles say, and that bytes repeat."""

import pytest

from dph.errors import DataError, SettingsError
from dph.results.charts.picture import quickstart_picture
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
    first, _, third, _ = titles(spec)
    number = summary["methods"]["grpo"]["sets"]["in_domain"]["effective_styles"]
    assert first.startswith(f"GRPO is left with {number:.1f} of 4.")
    ends = [
        100 * model["sets"]["in_domain"]["pass_at_k"]["32"]
        for model in (*summary["methods"].values(), summary["base"])
    ]
    assert third == "In domain: Pass@32 {:.0f}% to {:.0f}%, base {:.0f}%".format(*ends)


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
    for name in ("Base model", "GRPO"):
        shares = [row["share"] for row in panel["data"]["values"] if row["model"] == name]
        assert sum(shares) == pytest.approx(1)


def test_models_that_would_be_called_the_same_stay_apart():
    summary = make_summary(["dph_f"])
    summary["methods"]["DPH-F"] = summary["methods"]["dph_f"]
    colour = drawn(summary, {})["concat"][2]["layer"][0]["encoding"]["color"]["scale"]
    assert colour["domain"] == ["Base model", "dph_f", "DPH-F"]
    assert len(set(colour["range"])) == 3
