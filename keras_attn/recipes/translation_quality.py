"""BLEU and chrF as sacreBLEU computes them, with the signatures that say how."""

from collections.abc import Sequence

from keras_attn.errors import UserError


def translation_quality(hypotheses: Sequence[str], references: Sequence[str]) -> dict:
    """Corpus BLEU and chrF with sacreBLEU's defaults: cased, detokenised, 13a.

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
    found = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        found[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        found[f"{name}_signature"] = str(metric.get_signature())
    return found
