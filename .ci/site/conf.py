"Sphinx's configuration; `build.py` makes the pages that it reads, and calls it."
import inspect, re
from docutils import nodes
from fastcore.docments import docments
from latex2mathml.converter import convert

project = html_title = "refnb"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["files"]  # what pages link to, and no pages themselves
smartquotes_action = "D"      # dashes, which the API's lists need; quotation marks stay as they are
nb_execution_mode = "off"     # outputs are those of the notebooks
nb_ipywidgets_js = {}         # they would come from another host
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_theme_options = dict(use_fullscreen_button=False, use_download_button=False, use_source_button=False, pygments_light_style="tango",
    navbar_start=[], navbar_center=[], navbar_end=[], navbar_persistent=[], footer_content_items=[],
    collapse_navbar=True)  # all pages in the navigation of every page would take a third of the building time
html_context = {"default_mode": "auto"}  # without it the theme complains on the console of every first visit
html_static_path, html_css_files, html_favicon = ["static"], ["refnb.css"], "static/favicon.svg"
html_copy_source = html_show_sphinx = html_show_copyright = False
html_last_updated_fmt = None
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 70
add_module_names = False
python_use_unqualified_type_names = True
python_display_short_literal_types = True


# The API: comments beside parameters and fields

def comments(obj) -> dict[str, str]:
    "The comment beside each parameter or field: docments for functions and ordinary classes, source lines for records."
    if inspect.isclass(obj) and "__init__" not in vars(obj):
        found = (re.match(r"    (\w+)\s*:[^#]+#\s*(.+)$", line) for line in inspect.getsource(obj).splitlines())
        return {m[1]: m[2] for m in found if m}
    return {k: v for k, v in docments(obj).items() if v and k != "self"}

def literal(text: str) -> str:
    "Docstrings and comments are Markdown with little in it; Sphinx reads them as its own markup."
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(f"``{p.strip()}``" if i % 2 else re.sub(r"([*|_\\])", r"\\\1", p) for i, p in enumerate(parts))

def add_comments(app, what, name, obj, options, lines):
    lines[:] = [literal(line) for line in lines]
    if what not in ("function", "method", "class", "exception"): return
    try: got = comments(obj)
    except (OSError, TypeError): return
    if got and lines and lines[-1]: lines.append("")
    lines += [f":returns: {literal(v)}" if k == "return" else f":param {k}: {literal(v)}" for k, v in got.items()]

def skip(app, what, name, obj, skipped, options):
    "Fields stand with the class, constants below the functions."
    plain = callable(obj) or isinstance(obj, (property, classmethod, staticmethod))
    return True if not plain or not getattr(obj, "__module__", "refnb").startswith("refnb") else None


# Formulas as MathML: no script, no other host. Every current browser draws it.

def formula(node, display: str) -> str: return convert(node.astext(), display=display)

def inline(self, node):
    self.body.append(formula(node, "inline"))
    raise nodes.SkipNode

def block(self, node):
    self.body.append(f'<div class="math">{formula(node, "block")}</div>')
    raise nodes.SkipNode

def setup(app):
    app.connect("autodoc-process-docstring", add_comments)
    app.connect("autodoc-skip-member", skip)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return dict(parallel_read_safe=True, parallel_write_safe=True)
