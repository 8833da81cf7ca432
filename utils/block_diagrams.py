"""The block diagrams of the notebooks, as data. `show(name)` is the picture, as the last line of a cell.

After a change, `python docs/draw_diagrams.py` draws them again, and the next build puts them into the notebooks.
"""

import base64
import html
from pathlib import Path

from utils.diagrams import Box, Diagram, Line, add, flow, label, memory, residual, stream, tensor, title

FOLDER = Path(__file__).resolve().parents[1] / "data" / "diagrams"

LAYER = Diagram(
    height=640,
    boxes={
        "x": tensor(125, 26, "x  (B, T, d_model)", 200),
        "self_attn": Box(300, 104, "self_attn", 150),
        "mask": label(431, 104, "mask\n(T, T)", 72, 46),
        "dropout 1": Box(300, 152, "dropout", 150),
        "add 1": add(125, 196),
        "norm1": Box(125, 242, "norm1", 110),
        "linear1": Box(300, 318, "linear1", 150),
        "relu": Box(300, 366, "relu", 150),
        "wide": label(431, 366, "(B, T,\nd_ff)", 72, 46),
        "dropout 2": Box(300, 414, "dropout", 150),
        "linear2": Box(300, 462, "linear2", 150),
        "dropout 3": Box(300, 510, "dropout", 150),
        "add 2": add(125, 548),
        "stream": label(53, 400, "residual\nstream", 86, 46),
        "norm2": Box(125, 588, "norm2", 110),
        "y": tensor(300, 588, "y  (B, T, d_model)", 200),
    },
    lines=[
        *stream("x", "add 1", "norm1", "add 2", "norm2", "y"),
        flow((125, 66), (300, 66), "self_attn"),
        flow("mask", "self_attn"),
        flow("self_attn", "dropout 1"),
        flow("dropout 1", (300, 196), "add 1"),
        flow((125, 280), (300, 280), "linear1"),
        flow("linear1", "relu"),
        flow("relu", "dropout 2"),
        flow("dropout 2", "linear2"),
        flow("linear2", "dropout 3"),
        flow("dropout 3", (300, 548), "add 2"),
    ],
    alt="One layer, from bottom to top. The residual stream runs from x (B, T, d_model) through norm1 and norm2 to y "
    "(B, T, d_model). A first branch leaves it, passes self_attn, which also gets the mask (T, T), and dropout, "
    "and is added to the stream before norm1. A second branch passes linear1, relu, dropout, linear2 and dropout, "
    "is (B, T, d_ff) wide inside, and is added before norm2.",
)

# The rows of 8.1 and the heads that read their states: tokens from the left, and what is above which of them.
ROWS = {
    "single: a class, or a tag for each token": (
        ["[CLS]", "ada", "met", "bob", "[SEP]"], {0: "class", 1: "tag", 2: "tag", 3: "tag"},
    ),
    "pair: a class": (["[CLS]", "text a", "[SEP]", "text b", "[SEP]"], {0: "class"}),
    "qa: a start and an end": (["[CLS]", "who", "[SEP]", "ada", "king", "[SEP]"], {3: "start", 4: "end"}),
    "choice: a score for each option": (["[CLS]", "context", "[SEP]", "option", "[SEP]"], {0: "score"}),
}  # fmt: skip


def bert_rows() -> tuple[dict[str, Box], list[Line]]:
    """Boxes and lines of the picture `bert`, a row below the other."""
    boxes, lines = {}, []
    for row, (name, (tokens, heads)) in enumerate(ROWS.items()):
        y = 26 + 178 * (len(ROWS) - 1 - row)
        boxes[name] = title(240, y + 130, name, 400)
        boxes[f"encoder {row}"] = Box(240, y + 46, "encoder", 460, 30)
        for place, token in enumerate(tokens):
            x = 50 + 76 * place
            boxes[f"token {row} {place}"] = tensor(x, y, token, 73)
            lines.append(flow(f"token {row} {place}", f"encoder {row}"))
            if place in heads:
                boxes[f"head {row} {place}"] = Box(x, y + 92, heads[place], 68, 30, "new")
                lines.append(flow(f"encoder {row}", f"head {row} {place}"))
    return boxes, lines


BERT = Diagram(
    710,
    *bert_rows(),
    alt="Four rows of tokens, each read by the same encoder, and what is read from its states. Single: [CLS], ada, "
    "met, bob, [SEP]; above [CLS] a class, above each word a tag. Pair: [CLS], text a, [SEP], text b, [SEP]; "
    "above [CLS] a class. Qa: [CLS], who, [SEP], ada, king, [SEP]; above ada the start and above king the end of "
    "the answer. Choice: [CLS], context, [SEP], option, [SEP]; above [CLS] a score, and there is such a row for "
    "each option.",
)

