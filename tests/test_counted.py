from keras_attn.counted import counted


def test_what_is_done_is_counted_on_standard_error(capsys):
    assert list(counted("abc", "Letters read", 3, log_seconds=0.0)) == ["a", "b", "c"]
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.splitlines() == [
        *(f"Letters read {number} of 3 in 0 s" for number in (1, 2, 3)),
        "Letters read 3 of 3 in 0 s",
    ]


def test_a_short_wait_for_an_unknown_number_says_nothing(capsys):
    assert list(counted(iter("abc"), "Letters read")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
