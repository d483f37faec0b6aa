#!/usr/bin/env python3
"""Writes tests/data/tiny_models/*.json: logits of tiny random models, one or more of every architecture, computed by an
independent implementation (Hugging Face transformers, eager attention, float64), for tests/model/tiny_models.test.cpp.

Run it by hand when a case is added:   python3 make_tiny_goldens.py OUT_FOLDER      (needs torch, transformers >= 5)

A case holds what the test needs to build the same model as a GGUF file: metadata, the tensors' names and shapes (row
length first), token ids, and logits at some positions. Weights are not stored; both sides make them by one formula:
  h = FNV-1a 64 of the tensor's name;  z_i = splitmix64's i-th output from seed h;  u_i = (z_i >> 40) / 2^23 - 1
  value_i = amplitude * u_i, plus 1 where the name ends in "norm.weight"
  amplitude = 1 for token_embd, 0.25 for norms, biases and matrices (elements in the file's order)
Tensors listed under "given" carry their values (rotary divisors)."""
import json
import math
import sys

import numpy as np
import torch
import transformers as tf

VOCABULARY, WIDTH, FEED, TOKENS = 72, 64, 96, 40
MASK = (1 << 64) - 1


def random_values(name, count):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if name.startswith("token_embd"):
        return u
    return 0.25 * u + (1.0 if name.endswith("norm.weight") else 0.0)


class File:
    """The tensors of the GGUF file under construction."""

    def __init__(self):
        self.tensors, self.given = [], []

    def get(self, name, *shape):
        """A numpy array of `shape` (rows first), remembered as a tensor of the file."""
        if name not in [n for n, _ in self.tensors]:
            self.tensors.append((name, list(reversed(shape))))
        return random_values(name, math.prod(shape)).reshape(shape)

    def give(self, name, values):
        values = np.asarray(values, dtype=np.float32)
        self.given.append((name, [float(v) for v in values]))
        return values.astype(np.float64)


def unpermute(w, heads):
    """GGUF's row order of llama's Q and K back to Hugging Face's."""
    rows, cols = w.shape
    return w.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def state_dict(f, config, arch, tied):
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or WIDTH // heads
    q, k, norm_shift = heads * head_dim, kv_heads * head_dim, 1.0 if arch.startswith("gemma") else 0.0
    state = {"model.embed_tokens.weight": f.get("token_embd.weight", VOCABULARY, WIDTH)}
    state["lm_head.weight"] = state["model.embed_tokens.weight"] if tied else f.get("output.weight", VOCABULARY, WIDTH)

    def norm(target, name, size=WIDTH):
        state[target] = f.get(name, size) - norm_shift

    norm("model.norm.weight", "output_norm.weight")
    for i in range(config.num_hidden_layers):
        b, m = f"blk.{i}.", f"model.layers.{i}."
        norm(m + "input_layernorm.weight", b + "attn_norm.weight")
        if arch == "phi3":
            state[m + "self_attn.qkv_proj.weight"] = f.get(b + "attn_qkv.weight", q + 2 * k, WIDTH)
            state[m + "mlp.gate_up_proj.weight"] = f.get(b + "ffn_up.weight", 2 * FEED, WIDTH)
        else:
            wq, wk = f.get(b + "attn_q.weight", q, WIDTH), f.get(b + "attn_k.weight", k, WIDTH)
            if arch == "llama":
                wq, wk = unpermute(wq, heads), unpermute(wk, kv_heads)
            state[m + "self_attn.q_proj.weight"], state[m + "self_attn.k_proj.weight"] = wq, wk
            state[m + "self_attn.v_proj.weight"] = f.get(b + "attn_v.weight", k, WIDTH)
            state[m + "mlp.gate_proj.weight"] = f.get(b + "ffn_gate.weight", FEED, WIDTH)
            state[m + "mlp.up_proj.weight"] = f.get(b + "ffn_up.weight", FEED, WIDTH)
        if arch == "qwen2":
            for letter, size in (("q", q), ("k", k), ("v", k)):
                state[m + f"self_attn.{letter}_proj.bias"] = f.get(b + f"attn_{letter}.bias", size)
        if arch in ("qwen3", "gemma3"):
            norm(m + "self_attn.q_norm.weight", b + "attn_q_norm.weight", head_dim)
            norm(m + "self_attn.k_norm.weight", b + "attn_k_norm.weight", head_dim)
        state[m + "self_attn.o_proj.weight"] = f.get(b + "attn_output.weight", WIDTH, q)
        state[m + "mlp.down_proj.weight"] = f.get(b + "ffn_down.weight", WIDTH, FEED)
        if arch.startswith("gemma"):
            norm(m + "post_attention_layernorm.weight", b + "post_attention_norm.weight")
            norm(m + "pre_feedforward_layernorm.weight", b + "ffn_norm.weight")
            norm(m + "post_feedforward_layernorm.weight", b + "post_ffw_norm.weight")
        else:
            norm(m + "post_attention_layernorm.weight", b + "ffn_norm.weight")
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}


