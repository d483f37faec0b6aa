#!/usr/bin/env python3
"""The commands and the sample that let many talk at once, run as a user runs them, on a small model.

  commands_test.py MODEL.gguf BANTER WRITE_THINKING_MODEL [VILLAGE]

The model's heads have 8 dimensions, which cannot be quantised; those of the other one, which is written here, have 16.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

MODEL, BANTER, VILLAGE, WIDE = "", "", "", ""
KV_FORMATS = ("f32", "f16", "bf16", "int8", "int4")


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)


def banter(command, *options, model=None):
    result = run(BANTER, command, "--model", model or MODEL, "--threads", "2", *map(str, options), "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


class Generate(unittest.TestCase):
    def reply(self, *options, model=None):
        # A prompt of well over 16 tokens that repeats itself: it is read in chunks, and followed by guesses.
        prompt = "Once upon a time there was a big dog. The big dog saw a big cat. The big cat saw the big dog. " * 2
        return banter("generate", "--raw", "--prompt", prompt, "-n", 40, "--ignore-eos", *options, model=model)

    def test_nothing_changes_a_reply(self):
        for sampler in (["--temp", "0"], ["--temp", "1.1", "--top-k", "0", "--seed", "5"]):
            alone = self.reply(*sampler)
            self.assertEqual(len(alone["output_ids"]), 40)
            self.assertNotIn("crowd", alone)
            for options in (["--crowd", 1], ["--crowd", 12], ["--chunk", 16], ["--speculate", "ngram"], ["--speculate", MODEL],
                            ["--no-prefix-sharing"], ["--swap", 1], ["--crowd", 9, "--chunk", 5, "--speculate", "ngram"]):
                found = self.reply(*sampler, *options)
                self.assertEqual(found["output_ids"], alone["output_ids"], options)
                if options == ["--speculate", MODEL] and sampler == ["--temp", "0"]:
                    self.assertGreater(found["speculation"]["drafted_tokens"], 0)
                    self.assertLessEqual(found["speculation"]["accepted_tokens"], found["speculation"]["drafted_tokens"])
                if "--crowd" in options:
                    self.assertEqual(found["crowd"]["count"], options[1])
                    self.assertGreater(found["crowd"]["tokens"], 0)

    def test_every_kv_format_talks(self):
        alone = {kv: self.reply("--temp", 0, "--kv", kv, model=WIDE)["output_ids"] for kv in KV_FORMATS}
        self.assertEqual(alone["f32"], self.reply("--temp", 0, model=WIDE)["output_ids"])  # as suits weights in F32
        self.assertNotEqual(alone["int4"], alone["f32"])  # the option does something
        for kv in ("int8", "int4"):
            self.assertEqual(self.reply("--temp", 0, "--kv", kv, "--crowd", 5, "--chunk", 7, model=WIDE)["output_ids"], alone[kv], kv)
        refused = run(BANTER, "generate", "--model", MODEL, "--prompt", "x", "--kv", "int8")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("heads", refused.stderr)

    def test_a_trace_shows_steps_and_the_request(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self.reply("--temp", 0, "--chunk", 16, "--trace", path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        steps = [event for event in events if event.get("cat") == "step"]
        self.assertGreaterEqual(sum(event["args"]["decode_rows"] for event in steps), 39)  # the first token comes of the prompt
        self.assertGreater(sum(event["args"]["prefill_rows"] for event in steps), 16)
        self.assertTrue(all(event["dur"] > 0 and event["args"]["sequences"] == 1 for event in steps))
        self.assertIn("request", [event["name"] for event in events])

    def test_another_seed_gives_other_words(self):
        self.assertNotEqual(self.reply("--temp", 1.1, "--seed", 5)["output_ids"], self.reply("--temp", 1.1, "--seed", 6)["output_ids"])

    def test_a_draft_model_that_is_not_there_is_said(self):
        result = run(BANTER, "generate", "--model", MODEL, "--prompt", "x", "--speculate", "no_such_draft.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no_such_draft.gguf", result.stderr)

    def test_wrong_numbers_are_refused(self):
        for option, value in (("--crowd", "-1"), ("--crowd", "5000"), ("--chunk", "100000"), ("--swap", "x")):
            self.assertNotEqual(run(BANTER, "generate", "--model", MODEL, "--prompt", "x", option, value).returncode, 0)


class Perplexity(unittest.TestCase):
    TEXT = "Once upon a time there was a little girl. She had a big dog. The dog liked to play with the girl in the park.\n" * 12

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "story.txt")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.TEXT)

    def of(self, *options, model=None):
        return banter("perplexity", "--file", self.path, "--ctx", 256, *options, model=model)

    def test_a_story(self):
        found = self.of()
        self.assertGreater(found["windows"], 0)
        self.assertGreaterEqual(found["tokens"], found["windows"] * 256)
        self.assertEqual(found["scored_tokens"], found["windows"] * (256 // 2 - 1))
        # The model writes such stories; whoever guesses one of its tokens has 512.
        self.assertGreater(found["perplexity"], 1)
        self.assertLess(found["perplexity"], 10)
        self.assertEqual(self.of("--windows", 1)["windows"], 1)

    def test_every_kv_format(self):
        found = {kv: self.of("--kv", kv, model=WIDE)["perplexity"] for kv in KV_FORMATS}
        self.assertEqual(self.of(model=WIDE)["perplexity"], found["f32"])  # as suits weights in F32
        for kv, most in (("f16", 0.001), ("bf16", 0.01), ("int8", 0.02), ("int4", 0.5)):
            self.assertNotEqual(found[kv], found["f32"], kv)
            self.assertLess(abs(found[kv] / found["f32"] - 1), most, kv)

    def test_a_text_shorter_than_a_window_is_refused(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("Once upon a time.")
        result = run(BANTER, "perplexity", "--model", MODEL, "--file", self.path, "--ctx", "256")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a window needs 256", result.stderr)


class Backends(unittest.TestCase):
    def test_what_cannot_be_is_said_and_auto_goes_on(self):
        missing = ("--cuda-library", "/nowhere/libbanter_cuda.so")
        result = run(BANTER, "backends", *missing, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(found["auto"], found["cpu"])
        self.assertIsNone(found["cuda"])
        self.assertIn("there is no file /nowhere/libbanter_cuda.so", found["cuda_reason"])
        self.assertIn("--backend auto is cpu.", run(BANTER, "backends", *missing).stdout)
        for command in (("generate", "--prompt", "x"), ("perplexity", "--file", MODEL)):
            told = run(BANTER, command[0], "--model", MODEL, *command[1:], "--backend", "cuda", *missing)
            self.assertEqual(told.returncode, 1)
            self.assertIn("CUDA is not used: there is no file", told.stderr)
        self.assertEqual(run(BANTER, "generate", "--model", MODEL, "--prompt", "x", "-n", "2", "--backend", "auto", *missing).returncode, 0)


class Bench(unittest.TestCase):
    def test_characters(self):
        rows = banter("bench", "--npcs", "1,3", "-p", 48, "-n", 12, "-r", 1)["npcs"]
        self.assertEqual([row["count"] for row in rows], [1, 3])
        for row in rows:
            self.assertGreater(row["aggregate_tokens_per_second"], 0)
            for times in (row["ttft_ms"], row["itl_ms"]):
                self.assertGreater(times["p50"], 0)
                self.assertGreaterEqual(times["p99"], times["p50"])
            self.assertGreater(row["prefilled_tokens"], row["count"] * 44)  # the first part must not find prompts in the cache
            self.assertGreater(row["cached_fraction"], 0.5)  # the second part must measure decoding, not prompts

    def test_every_kv_format(self):
        size = {}
        for kv in KV_FORMATS:
            self.assertGreater(banter("bench", "-p", 24, "-n", 8, "-r", 1, "--kv", kv, model=WIDE)["decode"]["tokens_per_second"], 0)
            size[kv] = banter("bench", "--npcs", 2, "-p", 600, "-n", 256, "-r", 1, "--kv", kv, model=WIDE)["npcs"][0]["kv_bytes"]
        self.assertEqual(size["bf16"], size["f16"])
        self.assertLess(size["f16"], 0.6 * size["f32"])
        self.assertLess(size["int4"], size["int8"])
        self.assertLess(size["int8"], size["f16"])
        self.assertNotEqual(run(BANTER, "bench", "--model", WIDE, "--kv", "int3").returncode, 0)

    def test_a_shared_prefix(self):
        shared = banter("bench", "--npcs", "6", "-p", 112, "-n", 4, "-r", 1, "--shared-prefix", 96)["npcs"][0]
        self.assertGreater(shared["ttft_first_ms"], 0)
        self.assertGreater(shared["ttft_later_ms"]["p50"], 0)

    def test_frame_budget(self):
        found = banter("bench", "--frame-budget", 2, "--npcs", 2, "-p", 32, "-n", 16, "--seconds", 1)
        self.assertGreater(found["decode_tokens_per_second"], 0)
        self.assertGreater(found["prefill_tokens_per_second"], 0)
        self.assertGreater(found["busy_ms_per_frame_mean"], 0)

    def test_a_long_prompt_among_streams(self):
        found = banter("bench", "--intrude", 60, "--npcs", 2, "-p", 16)
        self.assertEqual(found["intruder_tokens"], 60)
        for part in ("gap_before_ms", "gap_during_ms", "gap_after_ms"):
            self.assertGreaterEqual(found[part]["p50"], 0)  # 0 where one poll found all
            self.assertGreaterEqual(found[part]["max"], found[part]["p50"])
        self.assertGreater(found["gap_after_ms"]["max"], 0)
        self.assertGreater(found["intruder_ttft_ms"], 0)

    def test_without_a_cache(self):
        found = banter("bench", "-p", 0, "-n", 24, "-r", 1, "--recompute")
        self.assertGreater(found["recompute"]["times_slower"], 0)

    def test_what_cannot_be_measured_is_refused(self):
        for options in (["--npcs", "0"], ["--npcs", "2", "-n", "1"], ["--npcs", "2", "-p", "0"], ["--frame-budget", "-1"]):
            self.assertNotEqual(run(BANTER, "bench", "--model", MODEL, *options).returncode, 0, options)

    def test_people_get_a_table(self):
        result = run(BANTER, "bench", "--model", MODEL, "--npcs", "2", "-p", "16", "-n", "4", "-r", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tokens/s", result.stdout)
        self.assertEqual(result.stdout.splitlines()[-1].split()[0], "2")


class Village(unittest.TestCase):
    def test_two_seconds(self):
        if not VILLAGE:
            self.skipTest("the samples are not built")
        with tempfile.TemporaryDirectory() as folder:
            plot = os.path.join(folder, "v.svg")
            result = run(VILLAGE, "--model", MODEL, "--seconds", "2", "--npcs", "12", "--work-ms", "1", "--plot", plot)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"frame time, engine off +p50 +\d")
            self.assertRegex(result.stdout, r"frame time, engine on +p50 +\d")
            self.assertRegex(result.stdout, r"[1-9]\d* replies, ")
            root = xml.etree.ElementTree.parse(plot).getroot()
            bars = root.findall("{http://www.w3.org/2000/svg}rect")
            self.assertEqual(len(bars), 1 + 2 * 12)  # the background, and two charts

    def test_what_is_wrong_is_said(self):
        if not VILLAGE:
            self.skipTest("the samples are not built")
        self.assertEqual(run(VILLAGE, "--npcs", "0", "--model", MODEL).returncode, 2)
        missing = run(VILLAGE, "--model", "no_such_model.gguf", "--seconds", "1")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no_such_model.gguf", missing.stderr)


if __name__ == "__main__":
    MODEL, BANTER, VILLAGE = sys.argv[1], sys.argv[2], sys.argv[4] if len(sys.argv) > 4 else ""
    with tempfile.TemporaryDirectory() as wide_folder:
        WIDE = os.path.join(wide_folder, "wide.gguf")
        subprocess.run([sys.argv[3], WIDE], check=True)
        unittest.main(argv=sys.argv[:1])
