"A checkpoint of some thousand random weights, on disk: a language model where only the machinery matters."

from collections.abc import Iterable
from pathlib import Path

TURNS = (
    "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


def tiny_tokenizer(texts: Iterable[str], chat: bool = True):
    "Learn a small vocabulary from texts, in which any byte can be written."
    import tokenizers as tk
    import transformers

    words = tk.Tokenizer(tk.models.BPE())
    words.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|end|>", "<|turn|>"],
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|end|>", pad_token="<|end|>"
    )
    if chat:
        tokenizer.chat_template = TURNS
    return tokenizer


def tiny_checkpoint(
    folder: str | Path, texts: Iterable[str], chat: bool = True, kind: str = "llama", **sizes
) -> Path:
    "Write a checkpoint of an architecture with a tokenizer learned from texts; the same each time."
    import torch
    import transformers

    tokenizer = tiny_tokenizer(texts, chat)
    usual = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "bos_token_id": None,
    }
    if kind == "mamba":  # has no heads, and its other sizes follow
        usual = {k: v for k, v in usual.items() if "token" in k or k.startswith(("hid", "num_hid"))}
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[kind](vocab_size=len(tokenizer), **usual, **sizes)
    transformers.AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)
