"""`python -m keras_attn.cli`."""

from keras_attn.cli import main

if __name__ == "__main__":
    main()
