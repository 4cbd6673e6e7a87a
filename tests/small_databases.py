"""A database of three rows."""

import sqlite3
from contextlib import closing


def make_shop(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE item (name TEXT PRIMARY KEY, price REAL, code BLOB)")
        rows = [("pen", 1.5, None), ("inké", 2.5, b"\0"), ("pad", 3.0, None)]
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
