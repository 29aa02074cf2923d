"What is refused says so in one line."

import pytest
from refnb.core.types import RefnbError


def refused(call, *parts: str, kind: type[RefnbError] = RefnbError) -> str:
    "The one line with which a call is refused; it holds these parts."
    with pytest.raises(kind) as e:
        call()
    line = str(e.value)
    assert "\n" not in line and len(line) <= 300 and all(p in line for p in parts), line
    return line
