"""The `tiny` model: a small Llama from scratch, and a tokenizer in which one word or one board cell is one token.

It is a token policy and not a language model: it has read nothing. Its vocabulary is all bytes, so that any text can be
encoded and decoded without loss, and the frozen list of words and glyphs below that our environments use, so that
episodes are short. The order of the list is part of every checkpoint; new words go into the reserved slots.
"""

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, USER, ASSISTANT, END = "<|pad|>", "<|user|>", "<|assistant|>", "<|end|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_VOCABULARY_SIZE = 1024
_ROPE_THETA = 100.0
"""Episodes are hundreds of tokens long, not thousands: this spends the rotations on the distances that occur."""

_GLYPHS = "_#OGPX√SB.@$*+?|-><^v0123456789"
_WORDS = """
Left Down Right Up || Push Stay
You you walk on a frozen lake is ice hole the goal Reach ends game Reply with one of to moves move joined by each
The slippery goes where intend probability else its sides intended and slid edge holds back reached fell into
could not read At most are allowed in reply Nothing happened turns left turn actions action
I am at go then next will be plan after from here step steps box boxes wall target player floor push row column
pull arm arms machine Phoenix Dragon Pull reward paid High Low
Each an average can more own pays shown side that two way Think first act write your thought answer where as described
above <think> </think> <answer> </answer> <code> </code> <interpreter> </interpreter>
def return for while if print import range int str len sum max min True False None
path cost anchor waypoint budget start map free obstacle unreachable Sokoban every onto only pushed
""".split()  # noqa: SIM905

# Of CodeInterpreter-v0's questions and programs, each in the form in which it occurs; no other environment's own texts
# hold them, so those are the same tokens as before.
_AFTER_A_SPACE = """
number many ways term times date What doors How customer when days closed how order aside circle decimal digits minutes
plus coins calendar datetime remainder divided included year math door open numbered deque adds timedelta Fraction heapq
positive part total coin sequence later numbers different things chosen Which day week pass whose multiple opened passes
menu starters main courses desserts meals people stand Counting leaves until collections greatest common divisor Write
fraction fractions shop counters comes opens counter served wait halves even odd divisors written whole prime month
years begins Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""".split()  # noqa: SIM905
_BARE = """
What days day fromisoformat circle Begin Gregorian date How month math comb Today index rotate popleft gcd Which
Fraction customer heapreplace part coin pow weekday ways total doors door
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""".split()  # noqa: SIM905
_CODE = ("\n   ", "\n       ", "):", " =", " +=", " ==", " **", " //", " %", " k", " q")


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of `tiny`: bytes, and whole words with and without a space before them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in (PAD, USER, ASSISTANT, END)])
    words = dict.fromkeys(form for word in [*_GLYPHS, *_WORDS] for form in (word, f" {word}"))
    words |= dict.fromkeys([*(f" {word}" for word in _AFTER_A_SPACE), *_BARE, *_CODE])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words if len(word) > 1])
    reserved = _VOCABULARY_SIZE - tokenizer.get_vocab_size()
    assert reserved >= 0, "the word list no longer fits into the frozen vocabulary"
    tokenizer.add_special_tokens([AddedToken(f"<|reserved_{index}|>", normalized=False) for index in range(reserved)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def build_model(seed: int, *, width: int = 96, layers: int = 3, heads: int = 4) -> LlamaForCausalLM:
    """A freshly initialised model.

    Args:
        seed: Seed of the initial weights; PyTorch's global generator is left as it was.
        width: Size of the hidden state.
        layers: How many blocks.
        heads: Attention heads; must divide `width`.
    """
    config = LlamaConfig(
        vocab_size=_VOCABULARY_SIZE,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=width**-0.5 / 2,
        rope_parameters={"rope_type": "default", "rope_theta": _ROPE_THETA},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
