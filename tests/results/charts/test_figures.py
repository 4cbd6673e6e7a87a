import pytest

from dph.errors import DataError, SettingsError
from dph.results.charts.figures import draw_quickstart, quickstart_figure
from results.charts.synthetic import NAMES, make_metrics, make_summary


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


@pytest.mark.parametrize("suffix", ["png", pytest.param("pdf", marks=pytest.mark.slow)])
def test_the_same_results_give_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        quickstart_figure(make_summary(NAMES[:2]), make_metrics(NAMES[:2]), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.parametrize("count", [2, 8])
def test_four_panels_with_titles_that_fit_beside_each_other(count):
    names = NAMES[:count]
    figure = draw_quickstart(make_summary(names), make_metrics(names))
    figure.draw_without_rendering()
    assert len(figure.axes) == 4
    assert len(figure.legends) == 1
    right = figure.bbox.x1
    for left_axes, right_axes in (figure.axes[:2], figure.axes[2:]):
        starts = right_axes.get_tightbbox().x0
        assert left_axes._left_title.get_window_extent().x1 < starts + 60
        assert right_axes._left_title.get_window_extent().x1 <= right


def test_titles_say_what_is_seen():
    summary = make_summary(["grpo", "dph_f"])
    figure = draw_quickstart(summary, {})
    assert figure.axes[2].get_xscale() == "log"
    assert list(figure.axes[2].get_xticks()) == [1, 2, 4, 8, 16, 32]
    first, second, third, _ = titles(figure)
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
    assert titles(draw_quickstart(make_summary(names), make_metrics(names)))[1] == title


def test_results_without_styles_or_intervals_can_be_drawn(tmp_path):
    summary = make_summary(["grpo"])
    for model in (summary["base"], summary["methods"]["grpo"]):
        for results in model["sets"].values():
            results |= {"styles": {}, "effective_styles": None, "ci95": {}}
    metrics = {"grpo": [{"step": 1, "effective_styles": None}]}
    quickstart_figure(summary, metrics, tmp_path / "picture.svg")
    assert titles(draw_quickstart(summary, metrics))[0] == "Styles of answering"


def test_another_suffix_and_a_missing_set_are_refused(tmp_path):
    summary = make_summary(["grpo"])
    with pytest.raises(SettingsError, match=r"\.png, \.svg or \.pdf file, got 'picture.gif'"):
        quickstart_figure(summary, {}, tmp_path / "picture.gif")
    del summary["methods"]["grpo"]["sets"]["cross_domain"]
    with pytest.raises(DataError, match="'grpo' was not evaluated on set 'cross_domain'"):
        quickstart_figure(summary, {}, tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == []


def test_more_styles_than_fills_are_drawn_as_other_and_the_bars_stay_whole():
    summary = make_summary(["grpo"])
    many = {f"s{i:02d}": 1 / 64 for i in range(64)}
    summary["base"]["sets"]["in_domain"]["styles"] = many
    summary["methods"]["grpo"]["sets"]["in_domain"]["styles"] = {"s63": 0.9, "s00": 0.1}
    axes = draw_quickstart(summary, {}).axes[0]
    drawn = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(drawn) == 9
    assert {"s00", "s63"} < set(drawn)
    assert drawn[-1] == "other"
    for row in (0, 1):
        widths = [bars.patches[row].get_width() for bars in axes.containers]
        assert sum(widths) == pytest.approx(1)


def test_all_methods_that_are_tied_are_named():
    """At 100%, 100% and 100% no method is the highest; 99.8% is shown as the same."""
    names = ["grpo", "dph_f", "dph_js", "alpha"]
    summary = make_summary(names)
    for name, value in zip(names, (0.8, 1.0, 0.998, 1.0), strict=True):
        summary["methods"][name]["sets"]["in_domain"]["pass_at_k"]["32"] = value
    figure = draw_quickstart(summary, make_metrics(names))
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any("lowest GRPO, highest DPH-F, DPH-JS and Alpha" in text for text in said)
