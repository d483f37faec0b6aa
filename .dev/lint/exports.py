"""Exported symbols: sdk/cmake/banter.exports lists exactly the BANTER_API functions, and the built library exports exactly those.

usage: exports.py [ROOT] [--library PATH] [--archive PATH] [--write]    (libbanter.so, libbanter_static.a)
       exports.py [ROOT] --plugin PATH    a backend's library exports its entry, and nothing else
"""

import subprocess
import sys

import header
from common import arguments, files, finish, read

PLUGIN_ENTRY = "banter_backend_plugin_v1"
LIST = "sdk/cmake/banter.exports"


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv[:-1] else None


def declared(root, findings):
    names = set()
    for path in files(root, "sdk/include/banter"):
        text = read(root / path)
        found = header.functions(text)
        names.update(f[0] for f in found)
        expected = header.uses_of_api_macro(text)
        if len(found) != expected:
            findings.append(f"{path}: {expected} uses of BANTER_API, but {len(found)} declarations understood; write one function per BANTER_API")
    return names


def exported(library, kind):
    done = subprocess.run(["nm", kind, "--defined-only", "--format=posix", library], capture_output=True, text=True, check=True)
    return {words[0] for words in map(str.split, done.stdout.splitlines()) if len(words) > 1}


def differences(a, a_name, b, b_name):
    return [f"{n}: in {a_name}, not in {b_name}" for n in sorted(a - b)] + [f"{n}: in {b_name}, not in {a_name}" for n in sorted(b - a)]


def main():
    root = arguments()
    findings = []
    names = declared(root, findings)
    if "--write" in sys.argv:
        (root / LIST).write_text("".join(n + "\n" for n in sorted(names)))
    listed_lines = read(root / LIST).split()
    listed = set(listed_lines)
    if listed_lines != sorted(listed):
        findings.append(f"{LIST}: must be sorted, each name once")
    findings += differences(names, "the public headers", listed, LIST)
    for name, kind in (("--library", "-D"), ("--archive", "-g")):
        path = option(name)
        if path:
            findings += differences(exported(path, kind), path, listed, LIST)
    plugin = option("--plugin")
    if plugin:
        findings += differences(exported(plugin, "-D"), plugin, {PLUGIN_ENTRY}, "what a plugin exports")
    if findings:
        findings.append("after a change of the headers run: python3 .dev/lint/exports.py --write (a removed line breaks the ABI)")
    finish("exported symbols", findings, len(names))


main()
