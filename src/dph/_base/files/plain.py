"""Values of a table as JSON knows them."""

import datetime
import decimal
from typing import Any

from dph.errors import DataError


def plain_value(value: Any, place: str) -> Any:
    """A value of a parquet file as JSON; dates and decimals become text.

    Raises:
        DataError: JSON has nothing like it; ``place`` says where it stands.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [plain_value(item, place) for item in value]
        case dict():
            return {str(key): plain_value(item, place) for key, item in value.items()}
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case _:
            raise DataError(f"{place}: JSON has no {type(value).__name__}, got {value!r:.80}")
