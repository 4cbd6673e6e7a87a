from dph.results.report.chart import marked


def test_characters_that_nobody_sees_are_written_out():
    assert marked("a\u202eb\u200b\x07") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+0007⟩"


def test_what_can_be_seen_stays():
    text = "SELECT 'Zürich', 名 FROM t\n\tWHERE x > 1 🙂"
    assert marked(text) == text
