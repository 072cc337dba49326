"""Workers that differ end together, with the sentence that says in what."""

import json
import re

import pytest
from processes import HERE, finish, start_workers

SENTENCES = {
    "rows": r"different batches at step 1.*worker 0 one of 4, worker 1 one of 6 rows",
    "rows_in_calls_of_many_steps": r"different batches at step 1.*worker 1 one of 6 rows",
    "data": r"different batches at step 1.*as many rows, 4, with other content",
    "place_in_the_order": r"different batches at step 1.*with other content",
    "shares": r"of its 4 rows they read 0 to 2, 0 to 2, which is not every row once",
    "seed_of_seekable_batches": r"settings and data: data seed is 1 in worker 0 and 2 in worker 1",
    "kind_of_data": r"kind of data is whole batches in worker 0 and seekable in worker 1",
    "units": r"next variable: it is of shape \(3, 2\).* worker 0 and of shape \(3, 3\).* worker 1",
    "layers": r"differ in model: layer \d \(Dropout\) rate is 0\.1 in worker 0 and 0\.3",
    "optimizer": r"optimizer is SGD in worker 0 and Adam in worker 1",
    "settings": r"accumulate is 1 in worker 0 and 2 in worker 1; clip_norm is 1\.0 in worker 0 and "
    r"2\.0 in worker 1; objective is .*; steps is 4 in worker 0 and 5 in worker 1",
    "weights_before_the_first_step": r"differ in weights: 0, dense\S*/kernel, is \w{8} in worker 0",
    "weights_at_a_checkpoint": r"after step 4: The workers differ in weights",
    "models_of_a_run_that_goes_on": r"variables: number of variables is 7 .* and 9 in worker 1",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every case gave in each worker."""
    directory = tmp_path_factory.mktemp("agreement")
    processes = start_workers(2, HERE / "agreement_program.py", directory)
    gave = []
    for code, output, errors in finish(processes):
        assert code == 0, errors
        gave.append(dict(map(json.loads, output.splitlines())))
    return gave


@pytest.mark.parametrize("case", SENTENCES)
def test_a_difference_between_workers_is_named_by_all_of_them(case, found):
    one, other = (gave[case] for gave in found)
    assert one == other
    assert re.search(SENTENCES[case], one), one
    assert "\n" not in one


def test_workers_that_are_alike_train_alike(found):
    assert found[0]["alike"] == found[1]["alike"]
    assert isinstance(found[0]["alike"], float)
