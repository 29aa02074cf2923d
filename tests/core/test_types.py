"Hints of every module can be read, and the package says that it has types."

import importlib, inspect, pkgutil, typing
import pytest
import refnb

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(refnb.__path__, "refnb.")
    if not m.ispkg and not m.name.endswith("_modidx")
)


def unreadable(thing: object) -> str:
    "Why the hints of a function or class cannot be read, or nothing."
    try:
        typing.get_type_hints(thing)
    except Exception as e:
        return f"{thing}: {e}"
    return ""


@pytest.mark.parametrize("name", MODULES)
def test_hints_can_be_read(name):
    module = importlib.import_module(name)
    own = [
        x
        for x in vars(module).values()
        if inspect.getmodule(x) is module and (inspect.isfunction(x) or inspect.isclass(x))
    ]
    methods = [
        m for x in own if inspect.isclass(x) for m in vars(x).values() if inspect.isfunction(m)
    ]
    assert not [why for x in [*own, *methods] if (why := unreadable(x))]


def test_the_package_is_marked_as_typed():
    assert importlib.resources.files("refnb").joinpath("py.typed").is_file()
