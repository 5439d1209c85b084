"""`sarus run --dry-run`: what a container would have, and why."""

import json
import os
import pathlib

import pytest
from helpers import system


@pytest.fixture
def planned(engine, busybox):
    """planned(*options, command=[...]) -> the plan as JSON."""

    def plan(*options, command=("true",), **keywords):
        result = engine.sarus("run", "--dry-run", "--json", *options, busybox, *command, **keywords)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return json.loads(result.stdout)

    return plan


def origin(items, **member):
    [found] = [item["origin"] for item in items if item.items() >= member.items()]
    return found


def test_the_plan_gives_a_reason_for_everything(planned, engine):
    plan = planned("-e", "OPTION=1", "--mount=type=bind,src=/usr,dst=/mnt,readonly", "--annotation=my.key=v", env={"HOST_ONLY": "1"})
    assert origin(plan["environment"], name="OPTION") == "command line (--env)"
    assert origin(plan["environment"], name="HOST_ONLY") == "host environment"
    assert origin(plan["environment"], name="PATH") == "image"
    assert origin(plan["mounts"], destination="/mnt", source="/usr", readonly=True) == "command line (--mount)"
    assert origin(plan["mounts"], destination="/") == "image"
    assert origin(plan["annotations"], name="my.key") == "command line (--annotation)"
    assert (plan["user"]["uid"], plan["privileged"]) == (engine.user.uid, not engine.rootless)
    assert plan["args"] == ["true"] and engine.runtime in plan["runtime"]


def test_the_plan_is_what_the_container_gets(planned, engine, busybox):
    environment = {item["name"]: item["value"] for item in planned(command=("env",))["environment"]}
    printed = dict(line.split("=", 1) for line in engine.output(busybox, "env").splitlines())
    assert environment.items() <= printed.items()
    assert set(printed) - set(environment) <= {"HOSTNAME", "TERM", "PWD", "SHLVL"}


def test_nothing_is_run_or_created(engine, busybox, workspace):
    target = workspace / f"made-{engine.mode}-{engine.runtime}"
    state = pathlib.Path(f"/run/sarus/{engine.user.uid}")
    known = engine.user.uid == 0 or state.exists()  # other tests have containers of root's
    result = engine.sarus("run", "--dry-run", "--name=planned", busybox, "touch", target)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Container planned (nothing was started)\n")
    assert not target.exists() and (known or not state.exists())
    assert "planned" not in engine.sarus("ps").stdout


def test_what_run_would_refuse_is_refused(user_engine, load_image, plain_busybox):
    image = load_image(user_engine, "busybox", plain_busybox)
    for options in (["--mount=type=bind,src=/usr"], ["--workdir=relative"], ["--name=../x"]):
        planned = user_engine.sarus("run", "--dry-run", *options, image, "true")
        real = user_engine.sarus("run", *options, image, "true")
        assert planned.returncode == 1 and planned.stdout == ""
        assert planned.stderr == real.stderr


def test_json_alone_has_no_meaning(user_engine, load_image, plain_busybox):
    result = user_engine.sarus("run", "--json", load_image(user_engine, "busybox", plain_busybox), "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0].startswith("The option '--json' requires '--dry-run'")


def test_hooks_are_shown_with_their_conditions_and_do_not_run(make_setuid_prefix, setuid_engine, load_image, plain_busybox, opt):
    directory = opt / "dry-hooks.d"
    directory.mkdir()
    program = opt / "dry-hook"
    program.write_text(f"#!/bin/sh\ntouch {opt}/dry-hook-ran\n")
    program.chmod(0o755)
    (directory / "07-x.json").write_text(json.dumps({"version": "1.0.0", "hook": {"path": str(program)}, "stages": ["createRuntime"],
                                                     "when": {"annotations": {"^my.key$": "^v$"}}}))
    engine = setuid_engine.variant(prefix=make_setuid_prefix("dry-hooks", hooksDir=str(directory)))
    image = load_image(engine, "busybox", plain_busybox)
    result = engine.sarus("run", "--dry-run", "--annotation=my.key=v", image, "true")
    assert f"  createRuntime: {program}  [{directory}/07-x.json: annotation my.key=v]" in result.stdout.splitlines()
    assert "createRuntime" not in engine.sarus("run", "--dry-run", image, "true").stdout
    assert not (opt / "dry-hook-ran").exists()


def test_a_reader_that_stops_reading_leaves_no_process_which_the_user_cannot_end(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    big = {f"BIG{number}": "x" * 100000 for number in range(8)}  # more than a pipe holds
    process = setuid_engine.start("run", "--dry-run", image, "true", env=big)
    try:
        assert system.eventually(lambda: os.stat(f"/proc/{process.pid}").st_uid != 0 or b"starter" in
                                 pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes())

        def owned_by_user():
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
            return uids == [str(setuid_engine.user.uid)] * 4 and "sarus-starter" in status

        assert system.eventually(owned_by_user)
        system.kill(process.pid, 15)
        assert process.wait(timeout=300) == -15
    finally:
        process.kill()
        process.communicate()
