"""Man pages and shell completions, as installed."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
import xml.etree.ElementTree

import pytest
from helpers import system


def keys(schema):
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from keys(value)
        yield from keys(value.get("items", {}))


@pytest.fixture(scope="module")
def tree(build_dir, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", str(build_dir), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


def test_manual_of_the_configuration_has_every_key(tree):
    schema = json.loads((tree / "etc" / "sarus.schema.json").read_text())
    text = (tree / "share" / "man" / "man5" / "sarus.json.5").read_text()
    words = set(re.findall(r"[$\w.]+\w", text))
    assert [key for key in keys(schema) if key not in words] == []


def test_manual_of_the_configuration_lists_the_options_of_mksquashfs(source_dir):
    source = (source_dir / "src/image/build/write/squashfs_options.cpp").read_text()
    understood = set(re.findall(r'"(-[A-Za-z-]+)"', source))
    compressors = set(re.findall(r'Compressor{.name = "(\w+)"', source))
    text = (source_dir / "docs" / "man" / "sarus.json.5").read_text().replace("\\-", "-")
    assert len(understood) > 30 and [option for option in sorted(understood) if not re.search(rf"{option}(?![\w-])", text)] == []
    assert compressors and compressors == set(re.search(r'"-comp (.*)', text)[1].replace('"', "").split(" | "))


def test_manual_pages_are_installed_and_correct_roff(tree, source_dir):
    pages = sorted((tree / "share" / "man").glob("man[15]/*"))
    written = [page for page in pages if not page.is_symlink()]
    assert pages and [page.name for page in written] == sorted((page.name for page in (source_dir / "docs" / "man").iterdir()),
                                                               key=lambda name: (name[-1], name))
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for page in pages:
        result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", str(page)], capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, ""), page.name


def test_every_program_has_a_manual_page_with_its_name(tree):
    """`whatis` finds a page by the line below NAME."""
    for program in (tree / "bin").iterdir():
        page = tree / "share" / "man" / "man1" / f"{program.name}.1"
        assert page.exists(), f"{program.name} has no manual page"
        title, name, text = page.read_text().split("\n", 3)[:3]
        names = text.partition(" \\- ")[0].split(", ")
        assert title.startswith(f".TH {names[0].upper()} 1 ") and name == ".SH NAME" and program.name in names


def test_manual_lists_the_identifiers_of_errors(source_dir):
    used = {name for file in (source_dir / "src").rglob("*.cpp") for name in re.findall(r'setId\("([^"]+)"\)', file.read_text())}
    text = (source_dir / "docs" / "man" / "sarus.1").read_text().replace("\\-", "-")
    section = text.split(".SH ERROR IDENTIFIERS")[1].split(".SH")[0]
    assert used == set(re.findall(r"^\.TP\n\.B (.+)$", section, re.MULTILINE))


def test_hook_files_in_manual_pages_are_complete(source_dir):
    for page in (source_dir / "docs" / "man").glob("*_hook.1"):
        for text in re.findall(r"^\.nf\n(\{\"version\".*?)\.fi$", page.read_text(), re.DOTALL | re.MULTILINE):
            example = json.loads(text.replace("\\-", "-"))
            assert example["hook"]["path"] == f"/opt/sarus/bin/{page.stem}" and example["stages"] and example["when"]


def test_manual_of_the_image_builder_names_its_options(tree, source_dir):
    usage = subprocess.run([tree / "libexec" / "sarus-image-builder", "help"], capture_output=True, text=True, check=True).stdout
    raw = (source_dir / "docs" / "man" / "sarus-image-builder.1").read_text()
    text = re.sub(r"\\f.", "", raw).replace("\\", "")
    options = r"--[a-z][a-z-]+"
    assert set(re.findall(options, usage)) == set(re.findall(options, text))


def complete(tree, *words, path=""):
    """What bash offers for the last of `words`."""
    script = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _sarus
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    file = tree / "share" / "bash-completion" / "completions" / "sarus"
    result = subprocess.run(["bash", "-c", script, "bash", str(file), *words], capture_output=True, text=True, check=True,
                            env={"PATH": f"{path}:/usr/bin:/bin"})
    assert result.stderr == ""
    return result.stdout.split()


def test_bash_completes_commands(tree):
    assert complete(tree, "sarus", "pu") == ["pull"]
    assert complete(tree, "sarus", "--verb") == ["--verbose"]
    assert complete(tree, "sarus", "--debug", "r") == ["rm", "rmi", "run"]


def test_bash_completes_options_of_the_command(tree):
    assert complete(tree, "sarus", "run", "--mpi") == ["--mpi", "--mpi-type"]
    assert complete(tree, "sarus", "pull", "--pa") == ["--password-stdin"]
    assert complete(tree, "sarus", "load", "--source") == []
    assert complete(tree, "sarus", "help", "im") == ["images"]


def test_bash_completes_images(tree, tmp_path):
    stub = tmp_path / "sarus"
    stub.write_text("#!/bin/sh\nprintf 'REPOSITORY TAG\\nalpine 3.20\\ndebian 12\\n'\n")
    stub.chmod(0o755)
    assert complete(tree, "sarus", "run", "al", path=str(tmp_path)) == ["alpine:3.20"]
    assert complete(tree, "sarus", "rmi", "", path=str(tmp_path)) == ["alpine:3.20", "debian:12"]


@pytest.mark.parametrize("shell, file", [("zsh", "share/zsh/site-functions/_sarus"), ("fish", "share/fish/vendor_completions.d/sarus.fish")])
def test_completions_of_other_shells_are_installed(tree, shell, file):
    path = tree / file
    assert path.read_text() == subprocess.run([tree / "bin" / "sarus", "completion", shell], capture_output=True, text=True, check=True).stdout
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(path)], check=True)


def test_zsh_completes_at_the_first_attempt(tree, tmp_path):
    """An interactive shell on a terminal of its own, which reads the installed file when the key is pressed."""
    (tmp_path / ".zshrc").write_text(f"""PS1='% '; fpath=({tree}/share/zsh/site-functions $fpath); path=({tree}/bin $path)
