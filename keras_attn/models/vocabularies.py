"""What the models ask of the vocabularies of their two sides."""


def require_shared_vocabulary(settings: dict) -> None:
    """Raise `ValueError` if embeddings are shared by two vocabularies of different sizes."""
    source, target = settings["source_vocabulary_size"], settings["target_vocabulary_size"]
    if settings["share_embeddings"] and source != target:
        raise ValueError(
            "Shared embeddings need one vocabulary for both sides. Received: "
            f"source_vocabulary_size={source}, target_vocabulary_size={target}"
        )
