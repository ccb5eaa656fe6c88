// AllenNLP's own simple_tagger with word vectors alone, on the invented sentences in fixtures/: what
// simple_tagger_elmo.jsonnet is compared with.
//
//   allennlp train training_configs/examples/simple_tagger_baseline.jsonnet -s runs/tagger_baseline
local trainer = import '../lib/trainer.libsonnet';

trainer.experiment({
  local config = self,
  local word_dim = 32,
  dataset_reader: { type: 'sequence_tagging', token_indexers: { tokens: { type: 'single_id' } } },
  train_data_path: 'fixtures/data/demo/tagged.train.txt',
  validation_data_path: 'fixtures/data/demo/tagged.dev.txt',
  // A word that only the development set has is an unknown word.
  datasets_for_vocab_creation: ['train'],
  model: {
    type: 'simple_tagger',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: word_dim } } },
    encoder: { type: 'lstm', input_size: config.encoder_dim, hidden_size: 32, bidirectional: true },
  },
  encoder_dim:: word_dim,
  data_loader: { batch_size: 8, shuffle: true },
  trainer: trainer.resumable {
    optimizer: { type: 'adam', lr: 0.005 },
    num_epochs: 30,
    patience: 10,
    validation_metric: '+accuracy',
  },
})
