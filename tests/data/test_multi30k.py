import pytest

from keras_attn.data.multi30k import SPLITS, multi30k_files, multi30k_piece_files
from keras_attn.errors import UserError


def _fill(directory):
    directory.mkdir(parents=True)
    for split in SPLITS:
        for language in ("en", "de"):
            (directory / f"{split}.{language}").write_text(f"{split} {language}\n")


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_ATTN_DATA", raising=False)
    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("variable", "below"),
    [("KERAS_ATTN_DATA", "multi30k"), ("KERAS_HOME", "datasets/keras_attn/multi30k")],
)
def test_files_are_found_below_the_directory_of_the_environment(
    monkeypatch, tmp_path, variable, below
):
    monkeypatch.setenv(variable, str(tmp_path / "data"))
    _fill(tmp_path / "data" / below)
    english, german = multi30k_files("val")
    assert (english.read_text(), german.read_text()) == ("val en\n", "val de\n")
    assert multi30k_files("val", "de", "en") == (german, english)


def test_files_are_found_in_the_cache_of_keras(tmp_path):
    _fill(tmp_path / "home" / ".keras" / "datasets" / "keras_attn" / "multi30k")
    assert multi30k_files("test_2016_flickr")[0].read_text() == "test_2016_flickr en\n"


def test_the_variable_of_keras_attn_goes_before_the_cache(monkeypatch, tmp_path):
    _fill(tmp_path / "home" / ".keras" / "datasets" / "keras_attn" / "multi30k")
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path / "data"))
    with pytest.raises(UserError, match=str(tmp_path / "data" / "multi30k")):
        multi30k_files("train")


def test_a_missing_file_is_named_with_its_place_and_its_home(tmp_path):
    directory = tmp_path / "home" / ".keras" / "datasets" / "keras_attn" / "multi30k"
    _fill(directory)
    (directory / "train.de").unlink()
    with pytest.raises(UserError, match=r"train\.de") as error:
        multi30k_files("train")
    message = str(error.value)
    assert str(directory) in message
    assert "https://github.com/multi30k/dataset" in message
    assert "KERAS_ATTN_DATA" in message
    assert "train.en" not in message


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="Received: split='test'"):
        multi30k_files("test")


def test_the_published_pieces_have_files_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"en-de/valid\.en, en-de/valid\.de looked for in"):
        multi30k_piece_files("valid")
    directory = tmp_path / "multi30k_bpe_wu2021" / "en-de"
    directory.mkdir(parents=True)
    for language in ("en", "de"):
        (directory / f"valid.{language}").write_text(language)
    assert [path.read_text() for path in multi30k_piece_files("valid")] == ["en", "de"]
    with pytest.raises(ValueError, match="Received: split='val'"):
        multi30k_piece_files("val")
