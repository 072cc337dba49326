import pytest
import tensorflow as tf

from keras_attn.text import END, PADDING, UNKNOWN, PieceTokenizer

TOKENIZER = PieceTokenizer(["a", "pul@@", "ley", "ü@@"])


def test_pieces_become_ids_and_ids_become_words():
    ids = TOKENIZER.tokenize(tf.constant(["a pul@@ ley", "", "ley  new a"]))
    assert ids.to_list() == [[4, 5, 6], [], [6, UNKNOWN, 4]]
    words = TOKENIZER.detokenize(ids.to_tensor(), tf.constant([3, 0, 3]))
    assert words.numpy().tolist() == [b"a pulley", b"", b"ley <unk> a"]


def test_special_tokens_and_what_lies_beyond_the_length_spell_nothing():
    ids = tf.constant([[5, 6, END, 4], [7, END, PADDING, 4]])
    words = TOKENIZER.detokenize(ids, tf.constant([3, 3]))
    assert words.numpy().tolist() == [b"pulley", "ü".encode()]
    assert TOKENIZER.pieces(ids).numpy()[0].tolist() == [b"pul@@", b"ley", b"</s>", b"a"]


def test_an_exported_module_keeps_its_table(tmp_path):
    module = tf.Module()
    module.tokenizer = TOKENIZER
    call = tf.function(
        lambda texts: TOKENIZER.tokenize(texts).to_tensor(),
        input_signature=[tf.TensorSpec([None], tf.string, name="texts")],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": call})
    found = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    (ids,) = found(texts=tf.constant(["ley a"])).values()
    assert ids.numpy().tolist() == [[6, 4]]


@pytest.mark.parametrize("pieces", [[], ["a", "a"]], ids=["none", "twice"])
def test_no_pieces_or_the_same_twice_are_refused(pieces):
    with pytest.raises(ValueError, match="Received: "):
        PieceTokenizer(pieces)
