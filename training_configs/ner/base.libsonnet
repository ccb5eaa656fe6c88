// A biLSTM-CRF tagger on CoNLL-2003, as A.7 of the ELMo paper: everything but contextual vectors.
//
// From A.7: 50-d Senna vectors, fine-tuned; a character CNN of 128 filters of width 3 over 16-d characters; biLSTMs of
// 200 and 100 units, which are read as those of each direction; Adam at a constant 0.001; gradient norm 5; early
// stopping on the dev set. The paper is silent on the rest: the dropout rate, the batch size, epochs and patience are
// those of AllenNLP's own NER experiments, and so is BIOUL.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';
local words = import '../lib/words.libsonnet';

trainer.experiment({
  local config = self,

  // The knobs.
  coding_scheme:: 'BIOUL',
  word_dim:: 50,
  character_dim:: 16,
  num_filters:: 128,
  filter_width:: 3,
  lower_dim:: 200,
  upper_dim:: 100,
  dropout:: 0.5,
  batch_size:: 64,
  learning_rate:: 0.001,
  num_epochs:: 75,

  local bilstm(dim) = { type: 'elmo::lstm', hidden_size: dim, num_layers: 1, bidirectional: true },

  dataset_reader: {
    type: 'elmo::ner',
    coding_scheme: config.coding_scheme,
    token_indexers: {
      // Senna's words are in lower case, with 0 for each number; the characters below are unchanged.
      tokens: words.indexer(lowercase=true, zero_numbers=true),
      // AllenNLP's CNN skips filters that reach into the padding: without marks at both ends, words of fewer than
      // three characters would all look the same.
      token_characters: words.character_indexer(config.filter_width) {
        character_tokenizer: { start_tokens: ['<w>'], end_tokens: ['</w>'] },
      },
    },
  },
  train_data_path: data.path('ELMO_NER_TRAIN'),
  validation_data_path: data.path('ELMO_NER_DEV'),
  model: {
    type: 'elmo::ner',
    coding_scheme: config.coding_scheme,
    text_embedder: {
      words: {
        token_embedders: {
          tokens: words.vectors(config.word_dim, trainable=true),
          token_characters: words.character_cnn(config.character_dim, config.num_filters, [config.filter_width]),
        },
      },
    },
    lower_encoder: bilstm(config.lower_dim),
    upper_encoder: bilstm(config.upper_dim),
    dropout: config.dropout,
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: config.batch_size, sorting_keys: ['tokens'] } },
  trainer: trainer.resumable {
    optimizer: { type: 'adam', lr: config.learning_rate },
    grad_norm: 5.0,
    num_epochs: config.num_epochs,
    patience: 25,
    validation_metric: '+f1',
  },
})
