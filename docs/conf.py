"""How the documentation becomes a site; run by ``make docs``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from gangline import __version__

project = "Gangline"
author = "The Gangline authors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "documented_code", "rest_reference"]
exclude_patterns = ["_extensions"]
nitpicky = False  # Annotations name types of other libraries, whose sites are not asked: the build needs no network.

# Pages are written for people who read them in the repository, so links are to files and headings as GitHub names them.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"Gangline {__version__}"
html_show_sourcelink = False
html_copy_source = False
