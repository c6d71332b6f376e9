"""Hooks of MkDocs: the site has the pages of docs and the documents at the top of the tree.

Its navigation is what docs/README.md lists. Links are written for those who read the files, so they
are turned into links between pages; a link to a file that is no page becomes its text.
"""

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

logger = logging.getLogger("mkdocs.hooks")

ROOT = Path(__file__).parents[2]
TOP = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Documents that are pages, too."""
INDEX = "README.md"
PROJECT = "project.md"
"""The page of the tree's own README."""

_ENTRY = re.compile(r"^\* \[(?P<title>[^\]]+)\]\((?P<link>[^)]+)\)")
_LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<link>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    groups: list[Any] = [{"Overview": INDEX}]  # Any: what MkDocs takes
    for line in Path(config.docs_dir, INDEX).read_text().splitlines():
        if line.startswith("## "):
            groups.append({line.removeprefix("## "): []})
        elif (found := _ENTRY.match(line)) is not None:
            (entries,) = groups[-1].values()
            entries.append({found["title"]: _page_of(_path_of(found["link"], INDEX))})
    config.nav = groups
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the top of the tree."""
    for page, name in {PROJECT: INDEX, **{name: name for name in TOP}}.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files into links between pages."""
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda found: _linked(found, page.file, files), p) for p in parts[::2]]
    return "".join(parts)


def _linked(found: re.Match[str], file: File, files: Files) -> str:
    link = found["link"]
    if "://" in link or link.startswith("mailto:"):
        return found[0]
    path = _path_of(link, file.src_uri)
    if not (ROOT / path).exists():
        logger.warning("%s: the link to '%s' leads nowhere", file.src_uri, link)
        return found[0]
    target = _page_of(path)
    if target is None or (files.get_file_from_path(target) is None and not found["mark"]):
        return found["text"]
    here = posixpath.dirname(file.src_uri) or "."
    to = posixpath.relpath(target, here)
    return f"{found['mark']}[{found['text']}]({to}{found['anchor'] or ''})"


def _path_of(link: str, source: str) -> str:
    """Return the path in the tree that a link of a page leads to."""
    is_top = source in (*TOP, PROJECT)
    directory = "" if is_top else posixpath.join("docs", posixpath.dirname(source))
    return posixpath.normpath(posixpath.join(directory, link))


def _page_of(path: str) -> str | None:
    """Return the page, or picture, of a file; None if it is none."""
    if os.path.isdir(ROOT / path):
        path = posixpath.join(path, INDEX)
    if path == INDEX:
        return PROJECT
    if path in TOP:
        return path
    return path.removeprefix("docs/") if path.startswith("docs/") else None