autoload -U compinit && compinit -u -d {tmp_path}/dump; print ready\n""")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-i"], {"ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb", "PATH": os.environ["PATH"]})
    seen = b""

    def read_until(text, timeout=300):
        nonlocal seen
        end = time.monotonic() + timeout
        while text not in seen and time.monotonic() < end and select.select([terminal], [], [], 0.2)[0] is not None:
            if select.select([terminal], [], [], 0)[0]:
                seen += os.read(terminal, 4096)
        assert text in seen, seen.decode(errors="replace")

    try:
        read_until(b"ready")
        os.write(terminal, b"sarus ssh-k\t")
        read_until(b"sarus ssh-keygen")
    finally:
        system.kill(pid)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_links_between_documents_lead_to_files(source_dir):
    documents = [*source_dir.glob("*.md"), *source_dir.glob("docs/**/*.md"), *source_dir.glob("tests/**/*.md")]
    links = [(document, target) for document in documents for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())]
    assert len(links) > 20 and [f"{document}: {target}" for document, target in links if not (document.parent / target).exists()] == []


def headings(document):
    """The anchors that a Git hoster gives to the headings of a document; scripts/lib/mkdocs_hook.py gives the same to those of the site."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def test_links_between_documents_lead_to_headings(source_dir):
    documents = [*source_dir.glob("*.md"), *source_dir.glob("docs/**/*.md"), *source_dir.glob("tests/**/*.md")]
    links = [(document, target, anchor) for document in documents for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text())]
    assert len(links) > 20 and [f"{document}: {target}#{anchor}" for document, target, anchor in links
                                if anchor not in headings(document.parent / target if target else document)] == []


