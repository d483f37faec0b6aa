"""Plays the demo in a real headless Godot: demo_test.py GODOT LIBRARY MODEL.

The project is put together as ./dev godot does it, in a temporary folder, with a small model. Wanted: an evening that plays to its end, with everybody
having spoken and the saved conversations back; the parts that an evening does not try; ends with a reason where there is no model or no addon.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = HERE.parent
VILLAGERS = ("Mira", "Borin", "Edda", "Tomas", "LinPo", "AShi")
BAD = re.compile(r"^\s*(SCRIPT |USER )?(ERROR|WARNING)\b|CHECK FAILED|FAULT:|FAILED:|Leaked instance|Orphan StringName|Resource still in use", re.M)

# What no end of the demo may leave, whatever it is that it says.
UNCLEAN = re.compile(r"SCRIPT ERROR|leaked|still in use")


# All of it together, less than ctest gives it: what takes too long shows what it said.
SECONDS = 380


class Demo:
    def __init__(self, godot, library, folder):
        self.end = time.monotonic() + SECONDS
        self.godot, self.folder = godot, folder
        self.project = folder / "project"
        shutil.copytree(PLUGIN / "demo", self.project, ignore=shutil.ignore_patterns("addons", "fonts", ".godot"))
        shutil.copytree(PLUGIN / "addons/banter", self.project / "addons/banter", ignore=shutil.ignore_patterns("bin"))
        (self.project / "addons/banter/bin").mkdir()
        shutil.copy(library, self.project / "addons/banter/bin/libbanter_godot.so")
        for script in (HERE / "demo").glob("*.gd"):
            shutil.copy(script, self.project)
        (self.project / ".godot").mkdir()
        (self.project / ".godot/extension_list.cfg").write_text("res://addons/banter/banter.gdextension\n")
        (folder / "home").mkdir()

    def run(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BANTER_"))} | {"HOME": str(self.folder / "home")}
        command = [self.godot, "--headless", "--path", str(self.project), *arguments]
        seconds = max(1, min(120, self.end - time.monotonic()))
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        except subprocess.TimeoutExpired as expired:
            sys.exit(f"{' '.join(arguments)}: not at its end after {seconds:.0f} s\n{(expired.stdout or b'').decode(errors='replace')}")
        return done.returncode, done.stdout.decode(errors="replace")


def expect(good, what, output):
    if not good:
        sys.exit(f"{what}:\n{output}")


def test_evening(demo, model):
    # Time that goes as fast as it is computed: who walks does not have to be waited for.
    code, output = demo.run("--verbose", "--fixed-fps", "60", "--", "--script-evening", "--tokens", "12", "--seconds", "80", f"--model={model}")
    found = BAD.search(output)
    expect(code == 0 and not found, f"the evening ended with {code}{', ' + found.group(0) if found else ''}", output)
    end = re.search(r"^EVENING ENDED: (\d+) villagers, (\d+) lines of chatter, faults: 0$", output, re.M)
    expect(end and int(end[1]) == len(VILLAGERS) and int(end[2]) >= 4, "the evening did not come to its end", output)
    for name in VILLAGERS:
        expect(re.search(rf"^\[{name}\] \S", output, re.M), f"{name} did not speak", output)
    expect("[Borin (was cut short)]" in output, "nobody cut in", output)
    saved = re.search(r"^SAVED AND LOADED: (\d+) conversations, (\d+) bytes$", output, re.M)
    expect(saved and int(saved[1]) == len(VILLAGERS) and int(saved[2]) > 0, "the conversations did not come back", output)
    return end[0]


def test_measurement(demo, model):
    code, output = demo.run("--", "--measure", "--seconds", "0.5", "--rounds", "1", "--tokens", "12", f"--model={model}")
    expect(code == 0 and not BAD.search(output), f"the measurement ended with {code}", output)
    measured = re.search(r'^MEASURED: .*"idle":\{"frames":(\d+).*"talking":\[\{.*"frames":(\d+).*"tokens_per_second":([\d.]+)', output, re.M)
    expect(measured and all(float(figure) > 0 for figure in measured.groups()), "the measurement has no figures", output)


def test_faults(demo, folder):
    broken = folder / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    for what, wanted, arguments in (
            ("no model", 1, ["--script-evening", "--model=/no such model.gguf"]),
            ("a broken model", 1, ["--script-evening", f"--model={broken}"]),
            ("an unknown option", 2, ["--evening"]),
            ("an option without its value", 2, ["--model"])):
        code, output = demo.run("--", *arguments)
        expect(code == wanted and "OAKREST FAILED" in output and not UNCLEAN.search(output), f"{what} ended with {code}", output)
    code, output = demo.run("--", "--help")
    expect(code == 0 and "--script-evening" in output and not UNCLEAN.search(output), f"--help ended with {code}", output)
    code, output = demo.run("--", "--screen-no-model")
    expect(code == 0 and "NO-MODEL SCREEN SHOWN" in output and not BAD.search(output), f"the screen without a model ended with {code}", output)
    # Last, since it takes the addon away.
    shutil.rmtree(demo.project / "addons")
    (demo.project / ".godot/extension_list.cfg").unlink()
    code, output = demo.run("--", "--script-evening")
    expect(code == 1 and "OAKREST FAILED: the addon is not here" in output, f"without the addon it ended with {code}", output)


def main():
    godot, library, model = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="banter demo ü ") as folder:
        demo = Demo(godot, library, pathlib.Path(folder))
        code, output = demo.run("--import")  # the editor's list of classes; without it a script knows no other
        expect(code == 0 and not re.search(r"SCRIPT ERROR|Parse Error", output), f"the import ended with {code}", output)
        for script in ("parts", "playing"):
            code, output = demo.run("--verbose", "--script", f"res://{script}.gd", "--", f"--model={model}", "--tokens=12")
            expect(code == 0 and "TEST ENDED, failures: 0" in output and not BAD.search(output), f"{script} ended with {code}", output)
        ended = test_evening(demo, model)
        test_measurement(demo, model)
        test_faults(demo, pathlib.Path(folder))
    print(ended)


main()
