"""What kind of folder is this? has one answer, for loading, saving and training alike."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

import pytest
from checkpoints import sentence_encoder, small
from families import write_family

from roberta_hub import interface, load_model
from roberta_hub.errors import CheckpointError, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.source import FORMATS, detect, formats_in
from roberta_hub.settings import SentenceSettings
from roberta_hub.shell import maintenance

NAMES = ["fairseq", "roberta_hub", "huggingface"]


def test_the_formats_are_called_alike_everywhere() -> None:
    assert [format.name for format in FORMATS] == NAMES
    assert {*maintenance.MODEL_FORMATS} == {*get_args(interface.Format)} == {*NAMES}


@pytest.mark.parametrize("format", NAMES)
def test_a_folder_is_of_the_format_that_wrote_it(tmp_path: Path, format: interface.Format) -> None:
    small().save(tmp_path, format=format)
    folder = Folder(tmp_path)
    assert formats_in(folder) == {format}
    source = detect(folder)
    assert source is not None
    assert (source.format.name, source.folder, source.sentences) == (format, folder, None)
    assert (
        detect(Folder(tmp_path / "none")) is None and formats_in(Folder(tmp_path / "none")) == set()
    )


def test_a_folder_of_two_formats(tmp_path: Path) -> None:
    small().save(tmp_path / "ours")
    small().save(tmp_path / "theirs", format="fairseq")
    shutil.copy(tmp_path / "theirs" / "model.pt", tmp_path / "ours")
    folder = Folder(tmp_path / "ours")
    assert formats_in(folder) == {"fairseq", "roberta_hub"}
    source = detect(folder)
    assert source is not None and source.format.name == "fairseq"
    for name in NAMES:
        with pytest.raises(CheckpointError, match="would not replace but mix with"):
            small().save(folder, format=name)  # type: ignore[arg-type]


def test_a_sentence_encoder_of_the_older_layout(tmp_path: Path) -> None:
    sentence_encoder(tmp_path, older=True)
    folder = Folder(tmp_path)
    source = detect(folder)
    assert source is not None and source.format.name == "huggingface"
    assert (source.folder, source.sentences) == (folder.folder("0_Transformer"), folder)
    assert load_model(tmp_path).sentence == SentenceSettings(normalize=True, max_length=12)
    with pytest.raises(CheckpointError, match="'huggingface', which a save as 'roberta_hub' would"):
        small().save(tmp_path)
    inside = tmp_path / "0_Transformer" / "model.safetensors"
    assert load_model(inside).sentence is None  # the file alone is the model alone
    named = load_model(tmp_path, checkpoint_file="0_Transformer/model.safetensors")
    assert named.sentence is not None


def test_a_distilbert_without_a_vocabulary_takes_ids(tmp_path: Path) -> None:
    write_family("distilbert", tmp_path)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    roberta = load_model(tmp_path).eval()
    assert roberta.tokenizer.layout.separators == 1
    with pytest.raises(VocabularyError, match=r"a directory with vocab\.txt or tokenizer\.json"):
        roberta.encode("Hello")
