"""The documentation as a site: scripts/build-docs."""

import html
import json
import re
import shutil
import subprocess
import urllib.parse

import pytest

pytestmark = pytest.mark.thorough
# The theme of Debian's mkdocs names these and does not have them. Neither is needed.
NEVER_THERE = ("js/html5shiv.min.js", "js/theme_extra.js")


@pytest.fixture(scope="module", autouse=True)
def _needs_mkdocs():
    if shutil.which("mkdocs") is None or shutil.which("mandoc") is None:
        pytest.skip("mkdocs or mandoc is not installed")


def build(source_dir, *arguments):
    return subprocess.run([source_dir / "scripts/build-docs", *arguments], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(source_dir, build_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("site") / "html"
    result = build(source_dir, "--build-dir", build_dir, directory)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", f"The site is in {directory}\n")
    return directory


def pages(site):
    return {page: page.read_text() for page in site.rglob("*.html") if page.name != "404.html"}


def test_every_page_and_every_manual_page_is_there_and_can_be_found(site, source_dir):
    found = "".join(entry["location"] + "\n" for entry in json.loads((site / "search/search_index.json").read_text())["docs"])
    documents = [path.relative_to(source_dir) for pattern in ("docs/**/*.md", "docs/man/*") for path in source_dir.glob(pattern)]
    names = [str(path.with_suffix(".html") if path.suffix == ".md" else f"{path}.html") for path in documents]
    assert len(names) > 60 and [name for name in names if not (site / name).is_file() or f"{name}\n" not in found] == []
    assert "docs/man/sarus-run.1.html#OPTIONS\n" in found


def test_every_link_leads_to_a_place(site):
    contents = pages(site)
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in contents.items()}
    wrong = []
    for page, text in contents.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            url = urllib.parse.urlsplit(html.unescape(link))
            if url.scheme or url.netloc or link.endswith(NEVER_THERE):
                continue
            target = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
            if not target.is_file() or (url.fragment and target in anchors and urllib.parse.unquote(url.fragment) not in anchors[target]):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_nothing_is_loaded_from_other_servers(site):
    loaded = [link for text in pages(site).values() for tag in re.findall(r"<(?:script|link|img|iframe)[^>]*>", text) for link in re.findall(r'(?:href|src)="([^"]*)"', tag)]
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert len(loaded) > 100 and [link for link in loaded if re.match(r"(https?:)?//", link)] == []
    assert re.findall(r"""(?:url\(|@import )["']?(?:https?:)?//""", styles) == []


def test_manual_pages_are_complete_and_lead_to_each_other(site):
    sarus, keys = ((site / "docs/man" / name).read_text() for name in ("sarus.1.html", "sarus.json.5.html"))
    assert '<a href="sarus-pull.1.html">' in sarus and "Copy an image to all nodes" in sarus
    assert "imageMount" in keys


@pytest.fixture
def copy(source_dir, tmp_path):
    """The sources of the site, to be changed."""
    tree = tmp_path / "tree"
    shutil.copytree(source_dir / "docs", tree / "docs")
    shutil.copytree(source_dir / "scripts", tree / "scripts")
    for path in (*source_dir.glob("*.md"), source_dir / "mkdocs.yml", source_dir / "LICENSE", source_dir / "tests/fuzz/README.md"):
        (tree / path.relative_to(source_dir)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(source_dir))
    return tree


def test_broken_link_fails_and_is_named(copy, tmp_path):
    with (copy / "docs/user/guide.md").open("a") as page:
        page.write("\n[gone](../admin/gone.md)\n")
    result = build(copy, tmp_path / "html")
    assert result.returncode != 0
    assert re.search("'docs/user/guide.md' contains a link to '[^']*/gone.md'", result.stderr)


def test_page_without_a_place_in_the_navigation_fails(copy, tmp_path):
    (copy / "docs/user" / "new.md").write_text("# New\n")
    result = build(copy, tmp_path / "html")
    assert result.returncode != 0
    assert "/new.md is not in the navigation of mkdocs.yml" in result.stderr


def test_other_directories_are_not_emptied(source_dir, site, tmp_path):
    (tmp_path / "mine").write_text("")
    result = build(source_dir, tmp_path)
    assert result.returncode == 1 and f"{tmp_path} exists and is no site of this script" in result.stderr
    assert (tmp_path / "mine").exists()
    (site / "of-an-old-version.html").write_text("")
    assert build(source_dir, site).returncode == 0 and not (site / "of-an-old-version.html").exists()
