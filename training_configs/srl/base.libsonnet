// The deep LSTM of He et al. (2017) on OntoNotes, as A.5 of the ELMo paper: everything but contextual vectors.
//
// From A.5: 100-d GloVe vectors, fine-tuned; a 100-d embedding of the predicate feature; 8 LSTM layers of 300 with
// highway connections and recurrent dropout of 0.1; Adadelta at 1.0 with rho 0.95; gradients clipped by value at 1.0;
// 500 epochs, or until dev F1 hasn't risen for 200. From He et al.'s code: batches of 80, training sentences of up to
// 100 tokens.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  word_dim:: 100,
  predicate_dim:: 100,
  hidden_dim:: 300,
  num_layers:: 8,
  recurrent_dropout:: 0.1,
  max_tokens:: 100,
  batch_size:: 80,
  learning_rate:: 1.0,
  num_epochs:: 500,

  dataset_reader: {
    type: 'elmo::srl',
    max_tokens: config.max_tokens,
    // GloVe's 6B vectors, the ones with 100 dimensions, are in lower case.
    token_indexers: { tokens: words.indexer(lowercase=true) },
  },
  // Sentences of any length; otherwise the training set's reader, which may lie inside an `elmo::fraction`.
  validation_dataset_reader: std.get(config.dataset_reader, 'reader', config.dataset_reader) { max_tokens: null },
  train_data_path: data.path('ELMO_SRL_TRAIN'),
  validation_data_path: data.path('ELMO_SRL_DEV'),

  model: {
    type: 'elmo::srl',
    text_embedder: { words: { token_embedders: { tokens: words.vectors(config.word_dim, trainable=true) } } },
    predicate_dim: config.predicate_dim,
    encoder: {
      type: 'elmo::alternating_lstm',
      hidden_size: config.hidden_dim,
      num_layers: config.num_layers,
      recurrent_dropout: config.recurrent_dropout,
    },
    // AllenNLP's for any embedding.
    initializer: { regexes: [['predicate_embedding\\.weight', 'xavier_uniform']] },
  },

  // The predicates of a sentence side by side, so that they share one pass of the biLM.
  data_loader: { batch_sampler: { type: 'elmo::sentences', batch_size: config.batch_size } },
  validation_data_loader: { batch_size: config.batch_size },

  trainer: trainer.resumable {
    optimizer: { type: 'adadelta', lr: config.learning_rate, rho: 0.95 },
    grad_clipping: 1.0,
    num_epochs: config.num_epochs,
    patience: 200,
    validation_metric: '+f1',
  },
})
