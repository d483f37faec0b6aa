"""Makes the zip for Godot's asset store: package.py LIBRARY ZIP [--cuda LIBRARY]. Prints the path and the size.

The same files give the same bytes: entries are sorted, and their times are fixed. Everything is in addons/banter: the addon as it is in the
repository, the library without its symbols, README, LICENSE, and the licences of what is inside the library (NOTICES.txt).
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ADDON = HERE / "addons/banter"
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can tell
# What an editor or a build leaves in the folder, and is none of the addon's.
FOREIGN = {".import", ".so", ".tmp", ".pyc"}
DEPENDENCIES = '\n[dependencies]\n\nlinux.x86_64 = { "bin/libbanter_cuda.so": "" }\n'


def stripped(library, folder):
    """The library's bytes without what only a debugger needs."""
    out = folder / library.name
    subprocess.run(["strip", "--strip-unneeded", "-o", out, library], check=True)
    return out.read_bytes()


# What is inside the library (THIRDPARTY.md): Debian's package, whose copyright file is the text, or a file of notices/.
NOTICES = {"PCRE2": "libpcre2-dev", "utf8proc": "libutf8proc-dev", "moodycamel::ConcurrentQueue": "libconcurrentqueue-dev",
           "nlohmann/json": "nlohmann-json3-dev", "FlatBuffers": "libflatbuffers-dev", "libstdc++ and libgcc": "libstdc++6",
           "Godot's C interface": "godot"}
NOTICES_HEAD = """The library of this addon contains the software below. A program that ships the library carries these notices along.
Where a text names /usr/share/common-licenses/Apache-2.0: that is the file LICENSE beside this one.
"""


def notice(name):
    """The licence of a package."""
    for path in (HERE / "notices" / f"{name}.txt", pathlib.Path("/usr/share/doc") / name / "copyright"):
        if path.is_file():
            return path.read_text()
    sys.exit(f"The licence of {name} is not there: install Debian's package of this name, or put the text into plugin_godot/notices/{name}.txt.")


def notices():
    """The licences of everything that is inside the library."""
    parts = [NOTICES_HEAD]
    for title, name in NOTICES.items():
        parts.append(f"{'=' * 100}\n{title}\n{'=' * 100}\n{notice(name).strip()}\n")
    return "\n".join(parts)


# What of the README is otherwise for somebody who has the zip: a part of it, and what stands there instead. Each is in it once.
STEPS = """1. Copy the folder `addons/banter` of this zip into your project's folder `addons`.
2. Bring a model, a GGUF file that can chat (the name of such a one often has "instruct" or "chat" in it), into the project or anywhere else.
"""
CUDA_INSIDE = """- **A graphics card:** the CUDA backend, `libbanter_cuda.so`, lies in `addons/banter/bin`, and exports take it along (`[dependencies]` in `banter.gdextension`). It needs an
  NVIDIA card and its driver, nothing else. `BanterEngine.backend_name` and `backend_reason` tell what computes, and why.

"""
CUDA_OUTSIDE = """- **A graphics card:** this zip computes on the processor. The one that is made with the CUDA backend has `libbanter_cuda.so` in `addons/banter/bin`, and takes NVIDIA cards.
  `BanterEngine.backend_name` and `backend_reason` tell what computes, and why.

"""


def own_readme(text, cuda):
    """The README without what stays behind: pictures, the demo, how to build it and work on it."""
    text = "".join(line for line in text.splitlines(True) if not line.startswith("!["))
    for part, instead in ((r"^1\. Build the addon.*?(?=^3\. )", STEPS),
                          (r"^- \*\*A graphics card:\*\*.*?(?=^## )", CUDA_INSIDE if cuda else CUDA_OUTSIDE),
                          (r" \(compiled with `flatc`, see[^)]*\)", " (compiled ones, as Banter's SDK makes them of JSON)"),
                          (r"^## Demo\n.*?(?=^## )", ""),
                          (r"^## Folders\n.*?(?=^## )", "")):
        text, count = re.subn(part, lambda _, new=instead: new, text, flags=re.M | re.S)
        if count != 1:
            sys.exit(f"plugin_godot/README.md has {count} times what belongs into it once: {part}")
    return text


def contents(library, cuda):
    entries = {}
    for path in sorted(ADDON.rglob("*")):
        if path.is_file() and path.suffix not in FOREIGN and "bin" not in path.relative_to(ADDON).parts:
            entries[path.relative_to(ADDON).as_posix()] = path.read_bytes()
    entries["README.md"] = own_readme((HERE / "README.md").read_text(), cuda).encode()
    entries["THIRDPARTY.md"] = (HERE.parent / "THIRDPARTY.md").read_bytes()
    entries["NOTICES.txt"] = notices().encode()
    with tempfile.TemporaryDirectory() as folder:
        entries["bin/libbanter_godot.so"] = stripped(library, pathlib.Path(folder))
        if cuda:
            entries["bin/libbanter_cuda.so"] = stripped(cuda, pathlib.Path(folder))
            entries["banter.gdextension"] += DEPENDENCIES.encode()
    return entries


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("zip", type=pathlib.Path)
    parser.add_argument("--cuda", type=pathlib.Path, help="libbanter_cuda.so of the same sources")
    options = parser.parse_args()
    with zipfile.ZipFile(options.zip, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(contents(options.library, options.cuda).items()):
            entry = zipfile.ZipInfo("addons/banter/" + name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data)
    print(options.zip.resolve(), f"({options.zip.stat().st_size / 1e6:.1f} MB)")


main()
