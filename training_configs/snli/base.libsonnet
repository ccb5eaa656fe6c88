// ESIM on SNLI, as A.3 of the ELMo paper: everything but contextual vectors.
//
// Not in the paper, and taken from common practice: how long to train (75 epochs, or until dev accuracy hasn't risen
// for 5), and batches of similar lengths. Words keep their case: Chen et al. (2017) used the cased GloVe 840B.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  dim:: 300,
  dropout:: 0.5,
  // ELMo's own. A.3's dropout of 0.5 at the input of each LSTM falls on its vectors at both placements, so that they have
  // no more; with a lower `dropout` they need it (RESULTS.md, Choices).
  elmo_dropout:: 0.0,
  batch_size:: 32,
  learning_rate:: 0.0004,
  num_epochs:: 75,

  local bilstm = { type: 'elmo::lstm', hidden_size: config.dim, num_layers: 1, bidirectional: true },
  local relu_layer = { num_layers: 1, hidden_dims: config.dim, activations: 'relu' },

  dataset_reader: {
    type: 'elmo::snli',
    token_indexers: { tokens: words.indexer(lowercase=false) },
  },
  train_data_path: data.path('ELMO_SNLI_TRAIN'),
  validation_data_path: data.path('ELMO_SNLI_DEV'),
  model: {
    type: 'elmo::snli',
    text_embedder: { words: { token_embedders: { tokens: words.vectors(config.dim, trainable=false) } } },
    encoder: bilstm,
    projection: relu_layer,
    composition: bilstm,
    classifier: relu_layer,
    dropout: config.dropout,
  },
  data_loader: {
    batch_sampler: { type: 'bucket', batch_size: config.batch_size, sorting_keys: ['premise', 'hypothesis'] },
  },
  trainer: trainer.resumable {
    optimizer: { type: 'adam', lr: config.learning_rate },
    // "Halved whenever dev accuracy did not rise": at once, and by any rise at all.
    learning_rate_scheduler: { type: 'reduce_on_plateau', mode: 'max', factor: 0.5, patience: 0, threshold: 0.0 },
    grad_norm: 5.0,
    num_epochs: config.num_epochs,
    patience: 5,
    validation_metric: '+accuracy',
  },
})
