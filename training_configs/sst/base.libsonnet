// SST-5 without contextual vectors: the biattentive classification network of McCann et al. 2017, as A.8 of the ELMo
// paper changes it.
//
// From A.8: biLSTMs of 300 units per direction, two ReLU layers with dropout before the classes, training on phrases of
// four or more tokens, Adam at 0.0001. The paper is silent on the rest: the widths of feed-forward layers, dropout,
// batch size, gradient norm, epochs and patience are those of AllenNLP's BCN, except for `encoded_dropout`, which it
// lacks.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  granularity:: '5-class',
  word_dim:: 300,
  hidden_dim:: 300,
  batch_size:: 100,
  learning_rate:: 0.0001,
  num_epochs:: 40,

  local bilstm = { type: 'elmo::lstm', hidden_size: config.hidden_dim, bidirectional: true },

  dataset_reader: {
    type: 'elmo::sst',
    granularity: config.granularity,
    phrases: true,
    min_tokens: 4,
    // The GloVe vectors of the paper (840B) know upper and lower case.
    token_indexers: { tokens: words.indexer(lowercase=false) },
  },
  // Whole sentences, all of them; otherwise the training set's reader, which may lie inside an `elmo::fraction`.
  validation_dataset_reader: std.get(config.dataset_reader, 'reader', config.dataset_reader) { phrases: false },
  train_data_path: data.path('ELMO_SST_TRAIN'),
  validation_data_path: data.path('ELMO_SST_DEV'),

  model: {
    type: 'elmo::sst',
    text_embedder: {
      words: { token_embedders: { tokens: words.vectors(config.word_dim, trainable=false) } },
    },
    embedding_dropout: 0.5,
    token_feedforward: { num_layers: 1, hidden_dims: config.hidden_dim, activations: 'relu', dropout: 0.25 },
    encoder: bilstm,
    encoded_dropout: 0.25,
    integrator: bilstm,
    pooled_dropout: 0.1,
    feedforward: {
      num_layers: 2,
      hidden_dims: [4 * config.hidden_dim, 2 * config.hidden_dim],
      activations: 'relu',
      dropout: [0.2, 0.3],
    },
  },

  data_loader: {
    batch_sampler: { type: 'bucket', batch_size: config.batch_size, sorting_keys: ['tokens'] },
  },
  validation_data_loader: { batch_size: config.batch_size },

  trainer: trainer.resumable {
    optimizer: { type: 'adam', lr: config.learning_rate },
    grad_norm: 5.0,
    num_epochs: config.num_epochs,
    patience: 5,
    validation_metric: '+accuracy',
  },
})
