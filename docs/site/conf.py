"""Settings of Sphinx, which makes the site from the pages that `build.py` collects."""

from pathlib import Path

project = "dragoman"
author = "dragoman contributors"
copyright = author
extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_title = "dragoman"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
suppress_warnings = ["misc.highlighting_failure"]  # output of commands and JSON with ellipses
