"""`python -m keras_attn.cli` is `keras-attn`."""

from keras_attn.cli import main

main(prog_name="keras-attn")
