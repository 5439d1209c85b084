"""Libraries and programs in C that tests compile. Hundreds of tests want the same ones: each process compiles what differs."""

import pathlib
import subprocess
import tempfile

_compiled = {}  # what a command makes of what: bytes
_named = set()  # libraries that other files refer to by their soname, wherever they are


def _identity(word):
    file = pathlib.Path(word)
    if file in _named:
        return file.name, file.read_bytes()
    return (str(word), file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else str(word)


def compile_c(path, source, words, links=(), versions=None):
    """Makes the file `path` of `source` by `gcc WORDS`. `links`: libraries and options for the linker; `versions`: the text of its version script."""
    path = pathlib.Path(path)
    key = (source, tuple(words), tuple(_identity(link) for link in links), versions)
    if key not in _compiled:
        with tempfile.TemporaryDirectory() as directory:
            output, script = pathlib.Path(directory, "output"), pathlib.Path(directory, "versions")
            options = []
            if versions:
                script.write_text(versions)
                options = [f"-Wl,--version-script={script}"]
            subprocess.run(["gcc", *words, "-o", str(output), "-x", "c", "-", "-x", "none", *map(str, links), *options], input=source, text=True, check=True)
            _compiled[key] = output.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(_compiled[key])
    path.chmod(0o755)
    _named.discard(path)
    return path


def compile_library(path, source, soname=None, versions=None, links=(), flags=("-nostdlib",)):
    """Makes a shared library; `versions` is the text of a linker version script, `links` are libraries which it needs."""
    words = ["-shared", "-fPIC", "-O1", *flags, *([f"-Wl,-soname,{soname}"] if soname else [])]
    made = compile_c(path, source, words, links, versions)
    if soname:
        _named.add(made)
    return made


def compile_program(path, source, links=()):
    return compile_c(path, source, ["-O1"], ["-Wl,--allow-shlib-undefined", *links])
