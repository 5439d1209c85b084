"""Shell completions, as the shells themselves run them."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest
from helpers import system

BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")
STUB = """#!/bin/sh
case "$*" in
    images) printf 'REPOSITORY   TAG   IMAGE ID\\nalpine   3.20   x\\nquay.io/org/tool   1.0   x\\nquay.io/org/tool   2.0   x\\nnone   <none>   x\\n' ;;
    "ps --all") printf 'ID   PID\\nsolver   7\\nviewer   8\\n' ;;
    "edf list") printf 'NAME   FILE\\npytorch   /x/pytorch.toml\\n'
        printf '%s   /x\\n' '$(touch${IFS}RAN)' '`touch${IFS}RAN`' '*(e:touch${IFS}RAN:)' '<(touch${IFS}RAN)' 'py$(touch${IFS}RAN)' ;;
    *) exit 1 ;;
esac
"""

# (what is typed, what the last word may become)
CASES = [
    ("sarus pu", {"pull"}),
    ("sarus compl", {"completion"}),
    ("sarus --verb", {"--verbose"}),
    ("sarus run --mpi", {"--mpi", "--mpi-type"}),
    ("sarus run al", {"alpine:3.20"}),
    ("sarus run quay.io/org/tool:", {"quay.io/org/tool:1.0", "quay.io/org/tool:2.0"}),
    ("sarus run --tty quay.io/org/tool:1", {"quay.io/org/tool:1.0"}),
    ("sarus rmi alpine:3.", {"alpine:3.20"}),
    ("sarus exec so", {"solver"}),
    ("sarus kill vie", {"viewer"}),
    ("sarus inspect so", {"solver"}),
    ("sarus save al", {"alpine:3.20"}),
    ("sarus save so", {"solver"}),
    ("sarus run --edf py", {"pytorch"}),
    ("sarus run --edf=py", {"--edf=pytorch"}),
    ("sarus shell --edf=", {"--edf=pytorch"}),
    ("sarus help im", {"images"}),
    ("sarus completion f", {"fish"}),
]
HOSTILE = ["sarus run --edf ", "sarus run --edf py", "sarus run ", "sarus load {dir}/odd"]  # names in shared directories are others'
PATHS = ["sarus run --volume {dir}/da", "sarus run -v {dir}/da", "sarus load {dir}/da", "sarus run --volume={dir}/da"]


@pytest.fixture(scope="module")
def scripts(installed):
    return {"bash": installed / "share/bash-completion/completions/sarus", "zsh": installed / "share/zsh/site-functions/_sarus",
            "fish": installed / "share/fish/vendor_completions.d/sarus.fish"}


@pytest.fixture(scope="module")
def place(workspace):
    directory = workspace / "completions"
    (directory / "bin").mkdir(parents=True)
    stub = directory / "bin/sarus"
    stub.write_text(STUB)
    stub.chmod(0o755)
    (directory / "data-file").touch()
    for attack in ("$(touch${IFS}RAN)", "`touch${IFS}RAN`", "*(e:touch RAN:)"):
        (directory / f"odd-{attack}").touch()
    return directory


def bash(place, script, line, setup=""):
    """What readline would insert: the shell has split the line into words at blanks and its word breaks."""
    code = setup + r"""
        source "$1"
        COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDS=(); COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        for word in $2; do
            while [[ $word =~ ^([^:=]*)([:=]+)(.*)$ ]]; do
                [[ -n ${BASH_REMATCH[1]} ]] && COMP_WORDS+=("${BASH_REMATCH[1]}")
                COMP_WORDS+=("${BASH_REMATCH[2]}"); word=${BASH_REMATCH[3]}
                [[ -z $word ]] && COMP_WORDS+=("")
            done
            [[ -n $word ]] && COMP_WORDS+=("$word")
        done
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        _sarus
        printf '%s\n' "${COMPREPLY[@]}"
    """
    result = subprocess.run(["bash", "-c", code, "bash", script, line], capture_output=True, text=True, cwd=place, timeout=300,
                            env={"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place)})
    assert result.stderr == ""
    return set(result.stdout.split())


@pytest.mark.parametrize("line, expected", CASES)
def test_bash(scripts, place, line, expected):
    assert BASH_COMPLETION.exists(), "the package bash-completion is missing"
    before = line[:max(map(line.rfind, ": =")) + 1]  # readline has a new word behind each colon and equals sign
    found = bash(place, scripts["bash"], line, f"source {BASH_COMPLETION}")
    assert {before.split(" ")[-1] + word for word in found} == expected


@pytest.mark.parametrize("line", PATHS + ["sarus run --mount type=bind,source={dir}/da", "sarus run -v /tmp:{dir}/da"])
def test_paths_in_bash(scripts, place, line):
    found = bash(place, scripts["bash"], line.format(dir=place), f"source {BASH_COMPLETION}")
    # An empty answer leaves file names to the shell (complete -o default).
    assert found in ({f"{place}/data-file"}, set()) and (found or "load" in line)


def test_bash_without_the_package(scripts, place):
    assert bash(place, scripts["bash"], "sarus run al") == {"alpine:3.20"}
    assert bash(place, scripts["bash"], "sarus run --edf=py") == bash(place, scripts["bash"], "sarus run --edf=") == {"pytorch"}


@pytest.mark.parametrize("line", HOSTILE)
def test_bash_runs_no_names(scripts, place, line):
    code = 'source "$1"; COMP_LINE=$2; read -ra COMP_WORDS <<< "$2"; [[ $2 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sarus'
    env = {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place)}
    subprocess.run(["bash", "-c", f"{code}; printf '%s\\n' ${{#COMPREPLY[@]}}", "bash", scripts["bash"], line.format(dir=place)], cwd=place, timeout=300,
                   env=env, check=True)
    subprocess.run(["fish", "--no-config", "-c", f"source {scripts['fish']}; complete --do-complete $argv[1]", line.format(dir=place)], timeout=300, cwd=place,
                   env={**env, "XDG_CONFIG_HOME": str(place)}, check=True)
    assert not (place / "RAN").exists()


@pytest.mark.parametrize("line, expected", CASES)
def test_fish(scripts, place, line, expected):
    assert shutil.which("fish"), "fish is missing"
    result = subprocess.run(["fish", "--no-config", "-c", f"source {scripts['fish']}; complete --do-complete $argv[1]", line], capture_output=True, text=True,
                            timeout=300, cwd=place, env={"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place), "XDG_CONFIG_HOME": str(place)})
    assert result.stderr == ""
    found = {entry.split("\t")[0] for entry in result.stdout.splitlines()}
    assert found == expected or (line.startswith("sarus run") and found > expected)  # an image may be a file


@pytest.mark.parametrize("line", PATHS)
def test_paths_in_fish(scripts, place, line):
    result = subprocess.run(["fish", "--no-config", "-c", f"source {scripts['fish']}; complete --do-complete $argv[1]", line.format(dir=place)],
                            capture_output=True, text=True, timeout=300, cwd=place,
                            env={"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place), "XDG_CONFIG_HOME": str(place)})
    assert f"{place}/data-file" in result.stdout


@pytest.mark.parametrize("line, expected", [case for case in CASES if len(case[1]) == 1])
def test_zsh(scripts, place, line, expected):
    """An interactive zsh on a terminal of its own: the key is pressed, and the shell completes the line."""
    (place / ".zshrc").write_text(f"PS1='% '; unsetopt zle; setopt zle; fpath=({scripts['zsh'].parent} $fpath); path=({place}/bin $path)\n"
                                  f"autoload -U compinit && compinit -u -d {place}/compdump; print ready\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place)
        os.execvpe("zsh", ["zsh", "-i"], {"ZDOTDIR": str(place), "HOME": str(place), "TERM": "dumb", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]})
    seen = b""
    try:
        for typed, awaited in ((b"", b"ready"), (f"{line}\t".encode(), " ".join([*line.split(" ")[:-1], *expected]).encode())):
            os.write(terminal, typed)
            end = time.monotonic() + 300
            while awaited not in seen and time.monotonic() < end:
                if select.select([terminal], [], [], 0.2)[0]:
                    seen += os.read(terminal, 4096)
            assert awaited in seen, seen.decode(errors="replace")
    finally:
        system.kill(pid)
        os.waitpid(pid, 0)
        os.close(terminal)
