"""`python -m keras_attn.cli`."""

from keras_attn.cli import main

main()