MEMORY = Diagram(
    height=470,
    boxes={
        f"{part} {n}": Box(x, y, text.format(n), 116, 30, kind)
        for n, x in ((1, 76), (2, 240), (3, 404))
        for part, y, text, kind in (
            ("tokens", 26, "segment {}", "tensor"),
            ("embedding", 74, "embedding", "part"),
            ("x0", 122, "x⁰ (B, T, d)", "tensor"),
            ("layer 1", 186, "layer 1", "part"),
            ("x1", 234, "x¹ (B, T, d)", "tensor"),
            ("layer 2", 298, "layer 2", "part"),
            ("x2", 346, "x² (B, T, d)", "tensor"),
            ("head", 394, "head", "part"),
        )
    }
    | {"legend": label(276, 446, "memory: kept, no gradient flows back", 336)},
    lines=[memory((50, 446), "legend")]
    + [
        line
        for n, x in ((1, 158), (2, 322), (3, 0))
        for line in (
            *(
                flow(f"{part} {n}", f"{other} {n}")
                for part, other in (
                    ("tokens", "embedding"), ("embedding", "x0"), ("x0", "layer 1"), ("layer 1", "x1"),
                    ("x1", "layer 2"), ("layer 2", "x2"), ("x2", "head"),
                )
            ),
            *(
                memory(f"x{depth} {n}", (x, y), (x, y + 64), f"layer {depth + 1} {n + 1}")
                for depth, y in ((0, 122), (1, 234))
                if n < 3
            ),
        )
    ],
    alt="Three segments side by side, segment 1, segment 2 and segment 3, each read from bottom to top: embedding, x⁰ "
    "(B, T, d), layer 1, x¹ (B, T, d), layer 2, x² (B, T, d), head. Dashed arrows of memory lead from x⁰ of one "
    "segment to layer 1 of the next, and from x¹ to layer 2 of the next. No gradient flows back along them.",
)  # fmt: skip

STREAMS = Diagram(
    height=330,
    boxes={
        "h": tensor(125, 30, "h (B, T, d)", 200),
        "g": tensor(385, 30, "g (B, T, d)", 150),
        "query h": label(65, 96, "query", 72, 32),
        "keys": label(166, 96, "keys, values", 118, 32),
        "query g": label(400, 96, "query", 72, 32),
        "content": Box(120, 176, "layer with the\ncontent mask", 190, 52),
        "asking": Box(360, 176, "layer with the\nquery mask", 190, 52),
        "same": title(240, 230, "the same weights", 186),
        "h'": tensor(120, 300, "h′ (B, T, d)", 150),
        "g'": tensor(360, 300, "g′ (B, T, d)", 150),
    },
    lines=[
        flow("h", "query h"),
        flow("query h", "content"),
        flow("h", "keys"),
        flow("keys", "content"),
        flow("keys", (310, 96), "asking"),
        flow("g", "query g"),
        flow("query g", "asking"),
        flow("content", "h'"),
        flow("asking", "g'"),
    ],
    frames=[("content", "asking", "same")],
    alt="Two streams through one layer. At the left h (B, T, d) gives the query, and the keys and values; the layer "
    "with the content mask makes h′ (B, T, d) of them. At the right g (B, T, d) gives the query alone; the layer "
    "with the query mask reads keys and values of h, and makes g′ (B, T, d). Both have the same weights.",
)

