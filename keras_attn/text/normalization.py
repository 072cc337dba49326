"""The one normalisation of text before characters are looked up, inside the graph."""

import tensorflow as tf
import tensorflow_text as tf_text


def normalize(texts: tf.Tensor) -> tf.Tensor:
    """Valid, composed, lower-case text with single spaces: (B,) strings -> (B,) strings.

    In this order: bytes that are not UTF-8 become U+FFFD; Unicode NFKC; every run of white space
    and control characters (NUL among them) becomes one space, none at either end; lower case.

    Args:
        texts: (B,) strings, of any bytes.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import normalize
        >>> normalize(tf.constant(["  3.\\u00a0MÄRZ\\n1998"])).numpy()[0].decode()
        '3. märz 1998'
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    texts = tf_text.normalize_utf8(texts, "NFKC")
    texts = tf.strings.regex_replace(texts, r"[\s\pZ\p{Cc}]+", " ")
    # Lower case comes last: `tf.strings.lower` drops whatever follows a NUL.
    return tf.strings.lower(tf.strings.strip(texts), encoding="utf-8")
