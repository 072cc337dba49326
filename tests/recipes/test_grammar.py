"""The recipe grammar on a handful of trees, from training to the exported model."""

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.data.bracketed_trees import parse_tree
from keras_attn.errors import UserError
from keras_attn.models import LSTMParser, RNNEncoderDecoder
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import load, train
from keras_attn.serving.answers import Search
from keras_attn.serving.tree_model import TreeModel
from keras_attn.training import Budget, RunDirectory

TREES = """\
(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))
(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))
(S (NP (PRP she)) (VP (VBZ sees) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT a) (NN dog))))))
(NP (DT the) (NN man))
(S (VP (VB Go)) (. .))
(S (ADVP (RB Now)) (, ,) (NP (PRP he)) (VP (VBZ sings)) (. .))
(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ barks))) (. ?))
(S (NP (NP (NNS dogs)) (CC and) (NP (NNS cats))) (VP (VBP run) (PRT (RP off))) (. .))
"""
SENTENCES = [" ".join(parse_tree(line).words) for line in TREES.splitlines()]
SMALL = {
    "embedding_dim": 16,
    "units": 24,
    "dropout": 0.0,
    "batch_tokens": 128,
    "warmup_steps": 10,
    "learning_rate": 0.03,
    "min_count": 1,
    "validations": 1,
    "max_words": 20,
    "max_tokens": 60,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("trees") / "my.trees"
    path.write_text(TREES)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, file):
    run = RunDirectory(tmp_path_factory.mktemp("grammar"))
    recipe = make_recipe("grammar", trees=file, validation_trees=file, **SMALL)
    train(recipe, run, Budget(steps=250))
    return run


@pytest.fixture(scope="module")
def loaded(run):
    return load(run)


@pytest.fixture(scope="module")
def well_formed(loaded):
    return loaded[1].with_search(Search(2, n_best=2, well_formed=True))


@pytest.fixture
def loaded_once(loaded, well_formed, monkeypatch):
    """The commands get the models of the run without compiling them again."""
    monkeypatch.setattr("keras_attn.recipes.run.load", lambda run, name: loaded)
    searches = []

    def with_search(model, search):
        searches.append(search)
        return well_formed

    monkeypatch.setattr(TreeModel, "with_search", with_search)
    return searches


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def test_a_small_model_repeats_the_trees_that_it_learned(loaded, loaded_once, run, file, tmp_path):
    recipe, model = loaded
    assert isinstance(model.model, LSTMParser)
    evaluated = _run("evaluate", "--run", run.path)
    assert evaluated.exit_code == 0, evaluated.output
    found = dict(line.split(": ") for line in evaluated.stdout.splitlines())
    assert float(found["f1"]) > 95  # a flat tree: under 45
    assert float(found["malformed"]) < 20
    (tmp_path / "sentences").write_text("\n".join(SENTENCES))
    scored = _run(
        "evaluate", "--run", run.path, "--source", tmp_path / "sentences", "--target", file
    )
    assert f"f1: {found['f1']}" in scored.stdout, scored.output
    shuffled = list(model.answer(SENTENCES[::-1]))
    with pytest.raises(UserError, match="not those of the sentences"):
        recipe.score(shuffled, TREES.splitlines())
    with pytest.raises(UserError, match=r"Line 1 of what is right .* not closed"):
        recipe.score(shuffled[:1], ["(S (NN a)"])


def test_lines_are_answered_with_trees_of_their_own_words(loaded_once, run):
    searches = loaded_once
    lines = ["John has (a dog)", "", "zebras", SENTENCES[1]]
    answered = _run("predict", "--run", run.path, input="\n".join(lines) + "\n")
    assert answered.exit_code == 0, answered.output
    trees = answered.stdout.split("\n")[:-1]
    assert trees[1] == ""
    assert parse_tree(trees[0]).words == ("John", "has", "-LRB-", "a", "dog", "-RRB-")
    assert [len(parse_tree(trees[place]).words) for place in (2, 3)] == [1, 4]
    best = _run(
        "predict", "--run", run.path, "--beam", 2, "--n-best", 2, "--well-formed", "--scores",
        input=f"{SENTENCES[1]}\n",
    )  # fmt: skip
    rows = [line.split("\t") for line in best.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 2, best.output
    assert rows[0][2] == trees[3]
    assert rows[0][2] != rows[1][2]
    assert searches == [Search(2, n_best=2, well_formed=True)]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)


