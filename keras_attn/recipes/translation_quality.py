"""BLEU and chrF as sacreBLEU computes them, with the signatures that say how."""

from collections.abc import Sequence

from keras_attn.errors import UserError


def translation_quality(
    hypotheses: Sequence[str], references: Sequence[str], tokenized: bool = False
) -> dict:
    """Corpus BLEU and chrF as sacreBLEU computes them.

    Args:
        hypotheses, references: text, line for line.
        tokenized: whether the text is lowercased and tokenised already, so that BLEU counts the
            words as they stand (`sacrebleu --tokenize none -lc`); by default sacreBLEU tokenises
            (13a) and case counts.

    Returns:
        `bleu` and `chrf` (0 to 100), and `bleu_signature` and `chrf_signature`.

    Raises:
        UserError: if sacreBLEU is not installed.

    Reference:
        Post 2018, "A Call for Clarity in Reporting BLEU Scores"; Popović 2015, "chrF".
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError as error:
        raise UserError(
            'Scores need the package sacrebleu: pip install "keras-attn[translation]".'
        ) from error
    bleu = BLEU(tokenize="none", lowercase=True, force=True) if tokenized else BLEU()
    found = {}
    for name, metric in (("bleu", bleu), ("chrf", CHRF(lowercase=tokenized))):
        found[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        found[f"{name}_signature"] = str(metric.get_signature())
    return found
