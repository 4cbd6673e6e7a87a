import pytest

from dph_corpus.signals.split import split_text


def test_preprocessor_lines_are_code_and_comments_are_not():
    split = split_text("#define A 1\nint x; // one\n/* two */\n", "c")
    assert split.code == "#define A 1\nint x; \n"
    assert split.comments == "// one\n/* two */"


def test_python_that_does_not_parse_is_lexed_all_the_same():
    split = split_text("print 'a'  # b\n", "python")
    assert (split.comments, split.scanned) == ("# b", False)


def test_a_language_without_a_lexer_is_comment_from_the_first_hash_on():
    split = split_text("*.o\n# objects\n*.a\n", "ignore list")
    assert (split.code, split.comments, split.lexed) == ("*.o\n", "# objects\n*.a\n", False)


def test_a_block_ends_where_it_says_so():
    split = split_text("/* a\nb\nc */\nd\n", "ignore list")
    assert (split.code, split.comments) == ("d\n", "/* a\nb\nc */\n")


def test_perl_has_documentation_up_to_cut():
    split = split_text("my $x;\n=pod\ntext\n=cut\n# c\nmy $y;\n", "perl")
    assert split.code == "my $x;\nmy $y;\n"


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "(" * 10_000, "\ufeff" * 3])
@pytest.mark.parametrize("language", ["c", "python", "html", "sql", "perl", "unheard of"])
def test_no_text_breaks_the_split(text, language):
    split = split_text(text, language)
    assert len(split.code) + len(split.comments) <= len(text) + 1