def test_a_search_for_trees_needs_no_mending_whatever_the_model_knows(loaded, run):
    recipe, _ = loaded
    untrained = recipe.text_model(recipe.build(run), run)
    sentences = [*SENTENCES, "a " * 19, "x"]
    free = untrained.trees(sentences[-2:], tokens_of_word=1)
    assert all(tree.is_malformed for tree in free)
    kept = untrained.with_search(Search(well_formed=True)).trees(sentences)
    assert not any(tree.is_malformed for tree in kept)
    for tree, sentence in zip(kept, sentences, strict=True):
        assert parse_tree(tree.text).words == tuple(sentence.split())


def test_the_export_answers_sentences_with_trees(loaded_once, well_formed, run, tmp_path):
    options = ["--well-formed", "--beam", 2]
    exported = _run("export", "--run", run.path, "--directory", tmp_path, *options)
    assert exported.exit_code == 0, exported.output
    served = tf.saved_model.load(str(tmp_path / "1")).signatures
    assert sorted(served) == ["attention", "bounded", "serving_default"]
    texts = tf.constant([*SENTENCES, "", "(zebra)"])
    answered = served["serving_default"](text=texts)
    expected = well_formed.parse(texts)
    np.testing.assert_array_equal(answered["texts"], expected["texts"])
    np.testing.assert_allclose(answered["score"], expected["score"], atol=1e-4)
    assert not answered["repairs"].numpy().any()
    cut = served["bounded"](text=texts, max_length=tf.constant(4))
    assert parse_tree(cut["text"].numpy()[0].decode()).words == tuple(SENTENCES[0].split())
    assert cut["repairs"].numpy()[0].any()


def test_trees_are_drawn(loaded_once, run, tmp_path):
    drawn = _run("plot", "--run", run.path, "--output", tmp_path / "tree.svg", SENTENCES[0])
    assert drawn.exit_code == 0, drawn.output
    assert ">John<" in (tmp_path / "tree.svg").read_text()
    nothing = _run("plot", "--run", run.path, "--output", tmp_path / "tree.svg", " ")
    assert nothing.exit_code == 2
    assert "no word" in nothing.output


def test_without_attention_one_vector_goes_between_the_two_sides(run, file):
    options = {**SMALL, "model": "vector", "encoder_layers": 2}
    recipe = make_recipe("grammar", trees=file, validation_trees=file, **options)
    model = recipe.build(run)
    assert isinstance(model, RNNEncoderDecoder)
    assert (model.settings["num_layers"], model.settings["cell"]) == (2, "lstm")
    assert model.settings["reverse_source"]
    text_model = recipe.text_model(model, run)
    assert sorted(text_model.signatures()) == ["bounded", "serving_default"]
    logits, *_ = text_model.model.step(
        tf.constant([1]),
        model.initial_state(
            model.encode({"source": tf.constant([[4, 2]]), "source_lengths": tf.constant([2])})
        ),
    )
    assert logits.shape == (1, text_model.text_model.target_tokenizer.vocabulary_size)


def test_a_batch_asks_for_the_labels_of_its_sentences(loaded, run):
    recipe, model = loaded
    pairs = set()
    for inputs, labels, mask in recipe.batches(run).take(6):
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        words = model.words.detokenize(inputs["source"], inputs["source_lengths"] - 1)
        trees = model.text_model.target_tokenizer.detokenize(labels, lengths)
        pairs |= set(zip(words.numpy(), trees.numpy(), strict=True))
    assert len(pairs) == len(SENTENCES)
    assert (b"Go .", b"(S (VP XX )VP . )S") in pairs
    shapes = {tuple(labels.shape) for _, labels, _ in recipe.fixed_batches(run).take(6)}
    assert shapes == {(8, 16), (5, 22)}  # 22 is the longest


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trees": "a.trees"}, "give --validation-trees too"),
        ({"validation_trees": "a.trees"}, "give --trees too"),
        ({"max_words": 100, "max_tokens": 102}, "--max-tokens must be at least 103"),
        ({"model": "tree"}, "There is no model 'tree'"),
    ],
)
def test_settings_that_do_not_go_together_are_one_sentence(options, words):
    with pytest.raises(UserError, match=words):
        make_recipe("grammar", **options)


def test_a_run_on_a_file_that_is_no_treebank_leaves_no_run_behind(tmp_path):
    bad = tmp_path / "bad.trees"
    bad.write_text("(S (NN a)\n")
    recipe = make_recipe("grammar", trees=bad, validation_trees=bad, **SMALL)
    with pytest.raises(UserError, match="line 1 is no bracketed tree"):
        train(recipe, RunDirectory(tmp_path / "run"), Budget(steps=1))
    assert not RunDirectory(tmp_path / "run").exists
