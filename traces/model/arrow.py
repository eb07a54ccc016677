"""Arrow, at arm's length: its own annotations are partial, so what comes from it is `Any`.

Everything goes back to typed numpy arrays right behind this border.
"""

from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
ArrowException = pyarrow.ArrowException
# What reading a damaged Parquet file raises: names and values that are no UTF-8, maps with a key
# twice, and times that Python has none for are Python's errors.
UNREADABLE = (ArrowException, OSError, ValueError, KeyError, OverflowError)
