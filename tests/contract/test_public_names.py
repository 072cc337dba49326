"""Everything public can be imported, says what it is, and its example runs as it stands."""

import doctest
import inspect
import io
import re

import keras
import pytest
from public_names import documented_parts, public_modules, public_objects

OBJECTS = public_objects()
PARTS = {name: part for of, each in OBJECTS.items() for name, part in documented_parts(of, each)}
EXAMPLES = {
    name: test
    for name, part in PARTS.items()
    if (test := doctest.DocTestParser().get_doctest(part.__doc__ or "", {}, name, None, 0)).examples
}


def test_all_names_are_there_and_sorted():
    for module in public_modules():
        assert len(set(module.__all__)) == len(module.__all__), module.__name__
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_says_what_it_is_and_has_an_example(name):
    document = inspect.getdoc(OBJECTS[name]) or ""
    first, *_ = document.split("\n\n")
    assert first.rstrip().endswith((".", ":")), "the first paragraph is a sentence"
    assert name in EXAMPLES


@pytest.mark.parametrize("name", OBJECTS)
def test_every_argument_is_described(name):
    each = OBJECTS[name]
    function = each.__init__ if inspect.isclass(each) else each
    if inspect.isclass(each) and (issubclass(each, tuple) or getattr(each, "_is_protocol", False)):
        return  # made by nobody, or of attributes that the docstring lists
    parameters = inspect.signature(function).parameters.values()
    wanted = [
        parameter.name
        for parameter in parameters
        if parameter.name != "self" and parameter.kind not in (parameter.VAR_KEYWORD,)
    ]
    document = inspect.getdoc(each) or ""
    missing = [name for name in wanted if not re.search(rf"\b{name}\b", document)]
    assert missing == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_in_an_empty_session_and_prints_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    said = io.StringIO()
    found = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=said.write)
    assert found.failed == 0, said.getvalue()
