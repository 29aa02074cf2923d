"What holds for every module of the package."

import ast, importlib.resources, pkgutil
from pathlib import Path
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


def test_the_package_is_marked_as_typed():
    assert importlib.resources.files("refnb").joinpath("py.typed").is_file()
