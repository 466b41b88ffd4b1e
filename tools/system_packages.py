"""Debian's packages for another processor or of another release, unpacked into a folder. Nothing is installed, and the
system's own lists of packages stay as they are."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from commands import run

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def command(name: str, package: str) -> str:
    """The command; its package is installed where that is allowed, else this ends with what to type."""
    if shutil.which(name):
        return name
    line = ["apt-get", "install", "-y", "--no-install-recommends", package]
    if os.geteuid() or not shutil.which("apt-get"):
        raise SystemExit(f"{name} is missing: {' '.join(line)}, or another system's package of it")
    for words in (["apt-get", "update"], line):
        print("+", *words, flush=True)
        run(*words)
    return name


def said(*words: str) -> str:
    if not shutil.which(words[0]):
        raise SystemExit(f"{words[0]} is missing: this needs Debian")
    return run(*words)


def own_python() -> str:
    """The version of this system's own Python, such as 3.11."""
    version = re.search(r"python(3\.\d+)-minimal", said("apt-cache", "depends", "python3-minimal"))
    if version is None:
        raise SystemExit("this system has no package python3-minimal: this needs Debian or Ubuntu")
    return version[1]


def architecture() -> str:
    """amd64, arm64, ..."""
    return said("dpkg", "--print-architecture").strip()


class Apt:
    """apt-get with lists of its own below `work`: of this system's releases, or of other releases of Debian."""

    def __init__(self, work: Path, architecture: str, *releases: str) -> None:
        self.work = work.resolve()
        for folder in ("lists/partial", "archives/partial", "packages.deb"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        options: dict[str, object] = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root",
            "Dir::State::lists": self.work / "lists",
            "Dir::Cache": self.work,
            "Dir::State::status": "/dev/null",
        }
        if releases:
            (work / "sources.list").write_text("".join(self._lines(releases)))
            options |= {"Dir::Etc::sourcelist": self.work / "sources.list", "Dir::Etc::sourceparts": "/dev/null"}
        self._words = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]

    def _lines(self, releases: tuple[str, ...]) -> list[str]:
        """The sources.list of other releases, from where this system has its own."""
        shown = "$(ORIGIN) $(CODENAME) $(REPO_URI)"
        listed = said("apt-get", "indextargets", "--format", shown, "Created-By: Packages")
        found = re.search(r"(?m)^Debian \w+ (\S+)$", listed)
        if found is None or not Path(KEYRING).exists():
            raise SystemExit("this needs Debian, and apt-get update before: it has no list of Debian's packages")
        kinds = ("deb", "deb-src")
        return [f"{kind} [signed-by={KEYRING}] {found[1]} {each} main\n" for each in releases for kind in kinds]

    def __call__(self, *words: str) -> None:
        """apt-get with these arguments, in the folder packages.deb."""
        folder = self.work / "packages.deb"
        run(*self._words, *words, cwd=folder)

    def unpack(self, *packages: str) -> Path:
        """The folder below which they are; downloaded once."""
        root, done = self.work / "root", self.work / "unpacked.txt"
        wanted = " ".join(packages)
        if not done.exists() or done.read_text() != wanted:
            self("update")
            self("download", *packages)
            for package in sorted((self.work / "packages.deb").glob("*.deb")):
                run("dpkg", "-x", package, root)
            done.write_text(wanted)
        return root

    def source(self, package: str) -> Path:
        """The folder with the original sources of a package, or of package/release, unpacked anew."""
        self("source", "--download-only", package)
        name = package.partition("/")[0]
        archives = (self.work / "packages.deb").glob(f"{name}_*.orig.tar.*")
        (archive,) = (each for each in archives if each.suffix != ".asc")
        folder = self.work / "source" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run("tar", "-xf", archive, "--strip-components=1", "-C", folder)
        return folder
