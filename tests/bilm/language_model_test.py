import math
from pathlib import Path
from typing import List

import pytest
import torch
from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import Model
from allennlp.models.archival import archive_model

from elmo_plugin.bilm import checkpoint, softmax_file
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.softmax import BiLmSoftmax, FullSoftmax
from elmo_plugin.characters.indexer import ElmoCharactersIndexer
from elmo_plugin.training.metric_state import load_metric_state, metric_state
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.windows import PackedWindows

SIZES = {
    "projection_dim": 8,
    "cell_dim": 12,
    "num_layers": 2,
    "char_dim": 4,
    "filters": [[1, 4], [2, 4]],
    "num_highway": 1,
    "max_characters_per_token": 10,
}
SENTENCES = ["a b c", "d a", "b b a c d a", "c", "d d b a"]
WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c", "d"]


def make_vocab(words: List[str] = WORDS) -> Vocabulary:
    vocab = Vocabulary(non_padded_namespaces=["bilm_words"])
    vocab.add_tokens_to_namespace(words, "bilm_words")
    return vocab


def make_model(seed: int = 0, vocab=None, sizes=None, softmax=None, bilm_dropout=0.0, dropout=0.0, **arguments):
    torch.manual_seed(seed)
    sizes = {**SIZES, **(sizes or {})}
    options = BiLmOptions(**{**sizes, "filters": tuple(tuple(pair) for pair in sizes["filters"])})
    lazy_softmax = Lazy(BiLmSoftmax, params=Params(softmax or {"type": "full"}))
    bilm = BiLm(options, dropout=bilm_dropout)
    return BiLmLanguageModel(vocab or make_vocab(), bilm, lazy_softmax, dropout=dropout, **arguments)


def make_reader() -> BiLmReader:
    return BiLmReader(token_indexers={"elmo": ElmoCharactersIndexer(max_characters_per_token=10)})


def sentence_batches(sentences: List[str], batch_size: int, vocab=None):
    reader = make_reader()
    instances = [reader.text_to_instance(sentence.split()) for sentence in sentences]
    for instance in instances:
        reader.apply_token_indexers(instance)
    return SimpleDataLoader(instances, batch_size, vocab=vocab or make_vocab())


def windows(folder: Path, sentences: List[str], batch_size: int, num_steps: int, vocab=None) -> PackedWindows:
    path = folder / "text.txt"
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    loader = PackedWindows(make_reader(), str(path), batch_size=batch_size, num_steps=num_steps, shuffle=False)
    loader.index_with(vocab or make_vocab())
    return loader


@torch.no_grad()
def measure(model: BiLmLanguageModel, batches) -> dict:
    model.eval()
    model.reset_carried_state()
    for batch in batches:
        model(**batch)
    return model.get_metrics(reset=True)


def train(model: BiLmLanguageModel, batches, num_epochs: int, lr: float = 0.03) -> None:
    model.train()
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad], lr=lr)
    batches = list(batches)
    for _ in range(num_epochs):
        for batch in batches:
            optimizer.zero_grad()
            model(**batch)["loss"].backward()
            optimizer.step()
    model.get_metrics(reset=True)


def test_perplexity_of_two_lines_by_hand():
    """By way of the vectors that embedding gives: a token's halves predict the next and the last one."""
    model = make_model()
    sentences = ["a b c", "d oov"]
    figures = measure(model, sentence_batches(sentences, batch_size=2))
    losses = {"forward": 0.0, "backward": 0.0}
    for sentence in sentences:
        ids = torch.tensor([ElmoCharactersIndexer(10).mapping.ids(word) for word in sentence.split()]).unsqueeze(0)
        classes = [0, *(WORDS.index(word) if word in WORDS else 2 for word in sentence.split()), 1]
        top_layer = model.bilm(ids).layers[-1][0]
        for place in range(len(classes) - 1):
            for direction, states, target in (
                ("forward", top_layer[place, :8], classes[place + 1]),
                ("backward", top_layer[place + 1, 8:], classes[place]),
            ):
                logits = model.softmax.weight.double() @ states.double() + model.softmax.bias.double()
                losses[direction] -= (logits[target] - logits.exp().sum().log()).item()
    means = {direction: loss / 7 for direction, loss in losses.items()}  # a b c </S>, d <UNK> </S>
    forward, backward = math.exp(means["forward"]), math.exp(means["backward"])
    assert figures["forward_perplexity"] == pytest.approx(forward, rel=1e-6)
    assert figures["backward_perplexity"] == pytest.approx(backward, rel=1e-6)
    assert figures["perplexity"] == pytest.approx((forward + backward) / 2, rel=1e-6)
    assert figures["exp_mean_loss_perplexity"] == pytest.approx(math.exp(sum(means.values()) / 2), rel=1e-6)


