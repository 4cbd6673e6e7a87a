import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each, table
from dph_corpus.transform.cleaning import clean

ADDRESSES = [
    *("host = {}", "server_ip: {}", "ping {}", "http://{}/x", "{}:8080", "allow {};", "ssh a@{}"),
    *("nameserver {}", "clientIp={}", "bind_address={}", "{} - - [10/Oct/2000:13:55:36] GET"),
    *('peers = ["93.184.216.34", "{}"]', "upstream a { server {}:80; }", "{}/24"),
]


@each(("language", "text"), table("transform/cases.toml")["no_address"])
def test_versions_sections_and_identifiers_stay(language, text):
    assert clean(text, language).text == text


@pytest.mark.parametrize("line", ADDRESSES)
@pytest.mark.parametrize("quad", ["5.9.40.12", "23.21.67.48", "93.184.216.34"])
def test_an_address_that_is_named_goes_however_small_its_numbers(line, quad):
    assert quad not in clean(line.replace("{}", quad) + "\n", "text").text


@given(st.ip_addresses(v=4, network="0.0.0.0/0"))
def test_an_address_alone_goes_if_a_number_reaches_a_hundred(address):
    text = f"x: {address}\n"
    routed = ipaddress.ip_address(address).is_global and not address.is_multicast
    gone = clean(text, "text").text != text
    assert gone == (routed and max(address.packed) >= 100) or text.split()[1] == "208.67.222.222"