def run(out, name, arch, make_model, config, metadata, tied=False, tokens=TOKENS, context=0, given=()):
    f = File()
    model = make_model(config).double().eval()
    missing = model.load_state_dict(state_dict(f, config, arch, tied), strict=False)
    assert not missing.unexpected_keys and not [k for k in missing.missing_keys if "inv_freq" not in k], missing
    for tensor, values in given:
        f.give(tensor, values)
    ids = [(37 * i * i + 11 * i + 5) % VOCABULARY for i in range(tokens)]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    assert logits.dtype == np.float64
    heads = config.num_attention_heads
    common = {
        "context_length": 64, "embedding_length": WIDTH, "block_count": config.num_hidden_layers,
        "feed_forward_length": FEED, "attention.head_count": heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    rows = [r for r in (0, 1, 7, 8, 9, 15, 23, 31, 38, 39) if r < tokens]
    case = {
        "architecture": arch, "context": context, "metadata": common | metadata, "tensors": f.tensors, "given": f.given,
        "ids": ids, "rows": rows, "logits": [[round(float(x), 7) for x in logits[r]] for r in rows],
    }
    with open(f"{out}/{name}.json", "w") as file:
        file.write(json.dumps(case, separators=(",", ":")) + "\n")
    print(f"{name}: logits within {logits.min():.2f} and {logits.max():.2f}, deviation {logits.std():.2f}")


def main():
    out = sys.argv[1]
    shape = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=FEED, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, attn_implementation="eager")

    def rope(base=10000.0, **more):
        return {"rope_theta": base, "rope_type": "default"} | more

    def llama(name, parameters, metadata, tied=False, given=()):
        config = tf.LlamaConfig(**shape, num_hidden_layers=3, tie_word_embeddings=tied, rope_parameters=parameters)
        run(out, name, "llama", tf.LlamaForCausalLM, config, metadata, tied, given=given)

    llama("llama", rope(), {"rope.dimension_count": 16})
    # Llama 3: the converter stores divisors of each pair; this is their definition.
    base, factor, low, high, old = 500000.0, 8.0, 1.0, 4.0, 32
    divisors = []
    for k in range(8):
        wavelength = 2 * math.pi * base ** (2 * k / 16)
        if wavelength < old / high:
            divisors.append(1.0)
        elif wavelength > old / low:
            divisors.append(factor)
        else:
            smooth = (old / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    llama("llama_tied_llama3", rope(base, rope_type="llama3", factor=factor, low_freq_factor=low, high_freq_factor=high,
                                    original_max_position_embeddings=old),
          {"rope.freq_base": base}, tied=True, given=[("rope_freqs.weight", divisors)])
    llama("llama_linear", rope(rope_type="linear", factor=4.0),
          {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    llama("llama_yarn", rope(100.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
          {"rope.freq_base": 100.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
           "rope.scaling.original_context_length": 16})
    config = tf.MistralConfig(**shape, num_hidden_layers=3, head_dim=16, sliding_window=9, rope_parameters=rope())
    run(out, "llama_mistral_window", "llama", tf.MistralForCausalLM, config, {"attention.sliding_window": 9})

    config = tf.Qwen2Config(**shape, num_hidden_layers=3, tie_word_embeddings=True, rope_parameters=rope(1e6))
    run(out, "qwen2", "qwen2", tf.Qwen2ForCausalLM, config, {"rope.freq_base": 1e6}, tied=True)
    config = tf.Qwen2Config(**shape, num_hidden_layers=3, tie_word_embeddings=False,
                            rope_parameters=rope(1000.0, rope_type="yarn", factor=2.0, original_max_position_embeddings=32))
    run(out, "qwen2_yarn", "qwen2", tf.Qwen2ForCausalLM, config,
        {"rope.freq_base": 1000.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 2.0,
         "rope.scaling.original_context_length": 32})
    config = tf.Qwen3Config(**shape, num_hidden_layers=3, head_dim=24, tie_word_embeddings=False, rope_parameters=rope(1e6))
    run(out, "qwen3", "qwen3", tf.Qwen3ForCausalLM, config,
        {"rope.freq_base": 1e6, "attention.key_length": 24, "attention.value_length": 24})

    # Caps and scales small enough, and windows short enough, that leaving one out would show.
    config = tf.Gemma2Config(**shape, num_hidden_layers=4, head_dim=32, sliding_window=8, query_pre_attn_scalar=32,
                             attn_logit_softcapping=3.0, final_logit_softcapping=5.0, rope_parameters=rope())
    run(out, "gemma2", "gemma2", tf.Gemma2ForCausalLM, config,
        {"attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 8,
         "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}, tied=True)
    config = tf.Gemma3TextConfig(
        **shape, num_hidden_layers=7, head_dim=32, sliding_window=8, query_pre_attn_scalar=32,
        rope_parameters={"sliding_attention": rope(), "full_attention": rope(1e6, rope_type="linear", factor=8.0)})
    assert [t[0] for t in config.layer_types] == list("sssssfs")
    run(out, "gemma3", "gemma3", tf.Gemma3ForCausalLM, config,
        {"attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 8, "rope.freq_base": 1e6,
         "rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, tied=True)

    config = tf.Phi3Config(**shape, num_hidden_layers=3, sliding_window=11, pad_token_id=0, eos_token_id=1,
                           rope_parameters=rope(partial_rotary_factor=1.0))
    run(out, "phi3", "phi3", tf.Phi3ForCausalLM, config, {"attention.sliding_window": 11})
    short, long = [1.0, 1.1, 1.3, 1.6, 2.0, 2.5], [1.0, 1.5, 2.5, 4.0, 6.0, 8.0]  # 6 pairs: three quarters of a head turn
    old = 16
    for name, tokens, context in (("phi3_longrope_short", 16, 16), ("phi3_longrope_long", TOKENS, 0)):
        config = tf.Phi3Config(**shape, num_hidden_layers=3, pad_token_id=0, eos_token_id=1,
                               original_max_position_embeddings=old,
                               rope_parameters=rope(rope_type="longrope", short_factor=short, long_factor=long,
                                                    partial_rotary_factor=0.75, original_max_position_embeddings=old))
        run(out, name, "phi3", tf.Phi3ForCausalLM, config,
            {"rope.dimension_count": 12, "rope.scaling.original_context_length": old,
             "rope.scaling.attn_factor": math.sqrt(1 + math.log(64 / old) / math.log(old))},
            tokens=tokens, context=context,
            given=[("rope_factors_short.weight", short), ("rope_factors_long.weight", long)])


main()
