"""Runs one test script in a real headless Godot: python3 run.py --godot PROGRAM --library FILE --script NAME [--model NAME=FILE]…

The project is put together in a temporary folder: the addon as it ships, the library, the models, the test scripts. A test passes when Godot
ends with 0, the script says that it came to its end, and nothing in the output is an error, a leaked object or a leaked resource.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import far_tensors

HERE = pathlib.Path(__file__).resolve().parent
ADDON = HERE.parent / "addons" / "banter"
END = "TEST ENDED, failures: 0"
BAD = re.compile(r"Sanitizer: |runtime error: |^\s*(ERROR|SCRIPT ERROR|USER ERROR|CHECK FAILED|WARNING: .*leak)|Leaked instance|Orphan StringName|Leaked unreferenced|Resource still in use", re.M)


def assemble(project, library, models):
    shutil.copytree(HERE / "project", project)
    shutil.copytree(ADDON, project / "addons/banter", ignore=shutil.ignore_patterns("bin"))
    shutil.copytree(HERE.parent / "doc_classes", project / "doc_classes")
    (project / "addons/banter/bin").mkdir()
    shutil.copy(library, project / "addons/banter/bin/libbanter_godot.so")
    (project / "models").mkdir()
    for name, path in models:
        shutil.copy(path, project / "models" / name)
    # What the editor writes when it first sees the extension; without it a game started from the sources does not load it.
    (project / ".godot").mkdir()
    (project / ".godot/extension_list.cfg").write_text("res://addons/banter/banter.gdextension\n")


# Godot itself is built without sanitizers: what it does is not looked at, and its own leaks are not ours, see own_leaks().
SANITIZERS = {
    # The library that opens extensions comes before the run-time library; each frame tells the library that it is in.
    "ASAN_OPTIONS": "verify_asan_link_order=0:stack_trace_format='    #%n %p %F %S (%m)'",
    "LSAN_OPTIONS": "exitcode=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:suppressions={HERE.parents[1] / '.dev/tsan.supp'}",
}


LEAKS = re.compile(r"^=+\n==\d+==ERROR: LeakSanitizer: detected memory leaks\n.*?^SUMMARY: \w+Sanitizer: \d+ byte\(s\) leaked[^\n]*\n", re.M | re.S)
LEAK = re.compile(r"^(?:Direct|Indirect) leak of .*?(?=^\s*$)", re.M | re.S)
ALLOCATORS = ("libasan.so", "liblsan.so", "libstdc++.so", "libc.so")


def own_leaks(output):
    """The output without the reports of leaks; and of the leaks those that the addon allocated itself, whoever called it."""
    leaks = []
    for report in LEAKS.findall(output):
        for leak in LEAK.findall(report):
            frames = [line.strip() for line in leak.splitlines()[1:]]
            first = next((frame for frame in frames if not any(name in frame for name in ALLOCATORS)), "")
            if "libbanter_godot" in first:
                leaks.append(leak.splitlines()[0] + " " + first)
    return LEAKS.sub("", output), leaks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--godot", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--model", action="append", default=[], help="NAME=FILE: res://models/NAME")
    parser.add_argument("--far-model", action="append", default=[], help="the same, with its tensors beyond 4 GiB")
    parser.add_argument("--editor", action="store_true", help="no script, but the editor, with the plugin addons/in_editor")
    parser.add_argument("--source", help="text of the script, in the place of the project's own")
    parser.add_argument("--show", action="store_true", help="print the output of a test that passed, too")
    parser.add_argument("--preload", action="append", default=[], help="libraries for LD_PRELOAD: those of a sanitizer")
    parser.add_argument("--seconds", type=int, default=180)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="banter godot ü ") as folder:  # a path that has to be quoted and is not ASCII
        folder = pathlib.Path(folder)
        project = folder / "project"
        assemble(project, options.library, [m.split("=", 1) for m in options.model])
        for name, path in (m.split("=", 1) for m in options.far_model):
            far_tensors.write(pathlib.Path(path), project / "models" / name)
        settings = project / f"{options.script}.settings"
        if settings.exists():  # what this test needs of its project
            with open(project / "project.godot", "a") as file:
                file.write(settings.read_text())
        if options.source:
            (project / f"{options.script}.gd").write_text(options.source)
        (folder / "home").mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(folder / "home")}
        if options.preload:
            environment |= SANITIZERS | {"LD_PRELOAD": ":".join(options.preload)}
            if not options.editor:  # the test of which reloads the library
                environment["BANTER_KEEP_LIBRARY"] = "1"
        command = [options.godot, "--headless", "--verbose", "--path", str(project)]
        command += ["--editor"] if options.editor else ["--script", f"res://{options.script}.gd"]
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=options.seconds)
        except subprocess.TimeoutExpired as expired:
            print((expired.stdout or b"").decode(errors="replace"))
            sys.exit(f"{options.script}: not at its end after {options.seconds} s")
    output = done.stdout.decode(errors="replace")
    faults = []
    if done.returncode != 0:
        faults.append(f"Godot ended with {done.returncode}")
    if END not in output:
        faults.append("the script did not come to its end without failures")
    # The editor of Godot 4.6 leaks this name in an empty project as well.
    excused = "Orphan StringName: Node (static: 3, total: 4)" if options.editor else None
    others, leaks = own_leaks(output)
    faults += leaks
    faults += sorted({line.strip() for line in others.splitlines() if BAD.search(line) and line.strip() != excused})
    if faults:
        print(output)
        sys.exit(f"{options.script}:\n  " + "\n  ".join(faults))
    if options.show:
        print(output)
    print(f"{options.script}: passed")


main()
