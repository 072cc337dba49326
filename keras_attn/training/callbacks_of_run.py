"""The callbacks of a run: all of them are told of everything, in steps and in epochs."""

from collections.abc import Callable, Iterable

import keras

from keras_attn.training.supported import require_callback


class CallbacksOfRun:
    """Tells Keras callbacks of steps and epochs, as `keras.Model.fit` does.

    An epoch is so many steps. Callbacks of this library are given the step of the run, which goes
    on over all epochs; all others are given the step within the epoch. If one of them raises in
    the middle of the training the others are told of the same event, and then the error goes on:
    what they know is always of one step.

    Args:
        callbacks: of `keras.callbacks`, or lists of them.
        model: that is trained; it has an `optimizer`.
        params: what they find in `self.params`.
        steps: of an epoch; None if all steps are one.
        validate: returns metrics by name at the end of an epoch; it is given `tell`, which calls a
            method of all callbacks by its name.

    Attributes:
        total, count: sums of the loss and of the tokens in the epoch so far.

    Raises:
        ValueError: if one of the callbacks cannot do here what it does in `keras.Model.fit`.
    """

    def __init__(
        self,
        callbacks: Iterable[keras.callbacks.Callback],
        model: keras.Model,
        params: dict,
        steps: int | None,
        validate: Callable[[Callable], dict[str, float]],
    ):
        self._callbacks = keras.tree.flatten(list(callbacks))
        self._steps = steps
        self._validate = validate
        self._initial_step = params.get("initial_step", 0)
        self._epoch = self._initial_step // steps if steps else 0
        self._is_in_epoch = False
        self._begun = []
        self._logs = {}
        self.total = self.count = 0.0
        for callback in self._callbacks:
            require_callback(callback, model.optimizer)
            callback.set_model(model)
            callback.set_params(params)

    @property
    def terminating(self) -> list[keras.callbacks.TerminateOnNaN]:
        """Those who end the training quietly if a loss is not finite."""
        return [x for x in self._callbacks if isinstance(x, keras.callbacks.TerminateOnNaN)]

    def steps_left(self, step: int, number: int) -> int:
        """At most so many of the next steps that they lie in one epoch."""
        return min(number, self._steps - step % self._steps) if self._steps else number

    def tell(self, name: str, *arguments) -> None:
        """Call a method of all callbacks."""
        self._tell(name, lambda callback: arguments)

    def begin(self) -> None:
        """Call `on_train_begin`; if one of them raises, those before it are told of the end."""
        try:
            for callback in self._callbacks:
                callback.on_train_begin({})
                self._begun.append(callback)
        except BaseException as error:
            self.end(error)

    def begin_step(self, step: int) -> None:
        """Tell of a step that is about to be taken, and of its epoch if it is the first."""
        if not self._is_in_epoch:
            self._is_in_epoch = True
            self.tell("on_epoch_begin", self._epoch, {})
        self._tell("on_train_batch_begin", lambda callback: (self._index(callback, step), {}))

    def end_step(self, step: int, logs: dict[str, float]) -> None:
        """Tell of a step that is done, counted from 0, and of its epoch if that is over."""
        self.total += logs["loss"] * logs["tokens"]
        self.count += logs["tokens"]
        self._tell("on_train_batch_end", lambda callback: (self._index(callback, step), logs))
        if self._steps and (step + 1) // self._steps > self._epoch:
            self.end_epoch()
            self._epoch = (step + 1) // self._steps

    def end_epoch(self) -> None:
        """Validate and tell of the end of the epoch, if one has begun."""
        if not self._is_in_epoch:
            return
        loss = self.total / self.count if self.count else 0.0
        self.total = self.count = 0.0
        self._is_in_epoch = False
        self._logs = {"loss": loss, **self._validate(self.tell)}
        self.tell("on_epoch_end", self._epoch, self._logs)

    def end(self, error: BaseException | None = None) -> None:
        """Call `on_train_end` of every callback whose training has begun.

        Args:
            error: with which the training ended, if it did. It is not hidden by what a callback
                raises here, which is added to it as a note.
        """
        for callback in self._begun:
            try:
                callback.on_train_end(self._logs)
            except BaseException as raised:
                if error is None:
                    error = raised
                elif error is not raised:
                    note = f"Then {type(callback).__name__} could not end: {raised}"
                    error.add_note(note)
        self._begun = []
        if error is not None:
            raise error

    def _index(self, callback, step: int) -> int:
        if not self._steps or _is_of_this_library(callback):
            return step
        return step - self._epoch * self._steps

    def _tell(self, name: str, arguments: Callable) -> None:
        error = None
        for callback in self._callbacks:
            try:
                getattr(callback, name)(*arguments(callback))
            except Exception as raised:
                error = error or raised
        if error is not None:
            raise error


def _is_of_this_library(callback) -> bool:
    library = __name__.partition(".")[0]
    return any(base.__module__.partition(".")[0] == library for base in type(callback).__mro__)