TRANSLATOR = Diagram(
    height=600,
    boxes={
        "encoder": title(118, 448, "encoder layer", 146),
        "source": tensor(77, 26, "source (B, S, d)", 150),
        "self 1": Box(150, 100, "self-attention", 136),
        "add 1": add(36, 144),
        "norm 1": Box(36, 188, "norm1", 68),
        "feed 1": Box(150, 264, "feed-forward", 136),
        "add 2": add(36, 308),
        "norm 2": Box(36, 352, "norm2", 68),
        "m": tensor(118, 404, "memory m (B, S, d)", 190),
        "decoder": title(320, 526, "decoder layer", 146),
        "target": tensor(380, 26, "words so far (B, T, d)", 196),
        "self 2": Box(320, 100, "self-attention,\ncausal", 136, 46),
        "add 3": add(444, 152),
        "norm 3": Box(444, 196, "norm1", 68),
        "cross": Box(320, 272, "cross-attention", 136, 32, "new"),
        "add 4": add(444, 316),
        "norm 4": Box(444, 360, "norm2", 68),
        "feed 2": Box(320, 436, "feed-forward", 136),
        "add 5": add(444, 480),
        "norm 5": Box(444, 524, "norm3", 68),
        "out": tensor(410, 574, "(B, T, d)", 130),
    },
    lines=[
        *stream("source", "add 1", "norm 1", "add 2", "norm 2", "m"),
        flow((36, 62), (150, 62), "self 1"),
        flow("self 1", (150, 144), "add 1"),
        flow((36, 226), (150, 226), "feed 1"),
        flow("feed 1", (150, 308), "add 2"),
        flow("m", (232, 404), (232, 272), "cross"),
        *stream("target", "add 3", "norm 3", "add 4", "norm 4", "add 5", "norm 5", "out"),
        flow((444, 58), (320, 58), "self 2"),
        flow("self 2", (320, 152), "add 3"),
        flow((444, 232), (320, 232), "cross"),
        flow("cross", (320, 316), "add 4"),
        flow((444, 396), (320, 396), "feed 2"),
        flow("feed 2", (320, 480), "add 5"),
    ],
    alt="Two layers, each with a residual stream from bottom to top. The encoder layer: source (B, S, d), "
    "self-attention added, norm1, feed-forward added, norm2, memory m (B, S, d). The decoder layer: words so far "
    "(B, T, d), self-attention, causal, added, norm1, cross-attention added, norm2, feed-forward added, norm3, "
    "(B, T, d). An arrow leads from the memory to cross-attention.",
)

FUSED = Diagram(
    height=500,
    boxes={
        "x": tensor(74, 26, "x (B, T, d)", 130),
        "states": tensor(385, 26, "BERT's states h_B", 180),
        "self": Box(142, 104, "self-attention", 136),
        "bert": Box(300, 104, "bert-attention", 136, 32, "new"),
        "mean": Box(221, 160, "mean", 80, 32, "new"),
        "add 1": add(36, 206),
        "norm1": Box(36, 250, "norm1", 68),
        "feed": Box(221, 326, "feed-forward", 136),
        "add 2": add(36, 370),
        "norm2": Box(36, 414, "norm2", 68),
        "y": tensor(74, 468, "(B, T, d)", 130),
    },
    lines=[
        *stream("x", "add 1", "norm1", "add 2", "norm2", "y"),
        flow((36, 66), (300, 66), "bert"),
        flow((142, 66), "self"),
        memory("states", (430, 104), "bert"),
        flow("self", (142, 160), "mean"),
        flow("bert", (300, 160), "mean"),
        flow("mean", (221, 206), "add 1"),
        flow((36, 288), (221, 288), "feed"),
        flow("feed", (221, 370), "add 2"),
    ],
    alt="A BERT-fused layer with a residual stream from bottom to top. x (B, T, d) goes to self-attention and to "
    "bert-attention side by side. Bert-attention also gets BERT's states h_B, along a dashed arrow: no gradient "
    "flows back. The mean of both is added to the stream; then norm1, feed-forward added, norm2, (B, T, d).",
)

BLOCKS = Diagram(
    height=640,
    boxes={
        "then": title(118, 620, "2017", 80),
        "x": tensor(56, 26, "x", 80),
        "positions": label(152, 26, "+ positions", 104),
        "attention": Box(172, 158, "attention", 112),
        "add 1": add(56, 216),
        "norm 1": Box(56, 262, "LayerNorm", 106),
        "linear1": Box(172, 340, "linear1", 112),
        "relu": Box(172, 388, "relu", 112),
        "linear2": Box(172, 436, "linear2", 112),
        "add 2": add(56, 484),
        "norm 2": Box(56, 530, "LayerNorm", 106),
        "y": tensor(56, 580, "y", 80),
        "now": title(376, 620, "today, no biases", 170),
        "x now": tensor(268, 26, "x", 80),
        "norm 3": Box(376, 106, "RMSNorm", 188, 32, "new"),
        "attention now": Box(376, 162, "attention: rotary,\nfew keys, cache", 188, 48, "new"),
        "add 3": add(268, 216),
        "norm 4": Box(376, 292, "RMSNorm", 188, 32, "new"),
        "gate": Box(328, 340, "silu(gate)", 92, 32, "new"),
        "up": Box(427, 340, "up", 86, 32, "new"),
        "times": Box(376, 388, "×", 26, 26, "add", bold=True),
        "down": Box(376, 436, "down", 188, 32, "new"),
        "add 4": add(268, 484),
        "y now": tensor(268, 580, "y", 80),
    },
    lines=[
        *stream("x", "add 1", "norm 1", "add 2", "norm 2", "y"),
        flow((56, 66), (172, 66), "attention"),
        flow("attention", (172, 216), "add 1"),
        flow((56, 300), (172, 300), "linear1"),
        flow("linear1", "relu"),
        flow("relu", "linear2"),
        flow("linear2", (172, 484), "add 2"),
        *stream("x now", "add 3", "add 4", "y now"),
        flow((268, 66), (376, 66), "norm 3"),
        flow("norm 3", "attention now"),
        flow("attention now", (376, 216), "add 3"),
        flow((268, 254), (376, 254), "norm 4"),
        flow("norm 4", "gate"),
        flow("norm 4", "up"),
        flow("gate", (328, 388), "times"),
        flow("up", (427, 388), "times"),
        flow("times", "down"),
        flow("down", (376, 484), "add 4"),
    ],
    alt="Two blocks side by side, from x to y. 2017, where positions are added to the first x: attention is added to "
    "the residual stream, LayerNorm follows on the stream; linear1, relu and linear2 are added, and LayerNorm "
    "follows. Today, no biases: the stream has no norm on it. A branch with RMSNorm and attention: rotary, few "
    "keys, cache, is added; then one with RMSNorm, silu(gate) times up, ×, and down.",
)

