"""The three engines behind one set of verbs, each by the calls that its documentation shows."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from .case import HF, OURS, STOCK, Place

FILE = "toy.tar.gz"
"""What every download is a download of."""


class Engine:
    """Verbs that a case may use; an engine that lacks one does not take part in the case."""

    name: str
    packages: tuple[str, ...]

    def settle(self, place: Place) -> None:
        """Send whatever the engine caches to this place."""

    def warm(self, kit: Path) -> None:
        """Load the sound model once, before the forks."""
        self.kit = kit
        self.model  # noqa: B018

    @cached_property
    def model(self) -> Any:
        return self.load(self.kit / self.sound)

    sound = "fairseq"

    def load(self, path: Path) -> Any:
        raise NotImplementedError

    def versions(self) -> dict[str, str]:
        return {name: importlib.metadata.version(name) for name in (*self.packages, "torch")}


class Fairseq(Engine):
    """Stock fairseq 0.12.2; only its import is helped, which Python 3.11 refuses."""

    name, packages = STOCK, ("fairseq",)

    def __init__(self) -> None:
        from parity.peers import real_fairseq

        real_fairseq()
        from fairseq import file_utils
        from fairseq.data import Dictionary
        from fairseq.models.roberta import RobertaModel

        self.file_utils, self.dictionary_class, self.class_ = file_utils, Dictionary, RobertaModel

    def settle(self, place: Place) -> None:
        self.place = place
        self.kit = place.kit
        # As the variable of that name would, which is read at import.
        self.file_utils.PYTORCH_FAIRSEQ_CACHE = place.cache

    def url(self, place: Place) -> str:
        return f"{place.server}/{place.prefix}/{FILE}"

    def download(self, place: Place) -> Path:
        """The file in the cache, as it came."""
        return Path(self.file_utils.cached_path(self.url(place)))

    def install(self, place: Place) -> Path:
        """Downloaded and unpacked."""
        return self.unpack(self.url(place))

    def unpack(self, path: str | Path) -> Path:
        return Path(self.file_utils.load_archive_file(str(path)))

    def load(self, path: Path) -> Any:
        folder, file = (path, "model.pt") if path.is_dir() else (path.parent, path.name)
        tables = {
            "gpt2_encoder_json": str(self.kit / "bpe/encoder.json"),
            "gpt2_vocab_bpe": str(self.kit / "bpe/vocab.bpe"),
        }
        return self.class_.from_pretrained(str(folder), checkpoint_file=file, **tables).eval()

    def warm(self, kit: Path) -> None:
        # Stock fairseq loads no RoBERTa at all with torch ≥ 2.6, its own files included.
        os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
        super().warm(kit)
        del os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"]

    def network(self, loaded: Any) -> Any:
        """The `torch.nn.Module` with the weights."""
        return loaded.model

    def dictionary(self, path: Path) -> list[str]:
        """The symbols in order of their ids."""
        return list(self.dictionary_class.load(str(path)).symbols)

    def encode(self, text: Any) -> list[int]:
        return list(self.model.encode(text).tolist())

    def decode(self, ids: Any) -> str:
        return self.model.decode(ids)  # type: ignore[no-any-return]

    def features(self, ids: Any) -> Any:
        return self.model.extract_features(ids)

    def fill(self, text: str, topk: int) -> Any:
        return self.model.fill_mask(text, topk=topk)


class Ours(Fairseq):
    """The same verbs by the same names, which is the point of the package."""

    name, packages = OURS, ("roberta_hub",)

    def __init__(self) -> None:
        import roberta_hub
        from roberta_hub.checkpoint.fetch import download
        from roberta_hub.checkpoint.fetch.records import Record, archive

        self.package, self.downloading = roberta_hub, download
        self.record = Record(name="toy", origins=(archive(FILE),))

    def settle(self, place: Place) -> None:
        self.place = place
        os.environ["TORCH_HOME"] = str(place.cache)
        os.environ["PYTORCH_FAIRSEQ_CACHE"] = str(place.cache / "fairseq")
        os.environ["ROBERTA_HUB_MIRROR"] = f"{place.server}/{place.prefix}"

    def download(self, place: Place) -> Path:
        """Ours keeps what is in the archive, not the archive."""
        os.environ["ROBERTA_HUB_MIRROR"] = f"{place.server}/{place.prefix}"
        return self.downloading.fetch_model(self.record, progress=False)

    install = download

    def unpack(self, path: str | Path) -> Path:
        self.package.load_model(path)
        return Path(path)

    def load(self, path: Path) -> Any:
        return self.package.load_model(path).eval()

    warm = Engine.warm

    def dictionary(self, path: Path) -> list[str]:
        from roberta_hub.text.dictionary import Dictionary

        return list(Dictionary.parse(path.read_bytes(), path.name).symbols)

    def versions(self) -> dict[str, str]:
        named = ("torch", "safetensors")
        found = {name: importlib.metadata.version(name) for name in named}
        return {"Python": sys.version.split()[0], **found}


class HuggingFace(Engine):
    """huggingface_hub for files, transformers for models."""

    name, sound = HF, "huggingface"
    packages = ("transformers", "huggingface_hub", "safetensors", "tokenizers")

    def __init__(self) -> None:
        sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
        import huggingface_hub
        import transformers

        self.hub, self.transformers = huggingface_hub, transformers
        transformers.logging.disable_progress_bar()

    def settle(self, place: Place) -> None:
        self.place = place

    def download(self, place: Place, **options: Any) -> Path:
        options = {"cache_dir": place.cache, "endpoint": place.server, **options}
        return Path(self.hub.hf_hub_download(place.prefix, FILE, **options))

    install = download

    def load(self, path: Path) -> Any:
        return self.transformers.RobertaForMaskedLM.from_pretrained(path).eval()

    def network(self, loaded: Any) -> Any:
        """The `torch.nn.Module` with the weights."""
        return loaded

    def warm(self, kit: Path) -> None:
        super().warm(kit)
        self.tokenizer  # noqa: B018

    @cached_property
    def tokenizer(self) -> Any:
        return self.transformers.AutoTokenizer.from_pretrained(self.kit / self.sound)

    def encode(self, text: Any) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])

    def decode(self, ids: Any) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)  # type: ignore[no-any-return]

    def features(self, ids: Any) -> Any:
        ids = ids[None] if getattr(ids, "ndim", 2) == 1 else ids
        return self.model.roberta(ids).last_hidden_state

    def fill(self, text: str, topk: int) -> Any:
        fill = self.transformers.pipeline("fill-mask", model=self.model, tokenizer=self.tokenizer)
        return fill(text, top_k=topk)


def engine_of(name: str) -> Any:
    """Import and prepare an engine by its name in `case.ENGINES`."""
    return {STOCK: Fairseq, HF: HuggingFace, OURS: Ours}[name]()
