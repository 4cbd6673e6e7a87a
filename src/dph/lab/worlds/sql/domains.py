"""Subjects of the quickstart world's databases: names, business terms, text values."""

from dataclasses import dataclass

CITIES = ("Lima", "Oslo", "Cairo", "Kyoto", "Quito", "Rome", "Delhi", "Perth")
COUNTRIES = ("Peru", "Norway", "Egypt", "Japan", "Chile", "Italy", "India", "Kenya")
COLOURS = ("red", "blue", "green", "white", "black", "amber", "grey", "pink")
PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo")
TEXT_POOLS = (CITIES, COUNTRIES, COLOURS, PEOPLE)

KEY = "key"
"""The column that joins the two tables of every database; the first table's primary key."""


@dataclass(frozen=True, slots=True)
class DomainColumn:
    """A column and the business term that questions use instead of its name."""

    name: str
    term: str
    values: tuple[str, ...] = ()
    """What a text column holds; empty for a numeric column."""

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class DomainTable:
    """A table without its key column: its numeric columns, then its text column."""

    name: str
    columns: tuple[DomainColumn, ...]

    @property
    def numeric(self) -> tuple[DomainColumn, ...]:
        """The columns that hold whole numbers."""
        return tuple(column for column in self.columns if not column.is_text)

    @property
    def text(self) -> DomainColumn:
        """The one column that holds text."""
        return next(column for column in self.columns if column.is_text)


@dataclass(frozen=True, slots=True)
class Domain:
    """A database: a table and a second one whose rows refer to it by the key."""

    name: str
    first: DomainTable
    second: DomainTable

    @property
    def tables(self) -> tuple[DomainTable, DomainTable]:
        """Both tables, the one that is referred to first."""
        return self.first, self.second

    @property
    def columns(self) -> tuple[DomainColumn, ...]:
        """The columns of both tables, without the key."""
        return self.first.columns + self.second.columns

    @property
    def schema(self) -> str:
        """The schema as prompts show it."""
        return " ".join(
            f"{table.name} ( {KEY} {' '.join(c.name for c in table.columns)} )"
            for table in self.tables
        )


def _table(
    name: str, numeric: dict[str, str], text: tuple[str, str, tuple[str, ...]]
) -> DomainTable:
    return DomainTable(
        name, (*(DomainColumn(*item) for item in numeric.items()), DomainColumn(*text))
    )


DOMAINS = (
    Domain(
        "music",
        _table(
            "singer",
            {"age": "seniority", "fans": "fame", "albums": "output"},
            ("country", "homeland", COUNTRIES),
        ),
        _table("concert", {"seats": "room", "hours": "stamina"}, ("city", "venue", CITIES)),
    ),
    Domain(
        "aviation",
        _table(
            "pilot",
            {"salary": "pay", "landings": "experience", "licences": "qualification"},
            ("hometown", "roots", CITIES),
        ),
        _table("flight", {"passengers": "load", "delay": "lateness"}, ("captain", "chief", PEOPLE)),
    ),
    Domain(
        "cinema",
        _table(
            "movie",
            {"budget": "cost", "minutes": "runtime", "awards": "prestige"},
            ("director", "creator", PEOPLE),
        ),
        _table("screening", {"tickets": "turnout", "price": "fee"}, ("city", "place", CITIES)),
    ),
    Domain(
        "football",
        _table(
            "team",
            {"wins": "success", "goals": "firepower", "trophies": "glory"},
            ("colour", "look", COLOURS),
        ),
        _table("player", {"weight": "bulk", "caps": "selection"}, ("nation", "flag", COUNTRIES)),
    ),
    Domain(
        "library",
        _table(
            "book",
            {"pages": "thickness", "copies": "availability", "loans": "popularity"},
            ("author", "writer", PEOPLE),
        ),
        _table("reader", {"visits": "loyalty", "fines": "debt"}, ("town", "residence", CITIES)),
    ),
    Domain(
        "clinic",
        _table(
            "doctor",
            {"shifts": "workload", "beds": "capacity", "surgeries": "practice"},
            ("surname", "identity", PEOPLE),
        ),
        _table("patient", {"pulse": "heartbeat", "days": "stay"}, ("band", "urgency", COLOURS)),
    ),
    Domain(
        "farming",
        _table(
            "farm",
            {"hectares": "extent", "tractors": "machinery", "cows": "herd"},
            ("country", "soil", COUNTRIES),
        ),
        _table("harvest", {"tonnes": "yield", "rainfall": "wetness"}, ("buyer", "client", PEOPLE)),
    ),
    Domain(
        "navy",
        _table(
            "ship",
            {"guns": "armament", "crew": "complement", "knots": "pace"},
            ("port", "harbour", CITIES),
        ),
        _table("battle", {"losses": "toll", "hits": "accuracy"}, ("winner", "victor", COUNTRIES)),
    ),
    Domain(
        "railway",
        _table(
            "train",
            {"carriages": "extension", "stops": "slowness", "horsepower": "muscle"},
            ("livery", "paint", COLOURS),
        ),
        _table("journey", {"miles": "reach", "riders": "crowd"}, ("terminus", "target", CITIES)),
    ),
    Domain(
        "school",
        _table(
            "teacher",
            {"lessons": "duty", "years_employed": "tenure", "degrees": "learning"},
            ("house", "allegiance", COLOURS),
        ),
        _table("pupil", {"absences": "truancy", "marks": "merit"}, ("mentor", "guide", PEOPLE)),
    ),
    Domain(
        "trade",
        _table(
            "shop",
            {"staff": "workforce", "rent": "lease", "sales": "turnover"},
            ("town", "address", CITIES),
        ),
        _table("product", {"stock": "supply", "discount": "saving"}, ("shade", "tint", COLOURS)),
    ),
    Domain(
        "hospitality",
        _table(
            "hotel",
            {"rooms": "offer", "stars": "rating", "floors": "height"},
            ("manager", "host", PEOPLE),
        ),
        _table(
            "guest", {"nights": "sojourn", "bill": "spending"}, ("passport", "origin", COUNTRIES)
        ),
    ),
)
"""Terms are unique over all domains, so a term names one column; column names may repeat."""
