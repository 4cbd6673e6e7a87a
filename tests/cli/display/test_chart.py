from dph.cli.display.pool import BAR_WIDTH, bar_chart


def test_the_longest_bar_has_the_full_width_and_no_count_disappears():
    lines = bar_chart(["0", "1", "2"], [1000, 0, 1]).splitlines()
    assert [line.count("#") for line in lines] == [BAR_WIDTH, 0, 1]


def test_small_counts_are_one_mark_each():
    assert [line.count("#") for line in bar_chart(["0", "1"], [3, 5]).splitlines()] == [3, 5]


def test_nothing_to_chart_is_empty():
    assert bar_chart([], []) == ""