@pytest.mark.parametrize("batch_size", [2, 3, 5])
def test_sentences_have_the_same_perplexity_in_any_batch_size(batch_size):
    model = make_model()
    expected = measure(model, sentence_batches(SENTENCES, 1))
    assert measure(model, sentence_batches(SENTENCES, batch_size)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("batch_size, num_steps", [(1, 3), (2, 4), (3, 20), (4, 2)])
def test_packed_windows_from_zeros_have_the_perplexity_of_sentences(batch_size, num_steps, tmp_path):
    model = make_model()
    expected = measure(model, sentence_batches(SENTENCES, 2))
    model.evaluate_from_zeros = True
    assert measure(model, windows(tmp_path, SENTENCES, batch_size, num_steps)) == pytest.approx(expected, rel=1e-6)
    model.evaluate_from_zeros = False
    assert measure(model, windows(tmp_path, SENTENCES, batch_size, num_steps)) != pytest.approx(expected, rel=1e-6)


def test_state_is_carried_from_window_to_window(tmp_path):
    model = make_model()
    at_once = measure(model, windows(tmp_path, SENTENCES, 1, 100))
    assert model.carried_state.forward[0].hidden.shape == (1, 8)
    assert measure(model, windows(tmp_path, SENTENCES, 1, 3)) == pytest.approx(at_once, rel=1e-6)
    model.carry_state = False
    assert measure(model, windows(tmp_path, SENTENCES, 1, 3)) != pytest.approx(at_once, rel=1e-6)
    assert model.carried_state is None


def test_backpropagation_stops_at_the_window(tmp_path):
    model = make_model()
    for batch in windows(tmp_path, SENTENCES, 1, 3):
        model(**batch)["loss"].backward()  # would fail on the second window, whose start is the first's end
    assert not model.carried_state.forward[0].hidden.requires_grad


def test_carried_state_of_other_rows_is_refused(tmp_path):
    model = make_model()
    measure(model, windows(tmp_path, SENTENCES, 2, 4))
    batch = next(iter(windows(tmp_path, SENTENCES, 3, 4)))
    with pytest.raises(ValueError, match="2 rows, but this window has 3: call reset_carried_state"):
        model(**batch)


def test_resets_with_certainty_are_starting_from_zeros(tmp_path):
    model = make_model(reset_probability=1.0)
    model.evaluate_from_zeros = True
    batches = list(windows(tmp_path, SENTENCES, 2, 4))
    expected = measure(model, batches)
    model.train()
    model.reset_carried_state()
    for batch in batches:
        model(**batch)
    assert model.get_metrics() == pytest.approx(expected, rel=1e-6)


def test_sometimes_resetting_depends_on_the_global_generator(tmp_path):
    model = make_model(reset_probability=0.5)
    batch = next(iter(windows(tmp_path, SENTENCES, 2, 20)))
    losses = []
    for seed in (1, 1, 2, 3, 4):
        torch.manual_seed(seed)
        model.reset_carried_state()
        losses.append(model(**batch)["loss"].item())
    assert losses[0] == losses[1]
    assert len(set(losses)) > 1


def test_neither_direction_sees_its_target_or_beyond():
    model = make_model()
    words = ["a", "b", "c", "d", "a", "b"]
    changed_place = 3
    states = []
    for word in ("d", "c"):
        sentence = [*words[:changed_place], word, *words[changed_place + 1 :]]
        (batch,) = sentence_batches([" ".join(sentence)], 1)
        top_layer = model.run_sentences(model.read_sentences(**batch))
        # In the order of what is predicted: forward w1 .. wn </S>, backward <S> w1 .. wn.
        states.append((top_layer.forward[0], top_layer.backward[0].flip(0)))
    moved = [(one - other).abs().amax(dim=-1) > 0 for one, other in zip(*states, strict=True)]
    assert moved[0].tolist() == [place > changed_place for place in range(7)]
    assert moved[1].tolist() == [place < changed_place + 1 for place in range(7)]


# Enough for a biLM to tell words apart soon.
LEARNING_SIZES = {
    "projection_dim": 16,
    "cell_dim": 32,
    "char_dim": 8,
    "filters": [[1, 16], [3, 16]],
    "activation": "tanh",
}


def test_a_tiny_bilm_overfits_a_tiny_corpus_in_both_directions():
    model = make_model(sizes=LEARNING_SIZES)
    batches = list(sentence_batches(["a b c d a d b"], 1))
    train(model, batches, num_epochs=50)
    figures = measure(model, batches)
    assert 1.0 < figures["forward_perplexity"] < 1.05 and 1.0 < figures["backward_perplexity"] < 1.05, figures


@pytest.mark.parametrize(
    "softmax",
    [
        {"type": "full"},
        {"type": "sampled", "num_samples": 12},
        {"type": "adaptive", "cutoffs": [8], "div_value": 2},
    ],
)
def test_all_softmaxes_reach_the_best_perplexity_there_is(softmax):
    # The first of two words is drawn from 20, some often and some rarely; the second follows from it, and so does the
    # sentence's end. So the best mean loss, in both directions, is a third of the entropy of that draw.
    words = [f"w{number}" for number in range(20)]
    counts = [20 // (number + 1) for number in range(20)]
    sentences = [f"w{number} w{(number + 7) % 20}" for number in range(20) for _ in range(counts[number])]
    entropy = -sum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)
    vocab = make_vocab([*WORDS[:3], *words])
    batches = list(sentence_batches(sentences, len(sentences), vocab))
    model = make_model(vocab=vocab, softmax=softmax, sizes=LEARNING_SIZES)
    assert measure(model, batches)["perplexity"] > 15
    train(model, batches, num_epochs=120)
    assert measure(model, batches)["perplexity"] == pytest.approx(math.exp(entropy / 3), rel=0.1)


def test_training_takes_the_configured_objective_and_evaluation_the_exact_one():
    vocab = make_vocab([*WORDS, *(f"rare{number}" for number in range(100))])
    sampled, full = (
        make_model(vocab=vocab, softmax=softmax) for softmax in ({"type": "sampled", "num_samples": 3}, None)
    )
    (batch,) = sentence_batches(SENTENCES, 10, vocab)
    assert sampled.train()(**batch)["loss"].item() < 0.8 * full.train()(**batch)["loss"].item()
    assert sampled.eval()(**batch)["loss"].item() == pytest.approx(full.eval()(**batch)["loss"].item())
    assert math.exp(full(**batch)["loss"].item()) == pytest.approx(
        measure(full, [batch])["exp_mean_loss_perplexity"], rel=1e-5
    )


def test_a_batch_of_padding_alone_has_no_loss_and_no_gradient(tmp_path):
    model = make_model()
    loader = windows(tmp_path, SENTENCES, 2, 4)
    batch = loader._tensors([])
    loss = model(**batch)["loss"]
    loss.backward()
    assert loss.item() == 0.0
    assert all(not parameter.grad.any() for parameter in model.parameters())


def test_dropout_acts_before_the_softmax_in_training_only():
    model = make_model(dropout=0.5)
    (batch,) = sentence_batches(SENTENCES, 10)
    assert model.train()(**batch)["loss"].item() != model(**batch)["loss"].item()
    assert model.eval()(**batch)["loss"].item() == model(**batch)["loss"].item()


def test_a_frozen_bilm_stays_as_it_is_while_the_softmax_is_fitted():
    model = make_model(bilm_dropout=0.5)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.startswith("bilm.")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    batches = list(sentence_batches(SENTENCES, 2))
    start = measure(model, batches)["perplexity"]
    train(model, batches, num_epochs=10)
    model.train()
    assert not model.bilm.training and model.training
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {"softmax.weight", "softmax.bias"}
    assert measure(model, batches)["perplexity"] < start


def test_a_bilm_that_learns_has_dropout_in_training():
    model = make_model(bilm_dropout=0.5)
    assert model.train().bilm.training and not model.eval().bilm.training


def test_every_parameter_belongs_to_the_bilm_or_the_softmax():
    assert {name.split(".")[0] for name, _ in make_model().named_parameters()} == {"bilm", "softmax"}


def test_metric_sums_can_be_saved_and_taken_up_again():
    model, resumed = make_model(), make_model()
    batches = list(sentence_batches(SENTENCES, 2))
    expected = measure(model, batches)
    with torch.no_grad():  # as `measure` runs: with gradients the sums are in another order
        model(**batches[0])
    load_metric_state(resumed, metric_state(model), torch.device("cpu"))
    assert measure(resumed, batches[1:]) == expected


def test_the_softmax_is_full_unless_configured():
    model = Model.from_params(Params({"type": "elmo::bilm", "bilm": {"type": "random", **SIZES}}), vocab=make_vocab())
    assert type(model.softmax) is FullSoftmax and model.softmax.weight.shape == (len(WORDS), 8)


def config(**model) -> Params:
    return Params(
        {
            "dataset_reader": {"type": "elmo::bilm"},
            "model": {"type": "elmo::bilm", "bilm": {"type": "random", **SIZES}, "softmax": {"type": "full"}, **model},
        }
    )


def save(model: Model, folder: Path, **model_params) -> str:
    """An archive of the model, as training leaves it."""
    folder.mkdir()
    config(**model_params).to_file(str(folder / "config.json"))
    model.vocab.save_to_files(str(folder / "vocabulary"))
    torch.save(model.state_dict(), folder / "best.th")
    (folder / "meta.json").write_text('{"version": "2.10.1"}', encoding="utf-8")
    return archive_model(folder)


def test_training_goes_on_from_an_archive_and_the_result_does_not_need_it(tmp_path):
    first = make_model(seed=5)
    archive = save(first, tmp_path / "first")
    vocab = Vocabulary.from_files(archive)
    model = Model.from_params(config(pretrained_file=archive)["model"], vocab=vocab)
    for name, parameter in first.state_dict().items():
        assert torch.equal(model.state_dict()[name], parameter), name
    second = save(model, tmp_path / "second", pretrained_file=archive)
    Path(archive).unlink()
    reloaded = Model.from_archive(second)
    batches = list(sentence_batches(SENTENCES, 2))
    assert measure(reloaded, batches) == measure(first, batches)


def biased_model() -> BiLmLanguageModel:
    """A model whose biases aren't zero, as they are before any training."""
    model = make_model(seed=5)
    model.softmax.bias.data.copy_(torch.arange(1.0, 1.0 + len(WORDS)))
    return model


@pytest.fixture
def folder(tmp_path):
    """What 'bilm-export --softmax' writes."""
    model = biased_model()
    checkpoint.write(model.bilm, tmp_path / "weights.hdf5", tmp_path / "options.json")
    softmax_file.write(model.word_softmax(), tmp_path / "softmax.hdf5")
    return tmp_path


def test_training_goes_on_from_a_folder_with_its_softmax(folder):
    first, model = biased_model(), make_model(seed=6, pretrained_file=str(folder))
    for name, parameter in first.bilm.state_dict().items():
        assert torch.equal(model.bilm.state_dict()[name], parameter), name
    largest = first.softmax.weight.abs().amax(dim=1, keepdim=True)
    assert ((model.softmax.weight - first.softmax.weight).abs() <= largest / 254 * 1.001).all()
    assert torch.equal(model.softmax.bias, first.softmax.bias)


def test_a_folder_with_other_words_or_sizes_is_refused_by_name(folder):
    with pytest.raises(ConfigurationError, match=f"the words of {folder} aren't those"):
        make_model(vocab=make_vocab([*WORDS, "x"]), pretrained_file=str(folder))
    with pytest.raises(ConfigurationError, match=f"{folder} isn't what this config describes(.|\n)*size mismatch"):
        make_model(sizes={"cell_dim": 16}, pretrained_file=str(folder))


def test_an_adaptive_softmax_has_no_weights_by_word():
    model = make_model(softmax={"type": "adaptive", "div_value": 1.5})
    with pytest.raises(ConfigurationError, match="not AdaptiveSoftmax"):
        model.word_softmax()


def test_an_archive_with_other_words_is_refused_by_name(tmp_path):
    archive = save(make_model(), tmp_path / "first")
    vocab = make_vocab([*WORDS[:4], "x", *WORDS[5:]])
    with pytest.raises(ConfigurationError, match=r"number 4, 'b' there and 'x' here(.|\n)*\"language_model\""):
        make_model(vocab=vocab, pretrained_file=archive)
    with pytest.raises(ConfigurationError, match="7 there, 8 here, and the first that differs is number 7, None there"):
        make_model(vocab=make_vocab([*WORDS, "x"]), pretrained_file=archive)
    with pytest.raises(ConfigurationError, match="7 there, 6 here, and the first that differs is number 6"):
        make_model(vocab=make_vocab(WORDS[:-1]), pretrained_file=archive)


def test_an_archive_of_other_sizes_is_refused(tmp_path):
    save(make_model(), tmp_path / "first")
    with pytest.raises(ConfigurationError, match="first isn't what this config describes(.|\n)*size mismatch"):
        make_model(sizes={"cell_dim": 16}, pretrained_file=str(tmp_path / "first"))


def test_a_vocabulary_without_classes_is_refused():
    with pytest.raises(ConfigurationError, match="it lacks </S>"):
        make_model(vocab=make_vocab(["<S>", "<UNK>", "a"]))


def test_tokens_without_characters_are_refused():
    with pytest.raises(ConfigurationError, match=r"token indexer elmo::characters; it has \['tokens'\]"):
        make_model()(tokens={"tokens": {"tokens": torch.ones(1, 2)}}, target_ids=torch.ones(1, 2))


def test_a_batch_of_neither_layout_is_refused():
    with pytest.raises(
        ConfigurationError, match="neither; to be windows it lacks characters, forward_inputs, .*starts"
    ):
        make_model()(tokens={"elmo": {"elmo_tokens": torch.ones(1, 2, 50)}})


def test_an_impossible_reset_probability_is_refused():
    with pytest.raises(ConfigurationError, match="between 0 and 1, got 1.5"):
        make_model(reset_probability=1.5)