LAYERS = {  # of 6.1, from bottom to top, as adapters add to them
    "BERT's layer": ["attention", "skip, norm", "feed-forward", "skip, norm"],
    "one adapter": ["attention", "skip, norm", "feed-forward", "skip, norm", "adapter", "skip, norm"],
    "three, fused": [
        "attention", "skip, norm", "feed-forward", "skip, norm", "three adapters", "fusion", "skip, norm",
    ],
}  # fmt: skip


def adapter_columns() -> tuple[dict[str, Box], list[Line]]:
    """Boxes and lines of the picture `adapters`, a column beside the other."""
    boxes, lines = {}, []
    for x, (name, parts) in zip((70, 234, 398), LAYERS.items(), strict=True):
        ways = [57 + 58 * place for place in range(len(parts) + 1)]  # below each part, and above the last one
        boxes[name] = title(x, 18, name, 136)
        names = [f"{name} {place}" for place in range(len(parts))]
        for place, block in enumerate(parts):
            new = "new" if block in ("adapter", "three adapters", "fusion") else "part"
            boxes[names[place]] = Box(x, 86 + 58 * place, block, 134, 32, new)
        lines += [flow((x, 40), names[0]), *map(flow, names, names[1:]), flow(names[-1], (x, ways[-1] + 8))]
        beside, last = x + 77, len(parts) - 1
        lines.append(flow((x, ways[0]), (beside, ways[0]), (beside, 86 + 58), names[1]))
        lines.append(flow((x, ways[2]), (beside, ways[2]), (beside, 86 + 58 * last), names[-1]))
        if last > 3:
            lines.append(flow((beside, 86 + 58 * 3), names[3]))
            lines.append(residual((x, ways[3]), (x - 77, ways[3]), (x - 77, ways[last]), (x, ways[last])))
    return boxes, lines


ADAPTERS = Diagram(
    482,
    *adapter_columns(),
    alt="Three layers side by side, each from bottom to top. BERT's layer: attention, skip, norm, feed-forward, "
    "skip, norm. With one adapter: the same, then an adapter and skip, norm again. With three, fused: three "
    "adapters and fusion are in the place of the adapter. A residual leaves before the norm that follows the "
    "feed-forward part, and passes by what is new.",
)

PICTURES = {
    "layer": LAYER,
    "bert": BERT,
    "memory": MEMORY,
    "streams": STREAMS,
    "translator": TRANSLATOR,
    "fused": FUSED,
    "blocks": BLOCKS,
    "adapters": ADAPTERS,
}


class Shown:
    """A diagram as a notebook shows it: the file that was drawn, and its alternative text.

    It is HTML, since that alone carries an alternative text and a size to JupyterLab, Colab, VS Code, GitHub and the
    documentation. The file has two points for each pixel, for screens that have as many.
    """

    def __init__(self, name: str):
        self.alt, self.width = PICTURES[name].alt, PICTURES[name].width
        self.png = (FOLDER / f"{name}.png").read_bytes()

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """The picture for a notebook."""
        data = base64.b64encode(self.png).decode()
        return (
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt)}" width="{self.width}" '
            'style="max-width: 100%; height: auto">'
        )

    @property
    def bundle(self) -> dict[str, str]:
        """What a notebook keeps of it, by MIME type."""
        return {"text/html": self._repr_html_(), "text/plain": self.alt}


def show(name: str) -> Shown:
    """The diagram of that name, as the last line of a cell.

    Raises:
        KeyError: there is none.
        FileNotFoundError: it was not drawn.
    """
    return Shown(name)
