"""BLEU-4 of captions, as sacreBLEU computes it."""

from collections.abc import Sequence

from keras_attn.errors import UserError


def bleu_of_captions(
    captions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float | str]:
    """Corpus BLEU-4 of captions, each beside one or several references.

    Words are counted as they stand, without case: captions are words between spaces already.

    Args:
        captions: text.
        references: of each, one at least.

    Returns:
        `bleu` (0 to 100) and `bleu_signature`.

    Raises:
        UserError: if sacreBLEU is not installed.

    Reference:
        Papineni et al. 2002, "BLEU"; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise UserError(
            'Scores need the package sacrebleu: pip install "keras-attn[translation]".'
        ) from error
    most = max(map(len, references), default=1)
    # SacreBLEU takes the first reference of all captions, the second of all, and so on; None where
    # a caption has no more.
    columns = [
        [each[number] if number < len(each) else None for each in references]
        for number in range(most)
    ]
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    score = metric.corpus_score(list(captions), columns).score
    return {"bleu": score, "bleu_signature": str(metric.get_signature())}
