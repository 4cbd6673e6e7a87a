import pytest

from lab.benchmarks.natural_world.styles import form_of


@pytest.mark.parametrize(
    ("response", "form"),
    [
        ("select name from singer", "plain"),
        ("select t1 . name from singer as t1", "alias"),
        ("select name from singer where id in ( select id from concert )", "nested"),
        ("select name from a where exists ( select 1 from b where id = a . id )", "exists"),
        ("with c as ( select * from singer where age > 3 ) select name from c", "cte"),
        ("select id from singer except select id from concert", "set"),
        ("select name from singer where name = 'union'", "plain"),
        ("nobody knows", "other"),
    ],
)
def test_the_form_is_read_off_the_structure(response, form):
    assert form_of(response) == form
