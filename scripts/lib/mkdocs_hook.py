"""What mkdocs does not do by itself (mkdocs.yml, `hooks`).

The files of the site have the paths of the repository, so links that work on a Git hoster work in the site. Pages are the Markdown files of the
root and of docs/, the manual pages, and what these link to; other linked files are copied. A link to nothing is a warning, which `--strict`
makes an error."""

import html
import logging
import os
import pathlib
import posixpath
import re
import subprocess

from mkdocs.structure.files import File, Files
from mkdocs.structure.toc import AnchorLink

LOG = logging.getLogger("mkdocs.hooks")
ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUALS = {page.name: page for page in sorted((ROOT / "docs/man").iterdir())}
SECTIONS = {"Manual pages: commands": lambda name: name.startswith(("sarus.1", "sarus-")),
            "Manual pages: hooks": lambda name: name.endswith("_hook.1") and "podman" not in name,
            "Manual pages: podman-hpc": lambda name: name.startswith(("podman", "fuse-overlayfs")),
            "Manual pages: files": lambda name: name.endswith(".5") and "podman" not in name}
JQUERY = "js/jquery-3.6.0.min.js"
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


class Manual(File):
    """A manual page: sarus.json.5 becomes sarus.json.5.html."""

    def __init__(self, uri, root, site, _):
        super().__init__(uri, root, site, use_directory_urls=False)
        self.name = posixpath.basename(uri)
        self.dest_uri = self.url = f"{uri}.html"
        self.abs_dest_path = os.path.join(site, self.dest_uri)

    def is_documentation_page(self):
        return True


def shown(manual):
    """sarus-run.1: sarus-run(1)"""
    name, _, section = manual.rpartition(".")
    return f"{name}({section})"


def slug(title, separator):
    """The anchor that Git hosters give to a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    config["nav"] += [{title: [{shown(name): f"docs/man/{name}"} for name in MANUALS if belongs(name)]} for title, belongs in SECTIONS.items()]
    return config


def on_files(files, config):
    ours = {}
    wanted = [path.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md", "docs/man/*") for path in ROOT.glob(pattern)]
    wanted += [pathlib.Path(path) for path in config["extra_css"]]
    while wanted:
        path = wanted.pop()
        uri = path.as_posix()
        if uri in ours or not (ROOT / path).is_file():
            continue
        kind = Manual if path.parent == pathlib.Path("docs/man") else File
        ours[uri] = kind(uri, str(ROOT), config["site_dir"], config["use_directory_urls"])
        if path.suffix == ".md":
            wanted += [pathlib.Path(posixpath.normpath(path.parent / target)) for target in LINK.findall((ROOT / path).read_text())]
    theme = [file for file in files if not file.abs_src_path.startswith(config["docs_dir"] + os.sep)]
    # Debian 12 has jQuery under the name of another version than the pages of the theme load.
    for file in theme:
        if re.fullmatch(r"js/jquery-.*\.min\.js", file.src_uri):
            file.dest_uri = file.url = JQUERY
            file.abs_dest_path = os.path.join(config["site_dir"], JQUERY)
    return Files([*theme, *(ours[uri] for uri in sorted(ours))])


def on_nav(nav, config, files):
    for file in files.documentation_pages():
        if file.page is None or file.page not in nav.pages:
            LOG.warning(f"{file.src_uri} is not in the navigation of mkdocs.yml")
    return nav


def on_page_read_source(page, config):
    return f"# {shown(page.file.name)}\n" if isinstance(page.file, Manual) else None


def on_page_markdown(markdown, page, config, files):
    """In the cells of a table, code may contain | here, and \\| on a Git hoster."""
    return re.sub(r"^\|.*$", lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0]), markdown, flags=re.MULTILINE)


def on_page_content(content, page, config, files):
    if not isinstance(page.file, Manual):
        return content.replace("<table>", '<table class="docutils">')  # which the theme styles
    # The build completes two pages: scripts/build-docs says where they are.
    source = pathlib.Path(os.environ.get("SARUS_COMPLETED_MANUALS", ""), page.file.name)
    if not source.is_file():
        source = MANUALS[page.file.name]
    text = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", str(source)], check=True, capture_output=True, text=True).stdout
    text = re.sub(r'<table class="(head|foot)">.*?</table>', "", text, flags=re.DOTALL)
    for level in (2, 1):
        text = re.sub(rf'<(/?)h{level}\b', rf"<\1h{level + 1}", text)

    def link(match):
        name = f"{html.unescape(match[1])}.{match[2]}"
        return f'<a href="{name}.html">{match[0]}</a>' if name in MANUALS and name != page.file.name else match[0]

    text = re.sub(r"<[bi]>([\w.-]+)</[bi]>\(([15])\)", link, text)
    for level, anchor, title in re.findall(r'<h([23])[^>]* id="([^"]+)"[^>]*>(.*?)</h\1>', text, flags=re.DOTALL):
        heading = AnchorLink(html.unescape(re.sub(r"\s+", " ", re.sub("<[^>]+>", "", title))), anchor, int(level))
        above = page.toc.items[0].children
        (above[-1].children if level == "3" and above else above).append(heading)
    return f'{content}\n<div class="manual">\n{text}</div>'
