"""Formatting: every C and C++ file is as clang-format 14 lays it out with .clang-format. --fix rewrites the files."""

import re
import shutil
import subprocess
import sys

from common import CODE, arguments, files, finish

VERSION = "14"  # versions differ in what they do with one and the same file


def find_tool():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            done = subprocess.run([name, "--version"], capture_output=True, text=True)
            match = re.search(r"version (\d+)", done.stdout)
            if match and match.group(1) == VERSION:
                return name
    sys.exit(f"formatting: clang-format {VERSION} is not installed (Debian's package clang-format-{VERSION}; ./dev check installs it)")


def main():
    root = arguments()
    tool = find_tool()
    paths = [str(p) for p in files(root, "sdk", "samples", "tests", "plugin_unreal", "plugin_godot") if p.suffix in CODE]
    if "--fix" in sys.argv and paths:
        subprocess.run([tool, "-i", *paths], cwd=root, check=True)
    done = subprocess.run([tool, "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True) if paths else None
    findings = []
    if done and done.returncode != 0:
        first = {}
        for match in re.finditer(r"^(\S+?):(\d+):\d+: error: code should be clang-formatted", done.stderr, re.M):
            first.setdefault(match.group(1), match.group(2))
        findings = [f"{p}:{line}: not formatted; run ./dev format" for p, line in first.items()]
        findings = findings or ["clang-format failed: " + done.stderr.strip()[:500]]
    finish("formatting", findings, len(paths))


main()
