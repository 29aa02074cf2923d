"What holds for every module of the package."

import ast, importlib, inspect, pkgutil, typing
from pathlib import Path
import pytest
import refnb

SOURCES = list(Path(refnb.__file__).parent.rglob("*.py"))
MODULES = [m.name for m in pkgutil.walk_packages(refnb.__path__, "refnb.") if not m.ispkg]
PICKLES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
UNSAFE = {"read_pickle", "to_pickle", "unsafe_load", "full_load"}


def test_nothing_is_pickled():
    assert len(SOURCES) > 5
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    names = {n.name.split(".")[0] for n in node.names}
                case ast.ImportFrom(module=str(), level=0):
                    names = {node.module.split(".")[0]}
                case ast.Attribute():
                    names = {node.attr} & UNSAFE
                case _:
                    continue
            assert not names & (PICKLES | UNSAFE | {"dbm"}), path


@pytest.mark.full  # loads everything; mypy looks at the hints themselves
def test_hints_of_every_module_can_be_read():
    for name in MODULES:
        module = importlib.import_module(name)
        own = [x for x in vars(module).values() if inspect.getmodule(x) is module]
        classes = list(filter(inspect.isclass, own))
        for x in [*filter(inspect.isfunction, own), *classes]:
            typing.get_type_hints(x)
        for method in (m for c in classes for m in vars(c).values() if inspect.isfunction(m)):
            typing.get_type_hints(method)


def test_the_package_is_marked_as_typed():
    assert importlib.resources.files("refnb").joinpath("py.typed").is_file()
