import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.transform.cleaning import clean

NO_ADDRESS = {
    "object identifiers": ("python", 'OIDS = {"2.5.29.15": "usage", "2.5.29.19": "basic"}\n'),
    "a mapping": ("python", 'mapping = {"2.5.4.10": "O"}\n'),
    "a section": ("c", "/* see section 4.2.1.104 of the hosts RFC */\n"),
    "a standard": ("c", "/* RFC 1122 4.2.2.20: hosts may */\n"),
    "a paragraph": ("text", "Hosts: § 3.1.2.200 applies.\n"),
    "a heading with a date": ("markdown", "## [1.0.0.128] - 2021-02-03\n"),
    "a date in brackets": ("restructuredtext", "4.0.0.200 (2021-02-03)\n------\n"),
    "an assembly": ("csharp", '[assembly: AssemblyFileVersion("4.6.1.120")]\n'),
    "pins": ("text", "a==1.2.3.104\nb>=2.0.1.130\nc~=1.1.1.102\n"),
    "a list of versions": ("json", '{"versions": ["1.0.0.100", "1.0.0.101"]}\n'),
    "an element": ("xml", "<Version>1.2.3.104</Version>\n"),
    "an enzyme": ("text", "EC 3.2.1.108 is lactase.\n"),
    "a product": ("text", "Data Server 12.2.1.3 is out.\n"),
    "a path": ("html", '<path d="m0 1 0 0 1.5.75.75 0"/>\n'),
    "CVS": ("text", "$Revision: 1.14.2.103 $\n"),
}
ADDRESSES = [
    *("host = {}", "server_ip: {}", "ping {}", "http://{}/x", "{}:8080", "allow {};", "ssh a@{}"),
    *("nameserver {}", "clientIp={}", "bind_address={}", "{} - - [10/Oct/2000:13:55:36] GET"),
    *('peers = ["93.184.216.34", "{}"]', "upstream a { server {}:80; }", "{}/24"),
]


@pytest.mark.parametrize(("language", "text"), NO_ADDRESS.values(), ids=NO_ADDRESS)
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
