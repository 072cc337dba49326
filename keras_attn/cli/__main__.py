"""`python -m keras_attn.cli` is `keras-attn`."""

from keras_attn.cli import main

if __name__ == "__main__":
    main(prog_name="keras-attn")
