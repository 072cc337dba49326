"""A text model with a beam: in the process, exported, and asked over HTTP."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search
from keras_attn.serving import ModelConfig, TextModel, export, running_server
from keras_attn.text import END, START

TEXTS = ["3. März 1998", "1/2/03", "", "no date at all"]
WIDTH, ALPHA, N_BEST = 4, 0.6, 3


@pytest.fixture(scope="module")
def beam_model(dates_text_model):
    return dates_text_model.with_beam(WIDTH, ALPHA, N_BEST)


@pytest.fixture(scope="module")
def user(beam_model, client, tmp_path_factory):
    directory = tmp_path_factory.mktemp("beam") / "dates"
    export(beam_model, directory)
    with running_server([ModelConfig("dates", directory)]) as url:
        yield client(url)


def texts_of(outputs):
    return [text.decode() for text in outputs["text"].numpy()]


def test_answers_are_those_of_the_beam_search(beam_model):
    found = beam_model.translate(tf.constant(TEXTS))
    model, tokenizer = beam_model.model, beam_model.source_tokenizer
    for row, text in enumerate(TEXTS):
        if not text:
            assert found["texts"][row].numpy().tolist() == [b""] * N_BEST
            assert found["scores"][row].numpy().tolist() == [0.0, -np.inf, -np.inf]
            continue
        ids = tf.concat([tokenizer.tokenize([text])[0], [END]], axis=0)[None]
        memory = model.encode({"source": ids, "source_lengths": tf.constant([ids.shape[1]])})
        expected = beam_search(
            model.step, model.initial_state(memory), 1, START, END, beam_model.max_length,
            WIDTH, ALPHA,
        )  # fmt: skip
        spelled = beam_model.target_tokenizer.detokenize(expected.tokens[0], expected.lengths[0])
        assert found["texts"][row].numpy().tolist() == spelled[:N_BEST].numpy().tolist()
        np.testing.assert_allclose(found["scores"][row], expected.scores[0, :N_BEST], atol=1e-4)
    assert found["text"].numpy().tolist() == found["texts"][:, 0].numpy().tolist()
    np.testing.assert_array_equal(found["score"], found["scores"][:, 0])


def test_alignment_and_tokens_are_those_of_the_best_answer(beam_model):
    answers = texts_of(beam_model.translate(tf.constant(TEXTS)))
    for (_, target, alignment), answer in zip(beam_model.alignments(TEXTS), answers, strict=True):
        assert "".join(target).removesuffix("</s>") == answer
        np.testing.assert_allclose(alignment.sum(axis=1), 1, atol=1e-5)
    ids = beam_model.source_tokenizer.tokenize(TEXTS)
    found = beam_model.translate_tokens(ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32))
    spelled = beam_model.target_tokenizer.detokenize(found["ids"], found["lengths"])
    assert [text.decode() for text in spelled.numpy()] == answers


def test_an_empty_batch_has_no_answers(beam_model):
    found = beam_model.translate(tf.constant([], tf.string))
    assert found["texts"].shape == found["scores"].shape == (0, N_BEST)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_a_bounded_answer_is_that_of_a_model_with_this_length(kind, dates_text_model, beam_model):
    model = {"greedy": dates_text_model, "beam": beam_model}[kind]
    limits = [3, 50, 1, 11]
    together = model.translate_bounded(tf.constant(TEXTS), tf.constant(limits))
    for row, limit in enumerate(limits):
        shorter = TextModel(
            model.model, model.source_tokenizer, model.target_tokenizer, model.max_source_length,
            min(limit, model.max_length), model.beam_width, model.length_penalty, model.n_best,
        )  # fmt: skip
        alone = shorter.translate(tf.constant(TEXTS[row : row + 1]))
        scalar = model.translate_bounded(tf.constant(TEXTS[row : row + 1]), limit)
        for name, value in alone.items():
            for found in (together[name][row], scalar[name][0]):
                if value.dtype == tf.string:
                    np.testing.assert_array_equal(found, value[0])
                else:
                    np.testing.assert_allclose(found, value[0], atol=1e-4)


def test_the_end_rule_reaches_the_search(dates_text_model):
    # Cut after 3 tokens, no date has its end: those that end are far less likely.
    beams = {}
    for end_rule in ("finished", "running"):
        model = dates_text_model.with_beam(WIDTH, ALPHA, 1, end_rule=end_rule)
        beams[end_rule] = model.translate_bounded(tf.constant(TEXTS[:2]), 3)
    assert (beams["running"]["score"].numpy() > beams["finished"]["score"].numpy() + 1).all()
    assert all(len(text) == 3 for text in texts_of(beams["running"]))


def test_a_greedy_model_answers_as_before(dates_text_model):
    assert dates_text_model.translate(tf.constant(TEXTS)).keys() == {"text", "score"}


@pytest.mark.parametrize(
    "options",
    [
        {"beam_width": 0},
        {"beam_width": 2, "n_best": 3},
        {"beam_width": 2, "n_best": 0},
        {"beam_width": 1, "length_penalty": 0.6},
        {"beam_width": 2, "length_penalty": float("nan")},
        {"beam_width": 2, "end_rule": "last"},
        {"beam_width": 1, "end_rule": "running"},
    ],
)
def test_a_search_that_cannot_be_is_refused(dates_text_model, options):
    with pytest.raises(ValueError, match="Received: "):
        dates_text_model.with_beam(**options)


@pytest.mark.parametrize(
    ("request_body", "limits"),
    [
        ({"instances": TEXTS}, [11] * 4),
        ({"instances": [{"text": text} for text in TEXTS]}, [11] * 4),
        ({"inputs": TEXTS}, [11] * 4),
        ({"inputs": {"text": TEXTS}}, [11] * 4),
        ({"inputs": {"text": TEXTS, "max_length": 3}}, [3] * 4),
        ({"inputs": {"text": TEXTS, "max_length": [3, 50, 1, 7]}}, [3, 11, 1, 7]),
        (
            {
                "instances": [
                    {"text": t, "max_length": n} for t, n in zip(TEXTS, [3, 50, 1, 7], strict=True)
                ]
            },
            [3, 11, 1, 7],
        ),
    ],
)
def test_max_length_may_come_with_the_request(user, beam_model, request_body, limits):
    reply = user.predict({"signature_name": "bounded", **request_body}, model="dates")

    assert reply.status == 200, reply.json
    expected = beam_model.translate_bounded(tf.constant(TEXTS), tf.constant(limits))
    if "instances" in request_body:
        rows = reply.json["predictions"]
        assert all(row.keys() == {"text", "score", "texts", "scores"} for row in rows)
        outputs = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        outputs = reply.json["outputs"]
    assert outputs["text"] == texts_of(expected)
    assert np.shape(outputs["texts"]) == np.shape(outputs["scores"]) == (4, N_BEST)
    np.testing.assert_allclose(outputs["scores"], expected["scores"], atol=1e-4)


@pytest.mark.parametrize(
    ("max_length", "words"), [(0, "max_length"), ([3, 3], ""), ("3", "int32"), (1.5, "int32")]
)
def test_a_max_length_that_is_none_is_refused(user, max_length, words):
    request = {"signature_name": "bounded", "inputs": {"text": TEXTS, "max_length": max_length}}
    reply = user.predict(request, model="dates")

    assert reply.status == 400
    assert words in reply.error


def test_the_default_signature_takes_bare_texts(user, beam_model):
    reply = user.predict({"instances": TEXTS}, model="dates")

    rows = reply.json["predictions"]
    assert [row["text"] for row in rows] == texts_of(beam_model.translate(tf.constant(TEXTS)))


def test_metadata_tells_the_default(user):
    reply = user.request("GET", "/v1/models/dates/metadata").json
    bounded = reply["metadata"]["signature_def"]["signature_def"]["bounded"]
    assert bounded["inputs"].keys() == {"text", "max_length"}
    assert bounded["defaults"]["max_length"]["int_val"] == [11]
