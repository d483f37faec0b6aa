"""Proves that every lint fails on a bad example, for the stated reason, and passes on a good one."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

GOOD_HEADER = """/** Opens.
 *  @param path  where
 *  @returns 0
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API int BANTER_CALL banter_open(const char* path);

/** Closes. Thread safety: any thread. Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_close(void);
"""
GOOD = {
    "README.md": "[header](sdk/include/banter/banter.h#top), [elsewhere](https://example.com)\n```c\nint main(void) { return 0; }\n```\n",
    ".clang-format": (HERE.parents[1] / ".clang-format").read_text(),
    "sdk/include/banter/banter.h": GOOD_HEADER,
    "sdk/cmake/banter.exports": "banter_close\nbanter_open\n",
    "sdk/src/base/a.h": '#include <vector>\n\n#include "banter/banter.h"\n',
    "sdk/src/ops/b.cpp": '#include "base/a.h"\n#include "formats/x.h"\n',
    "samples/hello/main.c": '#include "banter/banter.h"\n#include "local.h"\n',
}


def header_with(old, new):
    assert old in GOOD_HEADER, old
    return {"sdk/include/banter/banter.h": GOOD_HEADER.replace(old, new)}


HOST = ".".join(("pypi", "org"))
HOME = "/".join(("", "root", "x"))
# lint, files that differ from the good example, what the output must contain.
BAD = [
    ("layers", {"sdk/src/base/a.h": '#include "formats/x.h"\n'}, "layer base may not include formats"),
    ("layers", {"sdk/src/ops/b.cpp": '#include "backend_cpu/k.h"\n'}, "layer ops may not include backend_cpu"),
    ("layers", {"sdk/src/ops/b.cpp": "#include <engine/k.h>\n"}, "layer ops may not include engine"),
    ("layers", {"sdk/src/ops/b.cpp": '#include "b.h"\n'}, "write the path from sdk/src"),
    ("layers", {"sdk/src/ops/b.cpp": '#include "../base/a.h"\n'}, "no layer has this name"),
    ("layers", {"sdk/src/util/b.cpp": ""}, None),  # a layer that nobody declared, without an include: nothing wrong yet
    ("layers", {"sdk/src/util/b.cpp": "#include <vector>\n"}, "unknown layer 'util'"),
    ("layers", {"samples/hello/main.c": '#include "engine/engine.h"\n'}, "include <banter/...> only"),
    ("layers", {"plugin_godot/src/a.cpp": '#include "../../sdk/src/base/a.h"\n'}, "include <banter/...> only"),
    ("layers", {"sdk/include/banter/banter.h": '#include "base/a.h"\n'}, "a public header includes only"),
    ("exports", {"sdk/cmake/banter.exports": "banter_open\n"}, "banter_close: in the public headers, not in"),
    ("exports", {"sdk/cmake/banter.exports": "banter_close\nbanter_gone\nbanter_open\n"}, "banter_gone: in sdk/cmake/banter.exports, not in"),
    ("exports", {"sdk/cmake/banter.exports": "banter_open\nbanter_close\n"}, "must be sorted"),
    ("exports", header_with("BANTER_API void BANTER_CALL banter_close(void);", "BANTER_API int close_it(void);"), "2 uses of BANTER_API, but 1"),
    ("header_docs", header_with(" *  Thread safety: any thread.\n", ""), 'banter_open: its comment lacks "Thread safety:"'),
    ("header_docs", header_with(" Since: 0.1.0 */\nBANTER_API void", " */\nBANTER_API void"), 'banter_close: its comment lacks "Since: X.Y.Z"'),
    ("header_docs", header_with(" *  @returns 0\n", ""), "banter_open: returns int, but its comment lacks @returns"),
    ("header_docs", header_with("@param path", "@param file"), "describes 'file', which is no parameter"),
    ("header_docs", header_with("/** Closes. Thread safety: any thread. Since: 0.1.0 */\n", ""), "banter_close: no /** comment */"),
    ("words", {"README.md": f"see https://{HOST}/simple\n"}, "names a package registry's host"),
    ("words", {"dev": f"cd {HOME}\n"}, "an absolute path of one machine"),
    ("words", {"sdk/src/base/a.h": "<<<<<<< HEAD\n"}, "a merge conflict's mark"),
    ("documents", {"README.md": "[gone](sdk/docs/gone.md)\n"}, "links to sdk/docs/gone.md, which is not there"),
    ("documents", {"README.md": "```c\nint main(void) { return x; }\n```\n"}, "C snippet 1 does not compile"),
    ("tree", {"stuff/a.c": "\n"}, "the top level holds only"),
    ("tree", {"sdk/src/base/a.h": "\n" * 1001}, "1001 lines, the limit is 1000"),
    ("formatting", {"sdk/src/base/a.h": "int   a ;\n"}, "sdk/src/base/a.h:1: not formatted"),
]


def run(lint, changes, *extra):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**GOOD, **changes}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-B", str(HERE / f"{lint}.py"), str(root), *(e.format(root=root) for e in extra)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def expect(label, lint, changes, wanted, failures, *extra):
    code, output = run(lint, changes, *extra)
    if wanted is None and code != 0:
        failures.append(f"{label}: must pass, but said:\n{output}")
    elif wanted is not None and (code == 0 or wanted not in output):
        failures.append(f"{label}: must fail with {wanted!r}; it ended with {code} and said:\n{output}")


def check_library(failures):
    """A real shared library with one symbol too many, and one too few; and a plugin likewise."""
    with tempfile.TemporaryDirectory() as folder:
        for label, source, wanted in (("all", "int banter_open(void){return 0;} void banter_close(void){}", None),
                                      ("extra", "int banter_open(void){return 0;} void banter_close(void){} int leaked(void){return 1;}",
                                       "leaked: in "),
                                      ("missing", "int banter_open(void){return 0;}", "banter_close: in sdk/cmake/banter.exports, not in")):
            library = f"{folder}/lib{label}.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
            expect(f"exports of a library ({label})", "exports", {}, wanted, failures, "--library", library)
            subprocess.run(["cc", "-c", "-x", "c", "-", "-o", f"{folder}/{label}.o"], input=source, text=True, check=True)
            subprocess.run(["ar", "rcs", f"{folder}/lib{label}.a", f"{folder}/{label}.o"], check=True)
            expect(f"exports of an archive ({label})", "exports", {}, wanted, failures, "--archive", f"{folder}/lib{label}.a")
        entry = "int banter_backend_plugin_v1(void){return 0;}"
        for label, source, wanted in (("plugin", entry, None), ("leaky", entry + "int leaked(void){return 1;}", "leaked: in "),
                                      ("empty", "static int x; int* y(void){return &x;}", "banter_backend_plugin_v1: in what a plugin exports")):
            library = f"{folder}/lib{label}.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
            expect(f"exports of a plugin ({label})", "exports", {}, wanted, failures, "--plugin", library)


def main():
    failures = []
    lints = sorted({lint for lint, _, _ in BAD})
    for lint in lints:
        expect(f"{lint} on the good example", lint, {}, None, failures)
    for lint, changes, wanted in BAD:
        expect(f"{lint} on {', '.join(changes)}", lint, changes, wanted, failures)
    check_library(failures)
    empty, output = run_empty()
    if empty == 0:
        failures.append(f"a lint that finds no file must fail, but said:\n{output}")
    print("\n".join(failures) if failures else f"lint self-test: {len(lints)} lints, {len(BAD) + len(lints) + 10} cases as expected")
    sys.exit(1 if failures else 0)


def run_empty():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-B", str(HERE / "layers.py"), folder], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


main()
