"""The zip of package.py: package_test.py GODOT LIBRARY. What is in it, twice the same, and an empty project that it is unpacked into."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
WANTED = {"LICENSE", "NOTICES.txt", "README.md", "THIRDPARTY.md", "autoload.gd", "autoload.gd.uid", "banter.gdextension", "banter.gdextension.uid", "plugin.cfg",
          "plugin.gd", "plugin.gd.uid", "bin/libbanter_godot.so", "icons/banter_engine.svg", "icons/banter_model.svg", "icons/banter_npc.svg",
          "icons/banter_profile.svg"}
CHECK = """extends SceneTree


func _initialize() -> void:
	var classes := ["BanterEngine", "BanterModel", "BanterNPC", "BanterProfile"].filter(func(name: String) -> bool: return ClassDB.can_instantiate(name))
	var parts := ["plugin.gd", "autoload.gd"].filter(func(name: String) -> bool: return ResourceLoader.exists("res://addons/banter/" + name))
	print("UNPACKED: ", classes.size(), " classes, ", parts.size(), " scripts")
	quit()
"""


def package(library, path, *options):
    subprocess.run([sys.executable, "-B", HERE.parent / "package.py", library, path, *options], check=True, stdout=subprocess.PIPE)
    return path.read_bytes()


def check_names(archive, library):
    names = archive.namelist()
    if names != sorted(names):
        sys.exit("the entries are not sorted")
    inside = {name.removeprefix("addons/banter/") for name in names}
    if any(not name.startswith("addons/banter/") for name in names):
        sys.exit(f"something is outside of addons/banter: {names}")
    editor = {name for name in inside if re.fullmatch(r"editor/\w+\.gd(\.uid)?", name)}
    if inside - editor != WANTED or not {"editor/dock.gd", "editor/dock.gd.uid"} <= editor:
        sys.exit(f"not what belongs into it: {sorted((inside - editor) ^ WANTED)}, {sorted(editor)}")
    if {name for name in editor if name.endswith(".gd")} != {name.removesuffix(".uid") for name in editor if name.endswith(".uid")}:
        sys.exit(f"a script of the editor has no .uid: {sorted(editor)}")
    readme = archive.read("addons/banter/README.md").decode()
    links = re.findall(r"\]\((?!https?://|#)([^)]*)\)", readme)
    if links or "](docs/" in readme or "## Demo" in readme:
        sys.exit(f"the README names what is not in the package: {links}")
    absent = re.findall(r"\./dev\b|plugin_godot|sdk/|tests/|doc_classes|flatc|## Folders", readme)
    if absent:
        sys.exit(f"the README talks of what only the sources have: {absent}")
    if not all(part in readme for part in ("## Quick start\n1. Copy", "## In the editor", "## What to know", "**A graphics card:**", "## Limits")):
        sys.exit("the README lost more than belongs to the sources")
    if archive.getinfo("addons/banter/bin/libbanter_godot.so").file_size >= library.stat().st_size:
        sys.exit("the library is not stripped")


def check_notices(archive):
    """Each library of THIRDPARTY.md's table has its part, with the line that its licence wants to be carried along."""
    text = archive.read("addons/banter/NOTICES.txt").decode()
    parts = dict(re.findall(r"^={100}\n(.+)\n={100}\n(.*?)(?=^={100}\n|\Z)", text, re.M | re.S))
    table = archive.read("addons/banter/THIRDPARTY.md").decode().partition("## Inside the library\n")[2].partition("\n## ")[0]
    inside = [name.strip("[]").partition("]")[0] for name in re.findall(r"^\| ([^|]+?) \|", table, re.M)[1:]]
    for name in inside + ["Godot's C interface"]:
        title = next((title for title in parts if name.split(",")[0] in title), None)
        if title is None or "Copyright" not in parts[title] or len(parts[title]) < 900:
            sys.exit(f"NOTICES.txt has no licence of {name}: {sorted(parts)}")
    for wanted in ("University of Cambridge", "Public Software Group", "Niels Lohmann", "Cameron Desrochers", "Google Inc", "Godot Engine contributors"):
        if wanted not in text:
            sys.exit(f"NOTICES.txt does not name {wanted}")


def check_project(godot, archive, folder):
    project = folder / "project"
    archive.extractall(project)
    (project / "project.godot").write_text("config_version=5\n")
    (project / "check.gd").write_text(CHECK)
    (project / ".godot").mkdir()
    (project / ".godot/extension_list.cfg").write_text("res://addons/banter/banter.gdextension\n")
    (folder / "home").mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(folder / "home")}
    done = subprocess.run([godot, "--headless", "--path", project, "--script", "res://check.gd"], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=100, text=True, errors="replace")
    if done.returncode != 0 or "UNPACKED: 4 classes, 2 scripts" not in done.stdout or "ERROR" in done.stdout:
        sys.exit(f"unpacked into an empty project ({done.returncode}):\n{done.stdout}")


def main():
    godot, library = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="banter package ü ") as folder:
        folder = pathlib.Path(folder)
        first, second = package(library, folder / "a.zip"), package(library, folder / "b.zip")
        if first != second:
            sys.exit("two packages of the same files differ")
        with zipfile.ZipFile(folder / "a.zip") as archive:
            check_names(archive, library)
            check_notices(archive)
            if b"[dependencies]" in archive.read("addons/banter/banter.gdextension"):
                sys.exit("a package without CUDA names its library")
            check_project(godot, archive, folder)
        package(library, folder / "c.zip", "--cuda", library)  # any library will do
        with zipfile.ZipFile(folder / "c.zip") as archive:
            extension = archive.read("addons/banter/banter.gdextension").decode()
            if "exports take it along" not in archive.read("addons/banter/README.md").decode():
                sys.exit("the README of a package with CUDA does not say so")
            cuda = "bin/" + library.name.replace("banter_godot", "banter_cuda")
            if f'[dependencies]\n\nlinux.x86_64 = {{ "{cuda}": "" }}' not in extension or f"addons/banter/{cuda}" not in archive.namelist():
                sys.exit(f"a package with CUDA:\n{extension}\n{archive.namelist()}")
    print("the package is whole, the same twice, and works in an empty project")


main()
