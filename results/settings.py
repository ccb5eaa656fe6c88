"""The two settings of the report: `quick`, an hour or two on one core for the six tasks, and `full`, most of a day.

Estimates, from some timed updates of each task with one thread and a biLM of the size that ships.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Sequence

from cells import Budget


@dataclass(frozen=True)
class Setting:
    """What is trained, and how much of it: the six tasks, and the figures and tables beside them."""

    budgets: Dict[str, Budget]
    # What Figure 1, Tables 2 and 3 and the tuned biLM are trained with.
    side_budgets: Dict[str, Budget]
    # Figure 1.
    fraction_tasks: Sequence[str] = ("snli", "srl")
    fractions: Sequence[float] = (0.01, 0.1, 1.0)
    # Tables 2 and 3.
    ablation_tables: Sequence[str] = ("layers", "placement")
    ablation_tasks: Sequence[str] = ("squad", "snli", "srl")
    # The biLM tuned on the task's own text.
    finetuning_tasks: Sequence[str] = ("ner", "sst")
    # Task texts are small beside the paper's corpus: with its batches an epoch would be a handful of updates.
    finetuning_overrides: Mapping[str, Any] = field(
        default_factory=lambda: {
            "data_loader.batch_size": 16,
            "validation_data_loader.batch_size": 16,
            "model.softmax.num_samples": 2048,
        }
    )


# Some hundreds of updates: narrower networks than the paper's, optimizers that get going at once, and less dropout
# where a training set is read about once. (With SNLI's own 0.5, and a second one that comes with ELMo, 600 updates gave
# an accuracy of 57.4 without ELMo and 51.6 with it.)
QUICK: Dict[str, Budget] = {
    "squad": Budget(
        num_epochs=6,
        updates_per_epoch=50,
        validation_fraction=0.03,
        overrides={
            "data_loader.batch_sampler.batch_size": 16,
            "dataset_reader.max_passage_tokens": 200,
            "trainer.optimizer": {"type": "adam", "lr": 0.002},
        },
        note="batches of 16, passages cut to 200 tokens, Adam at 0.002",
    ),
    "snli": Budget(
        num_epochs=6,
        updates_per_epoch=100,
        validation_fraction=0.1,
        overrides={
            "model.encoder.hidden_size": 150,
            "model.projection.hidden_dims": 150,
            "model.composition.hidden_size": 150,
            "model.classifier.hidden_dims": 150,
            "model.dropout": 0.2,
            "model.attention_dropout": 0.0,
            "trainer.optimizer.lr": 0.001,
        },
        elmo_overrides={"model.text_embedder.contextual.dropout": 0.2},
        note="half the widths, learning rate 0.001, dropout 0.2: chosen after a first run with 0.5",
    ),
    "srl": Budget(
        num_epochs=8,
        updates_per_epoch=100,
        validation_fraction=0.2,
        overrides={
            "model.encoder.num_layers": 4,
            "model.encoder.hidden_size": 200,
            "data_loader.batch_sampler.batch_size": 40,
            "trainer.optimizer": {"type": "adam", "lr": 0.001},
        },
        note="4 layers of 200, batches of 40, Adam at 0.001",
    ),
    "coref": Budget(
        num_epochs=4,
        updates_per_epoch=84,
        overrides={
            "model.encoder.hidden_size": 100,
            "model.hidden_dim": 75,
            "model.max_antecedents": 100,
            "model.max_training_sentences": 25,
        },
        note="half the widths, 100 antecedents, documents cut to 25 sentences",
    ),
    "ner": Budget(
        num_epochs=10,
        updates_per_epoch=87,
        seeds=(1, 2, 3),
        overrides={"data_loader.batch_sampler.batch_size": 16},
        note="batches of 16",
    ),
    "sst": Budget(
        num_epochs=6,
        updates_per_epoch=60,
        seeds=(1, 2, 3),
        train_fraction=0.4,
        overrides={
            "model.token_feedforward.hidden_dims": 150,
            "model.encoder.hidden_size": 150,
            "model.integrator.hidden_size": 150,
            "model.feedforward.hidden_dims": [600, 300],
            "model.embedding_dropout": 0.2,
            "model.encoded_dropout": 0.1,
            "trainer.optimizer.lr": 0.001,
        },
        note="half the widths, learning rate 0.001, dropout 0.2 and 0.1: chosen after SNLI's first run",
    ),
}

# Some thousands of updates, with the paper's networks.
FULL: Dict[str, Budget] = {
    "squad": Budget(
        num_epochs=10,
        updates_per_epoch=100,
        validation_fraction=0.2,
        overrides={"dataset_reader.max_passage_tokens": 400},
        note="passages cut to 400 tokens",
    ),
    "snli": Budget(num_epochs=10, updates_per_epoch=500, validation_fraction=0.5),
    "srl": Budget(num_epochs=10, updates_per_epoch=200),
    "coref": Budget(num_epochs=15, updates_per_epoch=84),
    "ner": Budget(
        num_epochs=40,
        updates_per_epoch=87,
        seeds=(1, 2, 3),
        overrides={"data_loader.batch_sampler.batch_size": 16},
        note="batches of 16",
    ),
    "sst": Budget(
        num_epochs=10,
        updates_per_epoch=200,
        seeds=(1, 2, 3),
        overrides={"trainer.optimizer.lr": 0.0005},
        note="learning rate 0.0005",
    ),
}

SETTINGS: Dict[str, Setting] = {"quick": Setting(QUICK, QUICK), "full": Setting(FULL, QUICK)}
