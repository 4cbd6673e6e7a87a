from dph_corpus.signals.javascript import visible_text


def test_scripts_styles_and_comments_are_not_visible():
    text = "<p>a</p><script>b</script><style>c</style><!-- d --><template>e</template>f"
    assert visible_text(text) == "af"


def test_markup_that_is_rejected_has_no_text():
    assert visible_text("<![x<y\n") is None
