"""Writes a language model of half a megabyte with random weights, that a real llama.cpp serves: `tiny_model.py PATH`.

It talks nonsense at thousands of tokens a second, from a vocabulary of bytes. Names of tensors and of metadata are those of the
GGUF specification's `llama` architecture.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, INNER_WIDTH, BLOCKS, HEADS = 64, 128, 2, 4
CONTEXT = 2048
SPECIAL = (b"<unk>", b"<s>", b"</s>")
VOCABULARY = [*SPECIAL, *(b"<0x%02X>" % byte for byte in range(256))]


def write_tiny_model(path: Path) -> None:
    """Write the model; the same each time.

    Args:
        path: the file to write.
    """
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer)
    for name, shape in _matrices().items():
        weights = np.random.default_rng(len(name)).standard_normal(shape) * 0.05
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    for name in _norms():
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER_WIDTH)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(VOCABULARY)
    writer.add_token_scores([0.0] * len(VOCABULARY))
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256]
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _matrices() -> dict[str, tuple[int, int]]:
    shapes = {"token_embd": (len(VOCABULARY), WIDTH), "output": (len(VOCABULARY), WIDTH)}
    for block in range(BLOCKS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{block}.{part}"] = (WIDTH, WIDTH)
        for part in ("ffn_gate", "ffn_up"):
            shapes[f"blk.{block}.{part}"] = (INNER_WIDTH, WIDTH)
        shapes[f"blk.{block}.ffn_down"] = (WIDTH, INNER_WIDTH)
    return shapes


def _norms() -> list[str]:
    blocks = [f"blk.{block}.{part}" for block in range(BLOCKS) for part in ("attn_norm", "ffn_norm")]
    return ["output_norm", *blocks]


if __name__ == "__main__":
    write_tiny_model(Path(sys.argv[1]))
