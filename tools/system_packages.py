"""Packages of this system, and Debian's for another processor or of another release: those are unpacked into a folder
by mmdebstrap, and nothing of them is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from commands import ROOT, contains, run

MIRROR = "http://deb.debian.org/debian"


def command(name: str, package: str) -> str:
    """The command, of which the package is installed where that is allowed; else this ends with what to type."""
    done = subprocess.run([ROOT / "tools" / "need", f"{name}:{package}"], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return name


def unpacked(work: Path, package: str, release: str, *options: str, sources_of: tuple[str, ...] = ()) -> Path:
    """The folder below which a package of this release and all that it needs are; downloaded once.

    sources_of: releases whose packages `source` may ask for.
    """
    root, done = work / "root", work / "unpacked.txt"
    wanted = f"{package} {release} {options} {sources_of}"
    if not contains(done, wanted):
        shutil.rmtree(root, ignore_errors=True)
        lists = [f"deb {MIRROR} {release} main", *(f"deb-src {MIRROR} {each} main" for each in sources_of)]
        # a mirror may be older than its lists say that they are valid; what is signed is checked all the same
        options = (*options, "--aptopt=Acquire::Check-Valid-Until false", "--skip=cleanup/apt")
        debstrap = (command("mmdebstrap", "mmdebstrap"), "--quiet", "--variant=extract")
        run(*debstrap, f"--include={package}", *options, release, root, *lists)
        done.write_text(wanted)
    return root


def source(root: Path, package: str) -> Path:
    """The folder with the original sources of a package, or of package/release, unpacked anew."""
    folder = root.with_name("source") / package.partition("/")[0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lists = (f"-oDir={root.resolve()}", "-oDir::State::status=/dev/null", "-oAPT::Sandbox::User=root")
    run("apt-get", "-q", *lists, "source", "--download-only", package, cwd=folder)
    (archive,) = (each for each in folder.glob("*.orig.tar.*") if each.suffix != ".asc")
    run("tar", "-xf", archive, "--strip-components=1", "-C", folder)
    return folder
