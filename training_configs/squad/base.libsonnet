// BiDAF with self-attention on SQuAD 1.1, as A.4 of the ELMo paper: everything but contextual vectors.
//
// From A.4: case-sensitive 300-d GloVe vectors, fixed, and a character CNN; GRUs of 90 units, which are read as those
// of each direction; linear layers of 180; variational dropout 0.2; Adadelta; batches of 45; an exponential average of
// the weights; answers of at most 17 tokens. From the authors' code: the character CNN's sizes, zeros for words without
// a vector, the learning rate 1.0, the average's 0.999, and 24 epochs, of which the best on the dev set counts. Not in
// either: Adadelta's rho, which is that of its own paper.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  word_dim:: 300,
  character_dim:: 20,
  num_filters:: 100,
  filter_width:: 5,
  dim:: 90,
  projection_dim:: 180,
  dropout:: 0.2,
  batch_size:: 45,
  // Longer passages are cut here, where memory is short; an answer past the cut counts as missed.
  max_passage_tokens:: null,
  learning_rate:: 1.0,
  num_epochs:: 24,

  bigru:: { type: 'elmo::gru', hidden_size: config.dim, num_layers: 1, bidirectional: true },

  dataset_reader: {
    type: 'elmo::squad',
    max_passage_tokens: config.max_passage_tokens,
    token_indexers: {
      tokens: words.indexer(lowercase=false),
      // AllenNLP's CNN skips filters that reach into the padding: with two marks at each end, even a word of one
      // character fills a filter of width 5.
      token_characters: words.character_indexer(config.filter_width) {
        character_tokenizer: { start_tokens: ['<w>', '<w>'], end_tokens: ['</w>', '</w>'] },
      },
    },
  },
  train_data_path: data.path('ELMO_SQUAD_TRAIN'),
  validation_data_path: data.path('ELMO_SQUAD_DEV'),
  model: {
    type: 'elmo::squad',
    text_embedder: {
      words: {
        token_embedders: {
          tokens: words.vectors(config.word_dim, trainable=false) + { missing: 'zeros' },
          token_characters: words.character_cnn(config.character_dim, config.num_filters, [config.filter_width]),
        },
      },
    },
    encoder: config.bigru,
    projection: { num_layers: 1, hidden_dims: config.projection_dim, activations: 'relu' },
    modeling: config.bigru,
    heads: { type: 'linear' },
    dropout: config.dropout,
    max_span_tokens: 17,
  },
  data_loader: {
    batch_sampler: { type: 'bucket', batch_size: config.batch_size, sorting_keys: ['passage', 'question'] },
  },
  trainer: trainer.resumable {
    optimizer: { type: 'adadelta', lr: config.learning_rate, rho: 0.95 },
    // What is validated, and what the archive holds, is the average.
    moving_average: { type: 'exponential', decay: 0.999 },
    num_epochs: config.num_epochs,
    validation_metric: '+f1',
  },
})
