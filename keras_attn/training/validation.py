"""The objective over data that a model is not trained on."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.objective_call import call_objective
from keras_attn.training.reduction import sum_over_replicas
from keras_attn.training.shares import number_of_rows, share
from keras_attn.training.workers import Workers


def make_validation(
    strategy: tf.distribute.Strategy,
    model,
    objective: Callable,
    dataset: tf.data.Dataset,
    workers: Workers,
) -> Callable:
    """`validate(tell) -> {"val_loss": sum / count}` of the objective over a finite dataset.

    Rows are dealt out to the replicas as in training, and the quotient is of the sums over all of
    them: how many replicas there are does not matter, nor does how the data are cut into batches.

    Raises:
        UserError: if there is nothing to count.
        ValueError: if the dataset has no end.
    """
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "Validation data have an end, for all of them are looked at: leave out .repeat(), or "
            f"take a number with .take(). Received: validation_data={dataset}"
        )

    def of_replica(batch):
        replica = tf.distribute.get_replica_context()
        mine = share(batch, replica.replica_id_in_sync_group, replica.num_replicas_in_sync)
        total, count = call_objective(objective, model, mine, training=False)
        some = number_of_rows(mine) > 0
        return sum_over_replicas([tf.where(some, total, 0.0), tf.where(some, count, 0.0)])

    @tf.function(input_signature=[dataset.element_spec], autograph=False)
    def sums(batch):
        results = strategy.run(of_replica, args=(batch,))
        return [strategy.experimental_local_results(result)[0] for result in results]

    def validate(tell) -> dict[str, float]:
        tell("on_test_begin", {})
        total = count = 0.0
        for index, batch in enumerate(dataset):
            tell("on_test_batch_begin", index, {})
            with workers.waiting():
                batch_total, batch_count = (float(value) for value in sums(batch))
            total, count = total + batch_total, count + batch_count
            logs = {"loss": batch_total / batch_count if batch_count else 0.0}
            tell("on_test_batch_end", index, logs)
        if not count:
            raise UserError(
                "The validation data hold no token that counts, so that there is no mean loss: "
                f"give others. Received: validation_data={dataset}, count=0"
            )
        loss = total / count
        tell("on_test_end", {"loss": loss})
        return {"val_loss": loss}

    return validate
