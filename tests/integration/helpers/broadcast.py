"""Copies of images on this node, as `sarus bcast` makes them for a job."""

import json
import pathlib
import re
import shutil

SUFFIX = "abcdefghijklmnop"


class Copies:
    """The directory of one job, which Slurm need not know: only its number in the environment counts."""

    def __init__(self, engine, parent, reference, job):
        self.engine = engine
        self.job = str(job)
        self.directory = pathlib.Path(parent) / f"sarus-{engine.user.uid}-job-{job}"
        images = engine.user.home.parent / engine.user.name / ".sarus" / "images"
        self.shared = next(path for path in images.rglob("*.squashfs") if f"/{reference}/" in str(path))
        self.store = json.loads(self.shared.with_suffix(".meta").read_text())["Store"]
        self.name = self.store["squashfsDigest"].removeprefix("fsverity-sha256:") + ".squashfs"
        self.file = self.directory / self.name
        self.reference = reference

    def stage(self, name, *options, environment=None, **changes):
        values = {**self.store, **changes}
        return self.engine.sarus("bcast", f"--stage={name}", *options, values["squashfsDigest"], values["squashfsSize"], values["squashfsIdentity"],
                                 env={"SLURM_JOB_ID": self.job, **(environment or {})})

    def partial(self, suffix=SUFFIX):
        return self.directory / f"{self.name}.partial-{suffix}"

    def own(self, *paths):
        for path in paths:
            self.engine.user.own(path)

    def make(self):
        """A complete copy, made as a broadcast makes it."""
        assert self.stage("prepare").stdout == "ready\n"
        shutil.copyfile(self.shared, self.partial())
        self.own(self.partial())
        result = self.stage("complete", f"--suffix={SUFFIX}")
        assert result.returncode == 0, result.stderr
        return self

    def used(self, *options, **environment):
        """(path of the file that a container is made from, what was said on standard error)"""
        result = self.engine.sarus("--verbose", "run", *options, self.reference, "true", env={"SLURM_JOB_ID": self.job, **environment})
        assert result.returncode == 0, result.stderr
        return pathlib.Path(re.search(r"Image \S+ is in (\S+)$", result.stdout, re.MULTILINE)[1]), result.stderr
