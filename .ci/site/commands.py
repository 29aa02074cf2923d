"The command line as a page: every command with its arguments and options, as the program itself knows them."

import re
from typing import Any
import typer
from markup import Page, escape, table
from pages import code


def parameter(p) -> list[str]:
    "An argument or option: how it is written, what it is, its default."
    names = (
        [(p.metavar or p.name or "").upper()]
        if p.param_type_name == "argument"
        else [*p.opts, *p.secondary_opts]
    )
    default = (
        p.default
        if isinstance(p.default, (str, int, float))
        and not isinstance(p.default, bool)
        and p.default
        else ""
    )
    words = re.sub("`([^`]+)`", r"<code>\1</code>", escape(" ".join((p.help or "").split())))
    return [" ".join(code(n) for n in names), words, code(str(default)) if default else ""]


def command(page: Page, name: str, c):
    "A section for a command, and one for each that it has inside."
    page.markdown(f"## {name}\n\n{c.help or ''}")
    shown = [p for p in c.params if not getattr(p, "hidden", False) and p.name != "help"]
    if shown:
        page.add(table(["parameter", "what", "default"], [parameter(p) for p in shown]))
    for inner, x in sorted(getattr(c, "commands", {}).items()):
        command(page, f"{name} {inner}", x)


def commands(site) -> Page:
    "The whole command line."
    from refnb.commands.cli import app

    page = Page(site, "commands.html")
    page.markdown("""# Commands

> Everything that `refnb` does in a shell, with every option; `refnb COMMAND --help` says the same.

All commands print one line when something is wrong and end with status 1 or 2; `--json` prints one JSON object for scripts.""")
    program: Any = typer.main.get_command(app)
    for name in program.list_commands(None):
        command(page, f"refnb {name}", program.commands[name])
    return page
