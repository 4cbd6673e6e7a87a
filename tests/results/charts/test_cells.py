from dph.results.charts.text_table import duration


def test_durations_are_readable():
    assert [duration(s) for s in (0, 59.94, 60, 3599, 3600)] == [
        "0.0 s",
        "59.9 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
    ]
