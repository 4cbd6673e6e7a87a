import pytest

from dph.corpus.transform.notices import without_notice

CASES = {
    "lines": ("python", "# Copyright 2020 A. Person\n# All rights reserved.\n\nx = 1\n", "x = 1\n"),
    "after a hashbang": (
        "shell",
        "#!/bin/sh\n# Copyright (c) 2020 A. Person\n#\n# Licensed under the MIT License.\necho\n",
        "#!/bin/sh\necho\n",
    ),
    "an encoding amid the notice": (
        "python",
        "# Copyright 2020 A. Person\n# -*- coding: utf-8 -*-\nx = 1\n",
        "# -*- coding: utf-8 -*-\nx = 1\n",
    ),
    "a block": ("c", "/*\n * Copyright 2020 A\n */\n\nint x;\n", "int x;\n"),
    "a block that says more": (
        "c",
        "/* Copyright 2020 A\n *\n * Sorts numbers.\n */\nint x;\n",
        "/*\n * Sorts numbers.\n */\nint x;\n",
    ),
    "lines that say more": (
        "go",
        "// Sorts numbers.\n//\n// Copyright 2020 The Authors\n\npackage a\n",
        "// Sorts numbers.\n//\n\npackage a\n",
    ),
    "two notices": ("sql", "-- Copyright 2019 A\n\n-- (c) 2020 B\nSELECT 1;\n", "SELECT 1;\n"),
    "a short tag": ("javascript", "// SPDX-License-Identifier: MIT\nf();\n", "f();\n"),
    "markup": ("html", "<!-- Copyright 2020 A -->\n<p>x</p>\n", "<p>x</p>\n"),
}


@pytest.mark.parametrize(("language", "text", "expected"), CASES.values(), ids=CASES)
def test_a_leading_notice_goes_and_the_rest_stays(language, text, expected):
    assert without_notice(text, language) == expected
    assert without_notice(expected, language) == expected


KEPT = {
    "about licences": ("python", "# Finds the license of a package.\nx = 1\n"),
    "not at the head": ("c", "int x;\n/* Copyright 2020 A */\n"),
    "a doc string": ("python", '"""Copyright 2020 A"""\n'),
    "a heading": ("markdown", "# Copyright 2020 A\n"),
    "an open block": ("c", "/* Copyright 2020 A\nint x;\n"),
    "code on the same line": ("c", "/* Copyright 2020 A */ int x;\n"),
    "nothing": ("c", ""),
}


@pytest.mark.parametrize(("language", "text"), KEPT.values(), ids=KEPT)
def test_what_is_no_leading_notice_stays(language, text):
    assert without_notice(text, language) == text
