"""A tiny made-up chat model for llama.cpp: ``python -m tests.support.tiny_model OUT_DIR``.

The weights are random, so the text is word salad, but every part of the server is real. One
dimension of the residual stream is a carrier that no layer writes to; through it the output layer
gets a fixed bias for each token, which keeps broken bytes and the end token from being chosen: at
temperature 0 an answer always has the length that was asked for.
"""

import hashlib
import json
import math
import os
import pydoc_data.topics
import sys
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
WIDTH = 384
LAYERS = 8
HEADS = 6
KEY_HEADS = 3
INNER = 1024
CONTEXT = 8192
SPECIALS = ("<|end|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (  # ChatML
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] }}"
    "{{ '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
NEVER = -40.0
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "tiny-model"


def tiny_model() -> Path:
    """The model's file, made when this script has changed since it was made last."""
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    path = CACHE / version / "model.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two test processes may make it at once: each writes its own file, and the last one stays.
        partial = path.with_name(f"{os.getpid()}.partial")
        write_model(partial)
        partial.rename(path)
    return path


def write_model(path: Path) -> None:
    """Train the tokenizer on the standard library's prose, draw weights, write the file."""
    tokenizer = _train_tokenizer()
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, tokenizer, tokens)
    for name, values in _weights(tokenizer, tokens):
        writer.add_tensor(name, values if values.ndim == 1 else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(_prose(), trainer)
    return tokenizer


def _prose():
    return [text for _, text in sorted(pydoc_data.topics.topics.items())]


def _describe(writer, tokenizer, tokens):
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if t in SPECIALS else kinds.NORMAL for t in tokens])
    writer.add_token_merges(_merges(tokenizer))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _merges(tokenizer):
    state = tokenizer.model.__getstate__()
    merges = json.loads(state)["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]


def _weights(tokenizer, tokens):
    """Tensor names and values; dimension 0 of every residual vector is the carrier."""
    rng = np.random.default_rng(20)
    head_width = WIDTH // HEADS
    carrier = math.sqrt(WIDTH)

    def drawn(rows, columns, scale):
        return (rng.normal(0, scale / math.sqrt(columns), (rows, columns))).astype(np.float32)

    embedding = rng.normal(0, 1, (len(tokens), WIDTH)).astype(np.float32)
    embedding[:, 0] = carrier
    yield "token_embd.weight", embedding
    yield "output_norm.weight", np.ones(WIDTH, np.float32)
    after_norm = carrier / math.sqrt((carrier**2 + WIDTH - 1) / WIDTH)
    head = drawn(len(tokens), WIDTH, 1.0)
    bias = _log_frequencies(tokenizer, tokens)
    head[bias <= NEVER] = 0
    head[:, 0] = bias / after_norm
    yield "output.weight", head
    quiet = 0.3 / math.sqrt(LAYERS)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        attention, down = drawn(WIDTH, WIDTH, quiet), drawn(WIDTH, INNER, quiet)
        attention[0] = down[0] = 0
        yield block + "attn_norm.weight", np.ones(WIDTH, np.float32)
        yield block + "ffn_norm.weight", np.ones(WIDTH, np.float32)
        yield block + "attn_q.weight", drawn(WIDTH, WIDTH, 1.0)
        yield block + "attn_k.weight", drawn(KEY_HEADS * head_width, WIDTH, 1.0)
        yield block + "attn_v.weight", drawn(KEY_HEADS * head_width, WIDTH, 1.0)
        yield block + "attn_output.weight", attention
        yield block + "ffn_gate.weight", drawn(INNER, WIDTH, 1.0)
        yield block + "ffn_up.weight", drawn(INNER, WIDTH, 1.0)
        yield block + "ffn_down.weight", down


def _log_frequencies(tokenizer, tokens):
    """How common each whole word is in the prose; bytes, controls and blanks never come out."""
    counts = np.zeros(len(tokens))
    for text in _prose():
        np.add.at(counts, tokenizer.encode(text).ids, 1)
    logs = np.full(len(tokens), NEVER)
    for index, token in enumerate(tokens):
        word = token.removeprefix("Ġ")
        if counts[index] and word.isascii() and word.isalpha():
            logs[index] = math.log(counts[index] / counts.sum())
    return logs


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_model(target / "model.gguf")