def test_every_document_is_in_the_navigation_of_the_site(source_dir):
    """scripts/build-docs reports this too, where mkdocs is installed."""
    named = re.findall(r": (\S+\.md)$", (source_dir / "mkdocs.yml").read_text(), re.MULTILINE)
    documents = [str(path.relative_to(source_dir)) for pattern in ("*.md", "docs/**/*.md", "tests/**/*.md") for path in source_dir.glob(pattern)]
    assert sorted(named) == sorted(documents)


def test_plots_show_what_the_tables_say(source_dir, tmp_path):
    """bench/plot draws them anew."""
    subprocess.run([source_dir / "bench/plot", tmp_path], check=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in (source_dir / "docs/measurements").glob("*.svg")) != []
    assert [name for name in names if (tmp_path / name).read_text() != (source_dir / "docs/measurements" / name).read_text()] == []


def test_plots_can_be_read_without_seeing_them(source_dir):
    for plot in (source_dir / "docs/measurements").glob("*.svg"):
        root = xml.etree.ElementTree.parse(plot).getroot()
        words = root.find("{*}desc").text
        shown = [text.text for text in root.findall(".//{*}text") if text.get("class") in ("label", "value")]
        assert root.get("role") == "img" and len(shown) > 6 and [text for text in shown if text not in words.replace("`", "")] == []


def test_documents_named_in_sources_exist(source_dir):
    files = [file for folder in ("bench", "cmake", "etc", "scripts", "src", "tests") for file in (source_dir / folder).rglob("*")
             if file.is_file() and "corpus" not in file.parts]
    named = {name for file in files for name in re.findall(r"\bdocs/[\w./-]+\.(?:md|[15])\b", file.read_text(errors="replace"))}
    assert len(named) > 5 and [name for name in sorted(named) if not (source_dir / name).exists()] == []


def test_architecture_names_sources_that_exist(source_dir):
    src = source_dir / "src"
    rooms = "|".join(folder.name for folder in src.iterdir() if folder.is_dir())
    named = set(re.findall(rf"`(?:src/)?((?:{rooms})/[\w/.]*)`", (source_dir / "ARCHITECTURE.md").read_text()))
    assert len(named) > 10 and [name for name in sorted(named) if not (src / name).exists() and not any(src.glob(f"{name}.?pp"))] == []


def compatibility_rows(source_dir):
    pages = [source_dir / "docs/reference" / name for name in ("compatibility.md", "podman_hpc_compatibility.md")]
    for line in "".join(page.read_text() for page in pages).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] not in ("documented", "---"):
            yield cells


def test_compatibility_table_names_sources_that_exist(source_dir):
    named = {name for row in compatibility_rows(source_dir) for name in re.findall(r"`([^`]+)`", row[1])}
    assert named
    assert [name for name in named if not ((source_dir / "src" / name).exists() or (source_dir / name).exists())] == []


def test_compatibility_table_names_tests_that_exist(source_dir):
    tests = source_dir / "tests"
    known = {f"{file.name}::{function}" for file in tests.glob("*/**/test_*.py")
             for function in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}
    known |= {f"{suite}.{name}" for file in tests.glob("unit/**/*_test.cpp")
              for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text(), re.M)}
    named = {name for row in compatibility_rows(source_dir) for name in re.findall(r"`([^`]+)`", row[2])}
    assert len(named) > 50
    assert [name for name in sorted(named) if name not in known | {file.name for file in tests.glob("*/test_*.py")}
            and not (source_dir / name).exists()] == []


def test_every_fuzzer_is_in_the_list(source_dir):
    fuzzers = {file.name.removesuffix("_fuzz.cpp") for file in (source_dir / "tests/fuzz").glob("*/*_fuzz.cpp")}
    rows = [line.split("|")[1] for line in (source_dir / "tests/fuzz/README.md").read_text().splitlines() if line.startswith("| `")]
    assert fuzzers == {name for row in rows for name in re.findall(r"`(\w+)`", row)}
